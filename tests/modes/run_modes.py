"""Repeats the smoke tests (pytest -m smoke) for each target, mode and tier, each in a fresh process.

    python tests/modes/run_modes.py [--targets embedded,opaque] [--modes ...] [--tiers ...] [--report FILE]

A fresh process per row, because target and tier are fixed when the device starts. Closes with the totals; exits
with 1 if anything failed. `--report` writes one JUnit file over all rows, cases named by their row.
"""

import argparse
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from run_tests import Totals, read_report  # noqa: E402

TARGETS = ["embedded", "opaque"]
MODES = ["eager", "adaptive", "compiled"]
TIERS = ["auto", "0", "compiled"]
LIMIT_SECONDS = 600


def run_row(target: str, mode: str, tier: str, extra: list[str]) -> tuple[Totals, ET.Element, str]:
    """One process. Returns totals, the row's test suite for the report, and output if something failed."""
    setting = {
        "DENDRITE_TARGET": target,
        "DENDRITE_TIER": tier,
        "DENDRITE_MODE": "adaptive" if mode == "adaptive" else "eager",
    }
    name = f"{target}-{mode}-{tier}"
    row = ET.Element("testsuite", name=name)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "smoke", f"--modes={mode}"]
        command += [f"--junitxml={report}", *extra]
        env = {**os.environ, "XDG_CACHE_HOME": folder, **setting}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=env, check=False, capture_output=True, text=True, timeout=LIMIT_SECONDS
            )
            code, output = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            code, output = -1, f"{(late.stdout or b'').decode()}\nstopped after {LIMIT_SECONDS} s"
        totals = read_report(report) if report.exists() else Totals()
        if report.exists():
            for case in ET.parse(report).getroot().iter("testcase"):
                case.set("classname", f"{name}.{case.get('classname')}")
                row.append(case)
    if (code != 0 and totals.failed == 0) or totals.passed + totals.failed == 0:
        totals.failed += 1
        case = ET.SubElement(row, "testcase", classname=name, name="process")
        ET.SubElement(case, "failure", message=f"exit code {code}, {totals.passed} passed")
    return totals, row, output if totals.failed else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--tiers", default=",".join(TIERS))
    parser.add_argument("--report")
    parser.add_argument("extra", nargs="*", help="further arguments for pytest, after --")
    args = parser.parse_args()

    total, rows = Totals(), []
    for target, mode, tier in itertools.product(
        args.targets.split(","), args.modes.split(","), args.tiers.split(",")
    ):
        begin = time.monotonic()
        totals, row, output = run_row(target, mode, tier, args.extra)
        total.add(totals)
        rows.append(row)
        seconds = time.monotonic() - begin
        print(f"  {target:9} {mode:9} tier {tier:9} {totals}  ({seconds:.0f} s)", flush=True)
        if output:
            print("\n".join("    | " + line for line in output.splitlines()[-60:]), flush=True)
    if args.report:
        root = ET.Element("testsuites")
        root.extend(rows)
        ET.ElementTree(root).write(args.report)
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
