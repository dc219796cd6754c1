"""The layer table of docs/architecture.md holds, and the checker that says so can fail."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.host_only
ROOT = pathlib.Path(__file__).parents[2]
CHECKER = ROOT / "tools" / "check_layers.py"

spec = importlib.util.spec_from_file_location("check_layers", CHECKER)
check_layers = importlib.util.module_from_spec(spec)
sys.modules["check_layers"] = check_layers
spec.loader.exec_module(check_layers)


def run_on(root):
    return subprocess.run([sys.executable, CHECKER, root], capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path):
    """A small tree with the real table; returns a function that writes a source file into it."""
    (tmp_path / "docs").mkdir()
    table = (ROOT / "docs" / "architecture.md").read_text()
    (tmp_path / "docs" / "architecture.md").write_text(table)

    def write(name, text):
        path = tmp_path / "csrc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("base/status.h", "#include <string>\n")
    write.root = tmp_path
    return write


def test_this_tree_obeys_the_table():
    result = run_on(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_table_rows_are_the_designed_layers():
    layers = check_layers.read_layers((ROOT / "docs" / "architecture.md").read_text())
    assert list(layers) == [
        "base",
        "tape",
        "stablehlo",
        "lowering",
        "pjrt",
        "cache",
        "planner",
        "compiler",
        "engine",
        "device",
        "interpreter",
        "aten",
        "distributed",
        "python",
    ]
    assert layers["base"].may_include == {"base"}
    assert layers["planner"].may_include == {"planner", "base", "tape"}
    assert "planner" not in layers["compiler"].may_include
    assert [name for name, layer in layers.items() if layer.pytorch] == (
        ["device", "interpreter", "aten", "distributed", "python"]
    )


@pytest.mark.parametrize(
    ("name", "include", "message"),
    [
        ("tape/a.cc", '"csrc/engine/stream.h"', "csrc/tape may not include csrc/engine"),
        ("base/a.h", '"csrc/tape/record.h"', "csrc/base may not include csrc/tape"),
        ("compiler/a.cc", '"csrc/planner/plan.h"', "csrc/compiler may not include csrc/planner"),
        ("device/a.cc", '"csrc/aten/capture.h"', "csrc/device may not include csrc/aten"),
        ("planner/a.cc", "<csrc/engine/stream.h>", "csrc/planner may not include csrc/engine"),
        ("engine/a.cc", "<ATen/ATen.h>", "csrc/engine may not see PyTorch"),
        ("lowering/a_test.cc", "<torch/library.h>", "csrc/lowering may not see PyTorch"),
        ("cache/a.cc", '"csrc/testing/clock.h"', "only tests may include csrc/testing"),
        ("testing/a.cc", '"csrc/pjrt/client.h"', "csrc/testing may not include csrc/pjrt"),
        ("base/a.cc", '"status.h"', "write the path from the root"),
        ("misc/a.cc", "<string>", "csrc/misc has no row"),
    ],
)
def test_a_violation_is_found_and_named(tree, name, include, message):
    tree(name, f"// a comment\n#include {include}\n")
    result = run_on(tree.root)
    assert result.returncode == 1
    assert f"csrc/{name}:" in result.stdout
    assert message in result.stdout


@pytest.mark.parametrize(
    ("name", "include"),
    [
        ("tape/a.cc", '"csrc/base/status.h"'),
        ("cache/a_test.cc", '"csrc/testing/clock.h"'),
        ("engine/a.cc", '"csrc/planner/plan.h"'),
        ("aten/a.cc", "<ATen/ATen.h>"),
        ("python/a.cc", '"csrc/distributed/group.h"'),
        ("testing/clock.cc", '"csrc/base/clock.h"'),
        ("pjrt/a.cc", '"pjrt_c_api.h"'),
    ],
)
def test_what_the_table_allows_passes(tree, name, include):
    tree(name, f"#include {include}\n")
    result = run_on(tree.root)
    assert result.returncode == 0, result.stdout


def test_a_row_may_only_name_rows_above_it():
    table = "| `csrc/base` | x | tape |\n| `csrc/tape` | x | base |\n"
    with pytest.raises(ValueError, match="no row above"):
        check_layers.read_layers(table)
