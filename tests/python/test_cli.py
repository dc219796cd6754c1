"""The command `dendrite`: each command does what its help says."""

import json
import os
import subprocess
import sys

import pytest
import torch

import torch_dendrite

pytestmark = pytest.mark.host_only

PROGRAM = """
import sys
import torch
x = torch.ones(64, device="neuron")
for _ in range(4):
    x = (x * 2 + 1).relu() / 3
print(sys.argv[1:], torch.neuron.get_execution_mode(), __name__, round(x.sum().item(), 3))
"""


@pytest.fixture
def dendrite(tmp_path):
    def run(*arguments, fails=False, **env):
        base = {k: v for k, v in os.environ.items() if not k.startswith("DENDRITE_")}
        base["XDG_CACHE_HOME"] = str(tmp_path / "cache")
        done = subprocess.run(
            [sys.executable, "-m", "torch_dendrite.cli", *arguments],
            env={**base, **env},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout

    (tmp_path / "program.py").write_text(PROGRAM)
    return run


def test_info(dendrite):
    facts = json.loads(dendrite("info", "--json", DENDRITE_TIER="compiled", DENDRITE_OPAQUE="1"))
    assert facts["version"] == torch_dendrite.__version__
    assert facts["torch"] == torch.__version__
    assert facts["target"] == "opaque"
    assert facts["traits"]["host_visible"] is False
    assert facts["plugin"]["plugin"].endswith(".so")
    assert facts["plugin"]["api_version"].startswith("0.")
    assert facts["settings"] == {"DENDRITE_OPAQUE": "1", "DENDRITE_TIER": "compiled"}
    assert facts["cache"]["folder"].endswith("cache/dendrite")
    text = dendrite("info")
    assert "target: embedded" in text
    assert "settings: none" in text


def test_info_without_a_plugin_is_one_clear_line(dendrite):
    error = dendrite("info", fails=True, DENDRITE_PJRT_PLUGIN="/nowhere/plugin.so")
    assert len(error.strip().splitlines()) == 1
    assert "/nowhere/plugin.so" in error


def test_cache(dendrite):
    folder = dendrite("cache", "path").strip()
    assert folder.endswith("cache/dendrite")
    assert dendrite("cache", "list").startswith("0 entries")
    dendrite("run", "--mode", "adaptive", "--tier", "compiled", "program.py")
    listed = dendrite("cache", "list").splitlines()
    assert len(listed) >= 2
    assert listed[-1].startswith(f"{len(listed) - 1} entries")
    assert json.loads(dendrite("info", "--json"))["cache"]["entries"] == len(listed) - 1
    assert dendrite("cache", "clear").startswith(f"removed {len(listed) - 1} entries")
    assert dendrite("cache", "list").startswith("0 entries")
    assert dendrite("cache", "path", DENDRITE_CACHE_DIR="off").strip() == "off"


@pytest.mark.parametrize("autoload", ["0", "1"])
def test_run(dendrite, autoload):
    text = dendrite(
        "run", "--mode", "adaptive", "program.py", "-x", "--mode", "y", TORCH_DEVICE_BACKEND_AUTOLOAD=autoload
    )
    assert text.startswith("['-x', '--mode', 'y'] adaptive __main__ ")
    assert dendrite("run", "-m", "program", "a").startswith("['a'] eager __main__ ")


def test_run_of_a_failing_program_shows_its_traceback(dendrite, tmp_path):
    (tmp_path / "fails.py").write_text("import sys\ndef f():\n    raise RuntimeError('on purpose')\nf()\n")
    error = dendrite("run", "fails.py", fails=True)
    assert "Traceback" in error
    assert "on purpose" in error
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")
    dendrite("run", "exits.py", fails=True)


def test_trace(dendrite, tmp_path):
    dendrite("trace", "-o", "out.json", "--mode", "adaptive", "program.py")
    rows = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    lanes = {row["args"]["name"] for row in rows if row["ph"] == "M"}
    assert "stream" in lanes
    ran = [row for row in rows if row["ph"] == "X"]
    assert any("program.py" in row["args"]["site"] for row in ran)
    assert all(row["dur"] >= 0 and row["ts"] >= 0 for row in ran)


def test_every_command_has_help(dendrite):
    overview = dendrite("--help")
    for command in ("info", "cache", "run", "trace"):
        assert command in overview
        assert "usage: dendrite" in dendrite(command, "--help")
    for action in ("list", "clear", "path"):
        assert action in dendrite("cache", "--help")
        dendrite("cache", action, "--help")
    assert "usage" in dendrite(fails=True)
    assert dendrite("--version").strip() == torch_dendrite.__version__
