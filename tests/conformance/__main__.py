"""Runs conformance suites, compares with the lists, or rewrites them.

python -m tests.conformance check                       everything; exit status 1 if a list is wrong in any case
python -m tests.conformance update                      everything; rewrites lists and docs/conformance.md
python -m tests.conformance page                        docs/conformance.md from the lists as they are
python -m tests.conformance run --configurations cpu    CPU against itself: finds mistakes of the suites
options: --suites operators --configurations embedded_0,opaque_compiled --kinds float32,grad --only add,mul
         --share 0.1 --limit 4 --seed 7                 a seeded share, and at most so many cases of a kind
         --unknown                                      of what the list does not hold in full
         --json FILE                                    every verdict with its message

An update writes the list as it goes: one that is stopped keeps what it measured, and --unknown goes on from there.
"""

import argparse
import dataclasses
import importlib
import json
import pathlib
import sys
import time

from tests.conformance import page, pool
from tests.conformance.status import Table, failed

SUITES = ["operators", "modules", "optimizers"]
SECONDS_BETWEEN_WRITES = 60


def kinds_of(suite):
    return importlib.import_module(f"tests.conformance.{suite}").KINDS


def report(configuration, results):
    counts = {}
    for kinds in results.cases.values():
        for kind, cases in kinds.items():
            for letter, _ in cases.values():
                total = counts.setdefault(kind, {})
                total[letter] = total.get(letter, 0) + 1
    for kind, total in counts.items():
        whole = sum(n for letter, n in total.items() if letter != ".")
        wrong = sum(n for letter, n in total.items() if failed(letter))
        if whole:
            print(
                f"  {configuration} {kind}: {100 * (whole - wrong) / whole:.2f} % of {whole} agree; {total}",
                flush=True,
            )
    for name, what in results.broken.items():
        print(f"  {configuration} {name}: BROKEN: {what}", flush=True)


def printer(configuration):
    """Prints an entry's failures, by kind, and now and then how far it got."""
    begin, count = time.monotonic(), 0

    def progress(name, results):
        nonlocal count
        count += 1
        if count % 100 == 0:
            print(f"{configuration}: {count} entries after {time.monotonic() - begin:.0f} s", flush=True)
        lines = {}
        for kind, cases in results.cases.get(name, {}).items():
            for index, (letter, message) in cases.items():
                if failed(letter):
                    lines.setdefault((kind, letter), []).append((index, message))
        for (kind, letter), found in lines.items():
            index, message = found[0]
            print(
                f"{configuration} {name} {kind}: {letter} x{len(found)}, case {index}: {message}", flush=True
            )

    return progress


class Writer:
    """Merges entries into the list as they end. Whoever else writes it meanwhile loses nothing: it is read afresh."""

    def __init__(self, suite, configuration):
        self.suite, self.configuration = suite, configuration
        self.pending, self.last = {}, time.monotonic()

    def add(self, name, results):
        self.pending[name] = results.cases.get(name, {})
        if time.monotonic() - self.last > SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self):
        table = Table(self.suite)
        table.merge(self.configuration, pool.Results(cases=self.pending))
        table.write()
        self.pending, self.last = {}, time.monotonic()


def unknown(suite, configuration, kinds):
    """Which of the kinds the list does not hold in full, per entry."""
    rows = Table(suite).rows

    def kinds_of(name):
        return [k for k in kinds if "?" in rows.get(name, {}).get(k, {}).get(configuration, "?")]

    return kinds_of


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["check", "update", "run", "page"])
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--configurations", default=",".join(pool.CONFIGURATIONS))
    parser.add_argument("--kinds")
    parser.add_argument("--only")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--limit", type=int, default=1 << 30)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--unknown", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    wrong, everything = 0, {}
    for suite in args.suites.split(",") if args.what != "page" else []:
        kinds = [k for k in kinds_of(suite) if not args.kinds or k in args.kinds.split(",")]
        part = pool.Part(kinds, args.share, args.limit, args.seed)
        for configuration in args.configurations.split(","):
            begin, steps = time.monotonic(), [printer(configuration)]
            writer = Writer(suite, configuration) if args.what == "update" else None
            if writer:
                steps.append(writer.add)
            results = pool.run(
                suite, configuration, part, only=args.only.split(",") if args.only else None,
                kinds_of=unknown(suite, configuration, kinds) if args.unknown else None, workers=args.workers,
                progress=lambda name, found, steps=steps: [step(name, found) for step in steps],
            )  # fmt: skip
            print(f"{suite} {configuration}: {time.monotonic() - begin:.0f} s")
            report(configuration, results)
            everything[f"{suite}/{configuration}"] = dataclasses.asdict(results)
            if args.json:
                pathlib.Path(args.json).write_text(json.dumps(everything))
            if writer:
                writer.write()
            elif args.what == "check":
                table = Table(suite)
                for name, found in results.cases.items():
                    for line in table.disagreements(configuration, name, found):
                        wrong += 1
                        print(f"{suite} {configuration} {name}: {line}")
                wrong += len(results.broken)
    if args.what in ("update", "page"):
        page.write({suite: kinds_of(suite) for suite in SUITES})
    if args.what == "check":
        print(f"{wrong} disagreements with the lists")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
