"""Trains a GPT, a convolutional network and a BERT on CPU and on neuron in every mode; prints one table, and
draws what ran when.

    make demo                                    everything, in under five minutes
    python -m examples.demo --models gpt --modes cpu,adaptive --steps 40

Writes demo_out/results.json, demo_out/timeline.html and demo_out/timeline.png. Exits with 1 if any run failed.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

from examples.demo import report, timeline
from examples.demo.models import WORKLOADS
from examples.demo.train import MODES

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 300


def names(known):
    """An argparse type: a comma-separated list out of `known`."""

    def parse(text: str) -> list[str]:
        chosen = text.split(",")
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)} (known: {', '.join(known)})")
        return chosen

    return parse


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def run_one(
    workload: str, mode: str, steps: int, command=(sys.executable, "-m", "examples.demo.train")
) -> dict:
    """One run in a process of its own. The result holds `error` if it failed, and never raises for that."""
    bar = report.ProgressBar(f"{workload:5} {'' if mode == 'cpu' else 'neuron '}{mode}", steps)
    run = {"workload": workload, "mode": mode}
    with tempfile.TemporaryDirectory() as folder:
        result, errors = pathlib.Path(folder) / "result.json", pathlib.Path(folder) / "errors.txt"
        with open(errors, "w") as stderr:
            process = subprocess.Popen(
                [*command, workload, mode, str(result), "--steps", str(steps)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        timer = threading.Timer(LIMIT_SECONDS, process.kill)
        timer.start()
        for line in process.stdout:
            if line.startswith("{"):
                bar.update(**json.loads(line))
        code = process.wait()
        late = not timer.is_alive()
        timer.cancel()
        if code == 0 and result.exists():
            run |= json.loads(result.read_text())
        elif late:
            run["error"] = f"stopped after {LIMIT_SECONDS} s"
        else:
            run["error"] = f"exit code {code}: {last_line(errors.read_text())}"
            run["stderr"] = errors.read_text()
    bar.close(run.get("error"))
    return run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", type=names(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--modes", type=names(MODES), default=MODES)
    parser.add_argument("--steps", type=int, help="instead of each model's own number")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "demo_out")
    args = parser.parse_args()

    runs = []
    for name in args.models:
        print(f"\n{WORKLOADS[name].title}")
        for mode in args.modes:
            runs.append(run_one(name, mode, args.steps or WORKLOADS[name].steps))
    print(f"\n{report.table(runs)}\n")

    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "results.json").write_text(json.dumps(runs))
    for path in timeline.write(runs, args.out):
        print(f"wrote {path}")
    failed = [run for run in runs if "error" in run]
    for run in failed:
        print(
            f"\n{run['workload']} {run['mode']}: {run['error']}\n{run.get('stderr', '')[-3000:]}",
            file=sys.stderr,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
