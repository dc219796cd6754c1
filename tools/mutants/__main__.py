"""Breaks the code one line at a time and expects the named test to fail.

    python -m tools.mutants [--only TEXT] [--layers core|torch] [--list] [--limit SECONDS] [--ninja "nice ninja"]
                            [--in-place]

Works on a copy of the tree in build/mutants, or, with --in-place, on this very tree and build/release: for a checkout
that nobody else uses. First everything is built as it is and every named test must pass;
then each fault is made, built and tested. A fault is *caught* if its test fails, crashes or hangs; it *survives* if
the test passes, which is a hole in the tests. Exit status 1 if one survives, does not build, or does not fit the
code any more.
"""

import argparse
import collections
import shlex
import sys
import time

from tools.mutants.faults import Fault, NamedTest, load
from tools.mutants.sandbox import ROOT, Broken, Sandbox, tail

# A fault may make a test hang: that is seen after so many times what the test takes, and a while.
PATIENCE, PATIENCE_SECONDS = 5, 20


def try_fault(sandbox: Sandbox, fault: Fault, seconds: float) -> str:
    """The verdict: "caught", or what is wrong. `seconds`: what the test takes without the fault."""
    test = NamedTest.parse(fault.test)
    with sandbox.broken_by(fault):
        try:
            if not fault.file.endswith(".py"):
                sandbox.make(test.targets)
        except Broken as error:
            return f"does not build: {error}"
        passed, _ = sandbox.passes(test, PATIENCE * seconds + PATIENCE_SECONDS)
    return "SURVIVES" if passed else "caught"


def baseline(sandbox: Sandbox, tests: list[NamedTest]) -> dict[NamedTest, float]:
    """Builds everything as it is, and runs every test; the times of those that pass."""
    sandbox.prepare()
    targets = sorted({target for test in tests for target in test.targets})
    print(f"building {', '.join(targets)}", flush=True)
    sandbox.make(targets)
    if any(test.needs_torch_layers for test in tests) and not sandbox.imports_itself():
        raise Broken("Python does not import the package of the copy")
    times = {}
    for test in tests:
        begin = time.monotonic()
        passed, output = sandbox.passes(test)
        if passed:
            times[test] = time.monotonic() - begin
        else:
            print(f"fails without any fault: {' '.join(test.command)}\n{tail(output)}", flush=True)
    print(f"{len(times)} of {len(tests)} tests pass without any fault", flush=True)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="faults whose description, file or test has this text")
    parser.add_argument(
        "--layers", choices=["core", "torch"], help="only tests without or with PyTorch's layers"
    )
    parser.add_argument("--list", action="store_true", help="print the faults and stop")
    parser.add_argument("--limit", type=float, default=180, help="seconds for one test")
    parser.add_argument("--ninja", default="ninja", help="what builds: a command and its first arguments")
    parser.add_argument("--in-place", action="store_true", help="break this tree itself, not a copy of it")
    args = parser.parse_args()
    faults = [fault for fault in load() if args.only in f"{fault.what}\n{fault.file}\n{fault.test}"]
    if args.layers:
        faults = [f for f in faults if NamedTest.parse(f.test).needs_torch_layers == (args.layers == "torch")]
    if not faults:
        parser.error("no such fault")
    if args.list:
        for fault in faults:
            print(f"{fault.file}: {fault.what}: {fault.test}")
        return 0
    rows: list[tuple[str, Fault]] = [(problem, f) for f in faults if (problem := f.problem(ROOT))]
    usable = [f for f in faults if not f.problem(ROOT)]

    sandbox = Sandbox(shlex.split(args.ninja), args.limit, args.in_place)
    try:
        times = baseline(sandbox, list(dict.fromkeys(NamedTest.parse(f.test) for f in usable)))
    except Broken as error:
        print(f"the tree itself is broken: {error}")
        return 1
    for fault in usable:
        begin = time.monotonic()
        seconds = times.get(NamedTest.parse(fault.test))
        verdict = "its test fails without it" if seconds is None else try_fault(sandbox, fault, seconds)
        rows.append((verdict, fault))
        print(f"{verdict:8} {time.monotonic() - begin:4.0f} s  {fault.file}: {fault.what}", flush=True)

    print(f"\n{'verdict':8}  fault, and the test that has to see it")
    for verdict, fault in rows:
        print(f"{verdict:8}  {fault.what} ({fault.file})\n{'':10}{fault.test}")
    counts = collections.Counter(
        verdict if verdict in ("caught", "SURVIVES") else "unusable" for verdict, _ in rows
    )
    print(
        f"\n{len(rows)} faults: "
        + ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    )
    return 0 if counts["caught"] == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
