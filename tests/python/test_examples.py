"""Every example runs, prints something, and is short enough to read."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.host_only
def test_there_are_examples_and_each_is_under_60_lines():
    assert len(EXAMPLES) >= 3
    for path in EXAMPLES:
        assert len(path.read_text().splitlines()) < 60, path.name


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_runs(path, device):
    if device != "neuron":
        pytest.skip("examples name the device neuron")
    done = subprocess.run(
        [sys.executable, path], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
