"""python -m tests.fuzz [--seconds 600] [--seed 0] [--mode M] [--target T] [--tier T] ...

Without a mode, target or tier: all of them in turn, each for its share of the time. Prints each failure with its seed,
then shrinks it and prints a program that shows it. Exits with 1 if there was a failure.

    python -m tests.fuzz --mode adaptive --program 1234   that one program, shrunk if it fails
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
from dataclasses import dataclass, field

from tests.fuzz import reproducer
from tests.fuzz.child import SILENCE_SECONDS, START_SECONDS, Child, Configuration, Oracle
from tests.fuzz.generate import Flavour, generate
from tests.fuzz.program import Program
from tests.fuzz.shrink import shrink

CONFIGURATIONS = [
    Configuration("eager", "embedded", "auto"),
    Configuration("adaptive", "embedded", "auto"),
    Configuration("eager", "embedded", "0"),
    Configuration("eager", "embedded", "compiled"),
    Configuration("adaptive", "embedded", "compiled"),
    Configuration("compiled", "embedded", "auto"),
    Configuration("eager", "opaque", "auto"),
    Configuration("adaptive", "opaque", "auto"),
    Configuration("adaptive", "opaque", "compiled"),
    Configuration("compiled", "opaque", "auto"),
]
ROUND = 100_000  # programs that one process may run


@dataclass
class Failure:
    configuration: Configuration
    seed: int
    kind: str
    text: str
    pair: bool = False


@dataclass
class Totals:
    programs: int = 0
    steps: int = 0
    noisy: int = 0
    errors: int = 0
    seconds: float = 0
    rss: int = 0
    failures: list[Failure] = field(default_factory=list)

    def add(self, report: dict) -> None:
        for key in ("programs", "steps", "noisy", "errors"):
            setattr(self, key, getattr(self, key) + report[key])
        self.rss = max(self.rss, report["rss"])


def fuzz(configuration: Configuration, seed: int, seconds: float, programs: int, most: int) -> Totals:
    """Runs programs from `seed` on, for that long, or as many, or until there are `most` failures."""
    totals = Totals()
    begin = time.monotonic()
    end_seed = seed + programs
    while seed < end_seed and time.monotonic() - begin < seconds and len(totals.failures) < most:
        left = seconds - (time.monotonic() - begin)
        child = Child(
            configuration, "--seeds", str(seed), str(min(ROUND, end_seed - seed)), "--seconds", str(left)
        )
        last, pair, patience, done = seed, False, START_SECONDS, False
        while (report := child.read(patience)) is not None:
            patience = SILENCE_SECONDS
            if "run" in report:
                last, pair = report["run"], report["pair"]
            elif "failed" in report:
                failure = Failure(
                    configuration, report["failed"], report["kind"], report["text"], report.get("pair", False)
                )
                totals.failures.append(failure)
                show(failure)
                if len(totals.failures) >= most:
                    break
            else:
                seed, done = report["done"], True
                totals.add(report)
        if report is None and not done:
            kind, text = child.end()
            if patience == START_SECONDS:
                raise RuntimeError(f"the worker does not start: {text}")
            totals.failures.append(Failure(configuration, last, kind, text, pair))
            show(totals.failures[-1])
            totals.programs += last - seed
            seed = last + 1
        child.close()
        if done and time.monotonic() - begin >= seconds:
            break
    totals.seconds = time.monotonic() - begin
    return totals


def show(failure: Failure) -> None:
    print(f"FAIL {failure.configuration} seed {failure.seed}: {failure.text}", flush=True)


def programs_of(failure: Failure) -> list[list[Program]]:
    """What to try: the program, the pair, or where memory leaks each one of the batch."""
    flavour = Flavour(failure.configuration.mode)
    if failure.kind == "leak":
        return [[generate(s, flavour)] for s in range(max(0, failure.seed - 51), failure.seed)]
    seeds = (failure.seed, failure.seed + 1) if failure.pair else (failure.seed,)
    return [[generate(s, flavour) for s in seeds]]


def explain(failure: Failure, seconds: float) -> None:
    """Shrinks it and prints what is left."""
    oracle = Oracle(failure.configuration)
    try:
        for programs in programs_of(failure):
            for _ in range(3):
                kind, text = oracle.ask(programs)
                if kind:
                    break
            if kind:
                break
        else:
            print(f"seed {failure.seed} does not fail by itself", flush=True)
            return
        if len(programs) > 1:
            print(f"seed {failure.seed} fails beside {failure.seed + 1}: {text}", flush=True)
            return
        small = shrink(programs[0], lambda p: oracle.ask([p])[0] == kind, seconds)
        kind, text = oracle.ask([small])
        print(f"--- {failure.configuration} seed {failure.seed}, shrunk: {kind}: {text}")
        print(reproducer.text(small, failure.configuration), flush=True)
    finally:
        oracle.close()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", choices=["eager", "adaptive", "compiled"])
    parser.add_argument("--target", choices=["embedded", "opaque"])
    parser.add_argument("--tier", choices=["auto", "0", "compiled"])
    parser.add_argument("--programs", type=int, default=1 << 40, help="at most, for each configuration")
    parser.add_argument("--failures", type=int, default=5, help="stop a configuration after so many")
    parser.add_argument("--shrink", type=float, default=60, help="seconds for each failure; 0 does not")
    parser.add_argument("--program", type=int, help="the program of this seed, and no other")
    return parser.parse_args()


def chosen(args: argparse.Namespace) -> list[Configuration]:
    exact = [args.mode, args.target, args.tier]
    if all(exact):
        return [Configuration(*exact)]
    found = [
        c
        for c in CONFIGURATIONS
        if args.mode in (None, c.mode) and args.target in (None, c.target) and args.tier in (None, c.tier)
    ]
    return found or [Configuration(args.mode or "eager", args.target or "embedded", args.tier or "auto")]


def main() -> int:
    args = parse()
    configurations = chosen(args)
    rows, failures = [], []
    for configuration in configurations:
        if args.program is not None:
            failures.append(Failure(configuration, args.program, "", ""))
            continue
        share = args.seconds / len(configurations)
        totals = fuzz(configuration, args.seed, share, args.programs, args.failures)
        failures += totals.failures
        rows.append((configuration, totals))
    if args.shrink:
        for failure in failures:
            explain(failure, args.shrink)
    for configuration, t in rows:
        kinds = collections.Counter(f.kind for f in t.failures)
        print(
            f"{configuration!s:26} {t.programs:8,} programs {t.steps:10,} calls {t.programs / t.seconds:7.1f}/s "
            f"{t.noisy:6,} within rounding {t.errors:7,} errors alike {t.rss:6,} MiB  {dict(kinds) or 'ok'}"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
