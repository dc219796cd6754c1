"""The benchmark runner measures what it says: on known costs, and on CPU against itself."""

import pathlib
import subprocess
import sys

import pytest

from benchmarks.child import share_compiled
from benchmarks.measure import compare

pytestmark = pytest.mark.host_only
ROOT = pathlib.Path(__file__).parents[2]


class ManualClock:
    """Time that passes only when a step says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def step(self, *costs):
        costs = list(costs)

        def run():
            costs.append(costs.pop(0))
            self.now += costs[-1]

        return run


def test_a_known_ratio_is_found_and_drift_cancels():
    clock = ManualClock()
    result = compare(clock.step(2.0), clock.step(1.0), 10, clock)
    assert (result.ratio, result.low, result.high) == (2.0, 2.0, 2.0)
    drifting = clock.step(3, 30, 300, 3000), clock.step(1, 10, 100, 1000)
    assert compare(*drifting, 8, clock).ratio == pytest.approx(3.0)


def test_one_outlier_does_not_move_the_median():
    clock = ManualClock()
    result = compare(clock.step(1, 1, 1, 1, 1, 1, 1, 1, 1000), clock.step(1), 9, clock)
    assert result.ratio == 1.0


def test_both_sides_run_equally_often_and_take_turns_going_first():
    order = []
    compare(lambda: order.append("a"), lambda: order.append("b"), 4, iter(range(100)).__next__)
    assert "".join(order) == "abbaabba"


def test_the_share_in_snippets_is_of_all_operators():
    assert share_compiled({0: 1, 1: 2, 2: 1, "host": 1}) == pytest.approx(3 / 5)
    assert share_compiled({}) == 0


@pytest.mark.parametrize("case", ["steady", "first_step", "capture", "memory"])
def test_every_case_runs_on_cpu_against_itself(case):
    command = [
        sys.executable,
        "-m",
        "benchmarks.run",
        case,
        "--device",
        "cpu",
        "--size",
        "test",
        "--pairs",
        "4",
    ]
    if case != "capture":
        command += ["--models", "gpt"]
    done = subprocess.run(
        [*command, "--modes", "eager", "--warmup", "0.1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ratio" in done.stdout
