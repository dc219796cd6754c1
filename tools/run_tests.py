"""Runs every test suite and closes with one line of totals: `N passed, N failed, N skipped`.

    python tools/run_tests.py --build build/release [--quick] [--only NAME] [--jobs N]

As many suites at a time as there are cores, each on one thread; a suite's output comes when it ends.
ctest counts as one test per executable, pytest and the mode runs as one per case. A suite that dies without a
report counts as one failure, so a crash cannot pass for success. Each suite gets an empty cache folder of its
own: what it compiles it compiles cold, and nothing of the user's is touched.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMIT_SECONDS = 40 * 60
DEVICE_TESTS = ["tests/python", "tests/regressions"]


@dataclass
class Suite:
    name: str
    command: list[str]  # {report} stands for the JUnit file that the command writes
    env: dict[str, str] = field(default_factory=dict)
    quick: bool = True


def suites(build: str) -> list[Suite]:
    pytest = [sys.executable, "-m", "pytest", "-q", "--junitxml={report}"]
    device = [*pytest, *(folder for folder in DEVICE_TESTS if any((ROOT / folder).glob("test_*.py")))]
    ctest = ["ctest", "--test-dir", build, "--output-on-failure", "-j2"]
    modes = [sys.executable, "tests/modes/run_modes.py", "--report", "{report}"]
    return [
        Suite("unit", [*ctest, "--output-junit", "{report}", "-LE", "slow"]),
        # Values of single lowerings through the plugin: no device, so once is enough. By pytest and not by ctest,
        # so that its cases are counted one by one.
        Suite(
            "lowering",
            [*pytest, "tests/lowering"],
            {"DENDRITE_LOWERING_HARNESS": str(ROOT / build / "libdendrite_lowering_harness.so")},
        ),
        Suite("embedded", device, {"DENDRITE_TARGET": "embedded", "DENDRITE_MODE": "adaptive"}),
        Suite(
            "opaque",
            # Each operator by itself is compiled here, so a share of the parameter sets has to do; the modes
            # below run the smoke tests whole.
            [*device, "--modes=adaptive", "--share=0.4", "-m", "not host_only"],
            {"DENDRITE_TARGET": "opaque", "DENDRITE_MODE": "adaptive", "DENDRITE_TIER": "compiled"},
            quick=False,
        ),
        # A seeded part of PyTorch's own databases on both targets; `make conformance` runs them whole.
        Suite("conformance", [*pytest, "tests/conformance"], quick=False),
        Suite("modes", modes, quick=False),
    ]


@dataclass
class Totals:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: "Totals") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def read_report(path: pathlib.Path) -> Totals:
    totals = Totals()
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            totals.failed += 1
        elif case.find("skipped") is not None:
            totals.skipped += 1
        else:
            totals.passed += 1
    return totals


def run_suite(suite: Suite, folder: pathlib.Path, threads: int | None = None) -> Totals:
    """Runs one suite; on that many threads of PyTorch's if `threads` is given, unless the environment says else."""
    report = folder / f"{suite.name}.xml"
    cache = folder / f"cache-{suite.name}"
    report.unlink(missing_ok=True)
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(mode=0o700)
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), **suite.env}
    if threads is not None:
        env.setdefault("OMP_NUM_THREADS", str(threads))
    print(f"... {suite.name} begins", flush=True)
    begin = time.monotonic()
    command = [part.format(report=report) for part in suite.command]
    log = folder / f"{suite.name}.log"
    with open(log, "w") as output:
        try:
            code = subprocess.run(
                command, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT, timeout=LIMIT_SECONDS
            ).returncode
        except subprocess.TimeoutExpired:
            output.write(f"{suite.name}: stopped after {LIMIT_SECONDS} s\n")
            code = -1
    setting = " ".join(f"{key}={value}" for key, value in suite.env.items())
    # One print, so that the output of suites that end together does not mix.
    print(
        f"\n=== {suite.name} ({time.monotonic() - begin:.0f} s): {setting}\n{log.read_text(errors='replace')}",
        flush=True,
    )
    totals = read_report(report) if report.exists() else Totals()
    if code != 0 and totals.failed == 0:
        print(f"{suite.name}: exit code {code} without a failed case in its report: counted as one failure")
        totals.failed = 1
    if totals.passed + totals.failed == 0:
        print(f"{suite.name}: ran no test: counted as one failure")
        totals.failed = 1
    shutil.rmtree(cache, ignore_errors=True)
    return totals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--quick", action="store_true", help="unit and embedded only")
    parser.add_argument("--only", help="one suite by name")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="suites at a time")
    args = parser.parse_args()
    folder = (ROOT / args.build / "test-reports").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [s for s in suites(args.build) if s.quick or not args.quick]
    if args.only:
        chosen = [s for s in suites(args.build) if s.name == args.only]
        if not chosen:
            parser.error(f"no suite {args.only!r}")
    threads = 1 if args.jobs > 1 and len(chosen) > 1 else None
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        # The long ones first: suites() lists the short ones first.
        runs = {s.name: pool.submit(run_suite, s, folder, threads) for s in reversed(chosen)}
        rows = {s.name: runs[s.name].result() for s in chosen}
    total = Totals()
    print()
    for name, totals in rows.items():
        print(f"  {name:10} {totals}")
        total.add(totals)
    print()
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
