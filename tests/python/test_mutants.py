"""The faults of tools/mutants fit the code: each old text stands exactly once, each named test exists. Whether the
tests catch them is `make mutants`."""

import pathlib
import re
import subprocess
import sys

import pytest

from tools.mutants.faults import Fault, NamedTest, load

pytestmark = pytest.mark.host_only
ROOT = pathlib.Path(__file__).parents[2]
FAULTS = load()


def exists(test):
    """Whether the sources have the test."""
    if test.is_unit:
        folder = ROOT / "csrc" / test.command[0].removeprefix("dendrite_").removesuffix("_test")
        suite, case = test.command[1].removeprefix("All/").split("/")[0].split(".")
        name = "[A-Z]" if case == "*" else f"{case}[)]"
        pattern = rf"TEST(_F|_P)?[(]\s*{suite},\s*{name}"
        return any(re.search(pattern, path.read_text()) for path in folder.glob("*_test.cc"))
    path, function = test.command[0].split("[")[0].split("::")
    return (ROOT / path).is_file() and f"def {function}(" in (ROOT / path).read_text()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_fault_fits_the_code(fault):
    assert fault.problem(ROOT) == ""
    assert exists(NamedTest.parse(fault.test)), fault.test


def test_there_are_faults_in_every_layer():
    folders = {"/".join(fault.file.split("/")[:2]) for fault in FAULTS}
    wanted = "base tape lowering cache planner compiler engine interpreter aten device".split()
    assert {f"csrc/{layer}" for layer in wanted} <= folders
    assert any(fault.file.startswith("torch_dendrite/") for fault in FAULTS)
    assert len(FAULTS) >= 40
    assert sum(NamedTest.parse(fault.test).needs_torch_layers for fault in FAULTS) >= 10


@pytest.mark.parametrize(
    ("file", "old", "problem"),
    [
        ("code.cc", "int x;", ""),
        ("code.cc", "int y;", "stands 2 times"),
        ("code.cc", "int z;", "stands 0 times"),
        ("gone.cc", "int x;", "does not exist"),
        ("code.cc", "new", "is the new text"),
    ],
)
def test_a_fault_that_does_not_fit_is_named(tmp_path, file, old, problem):
    (tmp_path / "code.cc").write_text("int x;\nint y;\nint y;\nnew\n")
    assert problem in Fault("a fault", file, old, "new", "dendrite_x_test A.B").problem(tmp_path)
    assert bool(problem) == bool(Fault("a fault", file, old, "new", "dendrite_x_test A.B").problem(tmp_path))


def test_a_malformed_list_is_refused(tmp_path):
    (tmp_path / "a.toml").write_text('[[fault]]\nwhat = "x"\nfile = "f"\n')
    with pytest.raises(ValueError, match="keys of a fault"):
        load(tmp_path)
    entry = '[[fault]]\nwhat = "x"\nfile = "f"\nold = "a"\nnew = "b"\ntest = "dendrite_x_test A.B"\n'
    (tmp_path / "a.toml").write_text(entry + entry)
    with pytest.raises(ValueError, match="twice"):
        load(tmp_path)


def test_tests_are_parsed():
    unit = NamedTest.parse("dendrite_cache_test KeyTest.EachIngredientCounts")
    assert unit.targets == ["dendrite_cache_test"]
    device = NamedTest.parse("DENDRITE_TIER=compiled tests/python/test_x.py::test_y[a=b] --modes=eager")
    assert device.env == (("DENDRITE_TIER", "compiled"),)
    assert device.command == ("tests/python/test_x.py::test_y[a=b]", "--modes=eager")
    assert device.needs_torch_layers
    assert not NamedTest.parse("tests/lowering/test_x.py::test_y").needs_torch_layers


def test_the_list_is_printed():
    done = subprocess.run(
        [sys.executable, "-m", "tools.mutants", "--list", "--only", "csrc/cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "DiskStoreTest.EveryBitFlipIsAMiss" in done.stdout
