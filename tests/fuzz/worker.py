"""The process that runs programs. Reports on standard output, one JSON object a line; the parent watches.

--seeds BEGIN COUNT   runs these; `{"run": seed}` comes before each, so that a crash has a seed
--oracle              reads pickled lists of programs (length, bytes) and answers with what went wrong
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import pickle
import signal
import sys
import threading
import time
import warnings

import torch

from tests.fuzz.compiled import run_compiled
from tests.fuzz.generate import Flavour, generate
from tests.fuzz.lockstep import Lockstep, Outcome
from tests.fuzz.program import Program

BATCH = 50
PAIRS = 0.04  # of the programs run two at a time


def is_exact() -> bool:
    """Where every operator runs on PyTorch's own CPU kernels."""
    target = os.environ.get("DENDRITE_TARGET", "embedded")
    tier, mode = os.environ.get("DENDRITE_TIER", "auto"), os.environ.get("DENDRITE_MODE", "eager")
    return target == "embedded" and (tier == "0" or (tier == "auto" and mode == "eager"))


def run_one(program: Program, device: str, compiled: bool) -> Outcome:
    return run_compiled(program, device) if compiled else Lockstep(program, device, is_exact()).run()


def run_together(programs: list[Program], device: str) -> Outcome:
    """Each in a thread of its own, at the same time."""
    outcomes: list[Outcome] = []
    threads = [
        threading.Thread(target=lambda p=p: outcomes.append(Lockstep(p, device, is_exact()).run()))
        for p in programs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(outcomes) != len(programs):
        raise RuntimeError("a thread died")
    total = Outcome(steps=sum(o.steps for o in outcomes), noisy=any(o.noisy for o in outcomes))
    total.failure = next((o.failure for o in outcomes if o.failure), None)
    return total


def held_bytes(expected: int | None) -> int:
    """Of the device's memory, now that nothing should be held."""
    torch.neuron.synchronize()
    held = torch.neuron.memory_allocated()
    if expected is not None and held > expected:
        gc.collect()
        torch.neuron.synchronize()
        held = torch.neuron.memory_allocated()
    return held


def draws(program: Program) -> bool:
    return any(i.call == "helpers.same_for_seed" for i in program.body)


class Runner:
    def __init__(self, args):
        self.args, self.out = args, os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # what programs print is none of the report
        self.compiled = args.mode == "compiled"
        self.flavour = Flavour(args.mode)
        self.baseline = None

    def report(self, **fields) -> None:
        self.out.write(json.dumps(fields) + "\n")

    def seeds(self, begin: int, count: int) -> None:
        totals = {"programs": 0, "steps": 0, "noisy": 0, "errors": 0}
        seed, end = begin, begin + count
        deadline = time.monotonic() + self.args.seconds if self.args.seconds else None
        while seed < end and (deadline is None or time.monotonic() < deadline):
            pair = not self.compiled and (seed * 7919) % 1000 < 1000 * PAIRS and seed + 1 < end
            programs = [generate(s, self.flavour) for s in ((seed, seed + 1) if pair else (seed,))]
            pair = pair and not any(map(draws, programs))
            programs = programs if pair else programs[:1]
            self.report(run=seed, pair=pair)
            if pair:
                outcome = run_together(programs, self.args.device)
            else:
                outcome = run_one(programs[0], self.args.device, self.compiled)
            if outcome.failure is not None:
                self.report(failed=seed, pair=pair, kind=outcome.failure.kind, text=str(outcome.failure))
            totals["programs"] += len(programs)
            totals["steps"] += outcome.steps
            totals["noisy"] += outcome.noisy
            totals["errors"] += outcome.errors
            last_batch, seed = seed // BATCH, seed + len(programs)
            if seed // BATCH != last_batch:
                self.check_memory(seed)
        self.report(done=seed, **totals, rss=resident_megabytes())

    def check_memory(self, seed: int) -> None:
        if self.args.device == "cpu":
            return
        try:
            held = held_bytes(self.baseline)
        except Exception as error:
            self.report(failed=seed, kind="error", text=f"between programs: {error}")
            return
        if self.baseline is not None and held > self.baseline:
            self.report(failed=seed, kind="leak", text=f"{held} bytes allocated after {self.baseline}")
        self.baseline = held

    def oracle(self) -> None:
        source = sys.stdin.buffer
        self.report(ready=True)
        while size := source.read(8):
            programs = pickle.loads(source.read(int.from_bytes(size, "little")))
            before = held_bytes(0)
            if len(programs) > 1:
                outcome = run_together(programs, self.args.device)
            else:
                outcome = run_one(programs[0], self.args.device, self.compiled)
            failure = outcome.failure
            kind, text = (failure.kind, str(failure)) if failure else ("", "")
            del outcome, failure
            try:
                held = held_bytes(before)
            except Exception as error:
                held = before
                kind, text = kind or "error", text or f"after the program: {error}"
            if not kind and held > before:
                kind, text = "leak", f"{held - before} bytes more"
            self.report(kind=kind, text=text)


def resident_megabytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs=2)
    parser.add_argument("--oracle", action="store_true")
    parser.add_argument("--mode", default="eager")
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--seconds", type=float)
    args = parser.parse_args()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if args.device != "cpu":
        torch.neuron.init()
    runner = Runner(args)
    if args.oracle:
        runner.oracle()
    else:
        runner.seeds(*args.seeds)


if __name__ == "__main__":
    main()
