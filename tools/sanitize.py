"""Builds the layers that do not know PyTorch under each checker and runs their unit tests there.

    python tools/sanitize.py [--only asan,tsan] [--jobs N] [--ninja "nice ninja"]

Checkers are CMake presets: asan (addresses, leaks, undefined behaviour), tsan (data races), and clang, which compiles
with the thread safety annotations as errors. ubsan is the undefined behaviour alone, for who asks for it by name.
A report ends a test program, so it cannot pass with one; suppressions (tools/sanitizers/) are for code that is not
ours. Closes with a table; exit status 1 if a checker found something, or is missing where it was asked for by name.
"""

import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHECKERS = ["clang", "asan", "tsan"]
KNOWN = [*CHECKERS, "ubsan"]
# Where threads meet. The other layers are functions of their arguments: a race detector has nothing to see there.
THREADED = ["base", "cache", "pjrt", "compiler", "engine"]
LIMIT_SECONDS = 900  # of one test program


def run_tests(build: pathlib.Path, layers: list[str]) -> str:
    """The verdict over the layers' unit-test programs (none: all): "10 passed", or the names of those that failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = ["ctest", "--test-dir", str(build), "-L", "unit", "--output-on-failure"]
        command += ["--timeout", str(LIMIT_SECONDS), "--output-junit", str(report)]
        if layers:
            command += ["-R", f"^({'|'.join(layers)})$"]
        code = subprocess.run(command, cwd=ROOT).returncode
        cases = list(ET.parse(report).getroot().iter("testcase")) if report.exists() else []
    failed = [case.get("name") for case in cases if case.get("status") != "run"]
    if failed or code != 0 or not cases:
        return f"FAILED: {', '.join(failed) or f'ctest ended with {code} after {len(cases)} programs'}"
    return f"{len(cases)} passed"


def check(name: str, ninja: list[str], jobs: int) -> str:
    build = ROOT / "build" / name
    layers = THREADED if name == "tsan" else []
    if subprocess.run(["cmake", "--preset", name], cwd=ROOT, stdout=subprocess.DEVNULL).returncode != 0:
        return "FAILED: does not configure"
    targets = [f"dendrite_{layer}_test" for layer in layers]
    if subprocess.run([*ninja, "-C", str(build), f"-j{jobs}", *targets], cwd=ROOT).returncode != 0:
        return "FAILED: does not build"
    return run_tests(build, layers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="comma-separated, of " + ", ".join(KNOWN))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--ninja", default="ninja", help="what builds: a command and its first arguments")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else list(CHECKERS)
    if unknown := sorted(set(names) - set(KNOWN)):
        parser.error(f"unknown: {', '.join(unknown)}")
    rows = {}
    for name in names:
        begin = time.monotonic()
        if name == "clang" and shutil.which("clang++") is None:
            rows[name] = "FAILED: no clang++" if args.only else "not run: no clang++ here"
        else:
            rows[name] = check(name, shlex.split(args.ninja), args.jobs)
        rows[name] += f" ({time.monotonic() - begin:.0f} s)"
    print()
    for name, verdict in rows.items():
        print(f"  {name:6} {verdict}")
    return 1 if any(verdict.startswith("FAILED") for verdict in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
