"""Makes a failing program small: fewer repetitions and calls, constants for changing values, small tensors."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

import torch

from tests.fuzz.program import Each, Instr, Program, Var, variables, walk


def without_unused(program: Program) -> Program:
    """Drops makers whose results nobody names."""
    used = {name for i in program.body for name in variables(i)}
    setup = [i for i in program.setup if set(i.out) & used]
    return program.with_setup(setup)


def simpler(program: Program) -> Iterator[Program]:
    """Candidates, the boldest first."""
    if program.iterations > 1:
        yield dataclasses.replace(program, iterations=1)
        yield dataclasses.replace(program, iterations=program.iterations - 1)
    if program.check_each:
        yield dataclasses.replace(program, check_each=False)
    if program.wait:
        yield dataclasses.replace(program, wait=False)
    for k in range(len(program.setup)):
        yield program.with_setup(program.setup[:k] + program.setup[k + 1 :])
    for part in ("setup", "body"):
        instrs = getattr(program, part)
        for k, instr in enumerate(instrs):
            for other in simpler_calls(instr):
                yield dataclasses.replace(program, **{part: [*instrs[:k], other, *instrs[k + 1 :]]})


def simpler_calls(instr: Instr) -> Iterator[Instr]:
    if instr.thread:
        yield dataclasses.replace(instr, thread=False)
    found = []
    walk((instr.args, tuple(instr.kwargs.values())), lambda x: found.append(x) if isinstance(x, Each) else x)
    for each in found:

        def first(x, each=each):
            return each.values[0] if x is each else x

        kwargs = {k: walk(v, first) for k, v in instr.kwargs.items()}
        yield dataclasses.replace(instr, args=walk(instr.args, first), kwargs=kwargs)
    if instr.call == "helpers.make":
        device, shape, dtype, seed, *special = instr.args
        if any(special):
            yield dataclasses.replace(instr, args=(device, shape, dtype, seed, False))
        for d, n in enumerate(shape):
            for smaller in {1, 2, n // 2} - {0}:
                if smaller < n:
                    cut = (*shape[:d], smaller, *shape[d + 1 :])
                    yield dataclasses.replace(instr, args=(device, cut, dtype, seed, *special))
        if dtype != torch.float32:
            yield dataclasses.replace(instr, args=(device, shape, torch.float32, seed, *special))
    if instr.call == "helpers.make_strided":
        device, shape, _, _, dtype, seed = instr.args
        yield dataclasses.replace(instr, call="helpers.make", args=(device, shape, dtype, seed))
    for name in list(instr.kwargs):
        kwargs = {k: v for k, v in instr.kwargs.items() if k != name}
        yield dataclasses.replace(instr, kwargs=kwargs)
    if (
        instr.args
        and all(isinstance(a, Var) for a in instr.args)
        and len(instr.args) > 1
        and len(instr.out) == 1
    ):
        yield dataclasses.replace(instr, call="torch.add", args=instr.args[:2], kwargs={})


def shrink(
    program: Program, still_fails: Callable[[Program], bool], seconds: float = 60, attempts: int = 2000
) -> Program:
    deadline = time.monotonic() + seconds
    best, progress = program, True

    def accept(candidate: Program) -> bool:
        nonlocal best, progress, attempts
        attempts -= 1
        candidate = without_unused(candidate)
        if still_fails(candidate):
            best, progress = candidate, True
            return True
        return False

    def time_is_up() -> bool:
        return time.monotonic() > deadline or attempts <= 0

    while progress and not time_is_up():
        progress = False
        # Calls first: from the end, and pieces of half the size each time.
        size = max(1, len(best.body) // 2)
        while size and not time_is_up():
            end = len(best.body)
            while end > 0 and not time_is_up():
                begin = max(0, end - size)
                accept(best.with_body(best.body[:begin] + best.body[end:]))
                end = min(begin, len(best.body))
            size //= 2
        again = True
        while again and not time_is_up():
            again = False
            for candidate in simpler(best):
                if time_is_up() or (again := accept(candidate)):
                    break
    return best
