"""The demo's machinery: a run, the table, the timeline, and that a failure shows and fails."""

import json
import pathlib
import subprocess
import sys

import pytest

from examples.demo import __main__ as demo
from examples.demo import report, timeline

pytestmark = pytest.mark.host_only
ROOT = pathlib.Path(__file__).parents[2]


def a_run(mode, **changes):
    stats = {
        "ops_by_tier": {"0": 100, "1": 300, "host": 0},
        "compiles": 7,
        "compile_seconds": 2.5,
        "compile_wait_seconds": 0.0,
    }
    run = {
        "workload": "gpt",
        "mode": mode,
        "losses": [2.0, 1.0],
        "first_step_seconds": 0.5,
        "steady_step_seconds": 0.0456,
        "peak_memory_bytes": 5 << 20,
        "stats": None if mode == "cpu" else stats,
        "traces": {"start": [], "steady": []},
    }
    return run | changes


def an_event(lane, begin, end, **changes):
    event = {
        "lane": lane,
        "name": f"work on {lane}",
        "begin": begin,
        "end": end,
        "site": "model.py:12",
        "tier": 1,
    }
    return event | changes


def test_a_run_on_cpu_end_to_end(tmp_path):
    command = [sys.executable, "-m", "examples.demo", "--models", "conv", "--modes", "cpu", "--steps", "3"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3/3  loss" in done.stdout
    (run,) = json.loads((tmp_path / "results.json").read_text())
    assert len(run["losses"]) == 3
    assert run["losses"][2] < run["losses"][0]
    assert f"{run['losses'][-1]:.5f}" in done.stdout


def test_a_failed_run_is_a_row_and_not_an_exception():
    script = "import sys; sys.exit('no such plugin')"
    run = demo.run_one("gpt", "eager", 5, command=(sys.executable, "-c", script))
    assert run["error"] == "exit code 1: no such plugin"
    text = report.table([a_run("cpu"), run, a_run("adaptive")])
    assert "FAILED: exit code 1: no such plugin" in text


def test_any_failure_makes_the_demo_fail(monkeypatch, tmp_path, capsys):
    failed = {"workload": "gpt", "mode": "eager", "error": "exit code 1: out of luck", "stderr": "Traceback"}
    results = iter([a_run("cpu"), failed])
    monkeypatch.setattr(demo, "run_one", lambda *_: next(results))
    monkeypatch.setattr(
        sys, "argv", ["demo", "--models", "gpt", "--modes", "cpu,eager", "--out", str(tmp_path)]
    )
    assert demo.main() == 1
    assert "out of luck" in capsys.readouterr().err


def test_the_table_compares_with_cpu():
    text = report.table([a_run("cpu"), a_run("adaptive", losses=[2.0, 1.01])])
    cpu, adaptive = text.splitlines()[2:]
    assert cpu.split()[:3] == ["gpt", "cpu", "1.00000"]
    assert "1.0e-02" in adaptive
    assert "0: 25 %, 1: 75 %" in adaptive
    assert "45.6 ms" in adaptive


def test_timeline_files(tmp_path):
    events = [
        an_event("compile-0", 0.010, 0.200, tier=-1),
        an_event("stream", 0.001, 0.004, name="</script> 12 operators"),
        an_event("caller", 0.000, 0.001, tier=0),
    ]
    runs = [a_run("cpu"), a_run("adaptive", traces={"start": events, "steady": events})]
    html, png = timeline.write(runs, tmp_path)
    text = html.read_text()
    assert "model.py:12" in text
    assert text.count("</script>") == 1, "a name must not end the script"
    assert "http" not in text, "self-contained"
    assert png.read_bytes().startswith(b"\x89PNG")
    assert timeline.lanes(events) == ["caller", "stream", "compile-0"]
    assert timeline.write([a_run("cpu")], tmp_path) == []


def test_long_traces_are_joined_and_keep_their_span():
    events = [an_event("stream", i * 1e-5, i * 1e-5 + 8e-6, tier=0) for i in range(5000)]
    events.append(an_event("stream", 1.0, 2.0, name="a snippet"))
    short = timeline.simplify(events, 100)
    assert len(short) <= 100
    assert sum(e.get("count", 1) for e in short) == 5001
    assert any(e["name"] == "a snippet" for e in short)
    assert max(e["end"] for e in short) == 2.0
