"""What a program is: calls on named variables, a set-up that runs once and a body that runs several times."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Var:
    name: str


@dataclass(frozen=True)
class Each:
    """A value that changes from iteration to iteration: what the device should take as an argument."""

    values: tuple

    def at(self, iteration: int) -> Any:
        return self.values[iteration % len(self.values)]


class _Device:
    """Stands for the device that the program runs on."""

    def __repr__(self) -> str:
        return "device"

    def __reduce__(self):
        return "DEVICE"


DEVICE = _Device()


@dataclass
class Instr:
    """`out = call(*args, **kwargs)`.

    `call` is ``.name`` for a method of the first argument, ``helpers.name`` for one of tests/fuzz/helpers.py, and
    else a dotted path from ``torch``. `thread`: the device's side runs in another thread, and is waited for.
    """

    call: str
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    out: tuple[str, ...] = ()
    thread: bool = False


@dataclass
class Program:
    setup: list[Instr]
    body: list[Instr]
    iterations: int = 1
    wait: bool = False  # for background compiles, before each iteration but the first
    check_each: bool = False  # compare everything after each iteration, and not at the end only

    def with_body(self, body: list[Instr]) -> Program:
        return dataclasses.replace(self, body=body)

    def with_setup(self, setup: list[Instr]) -> Program:
        return dataclasses.replace(self, setup=setup)


def walk(value: Any, function) -> Any:
    """`value` with every leaf replaced by `function(leaf)`."""
    if isinstance(value, tuple):
        return tuple(walk(v, function) for v in value)
    if isinstance(value, list):
        return [walk(v, function) for v in value]
    if isinstance(value, slice):
        return slice(*(walk(v, function) for v in (value.start, value.stop, value.step)))
    return function(value)


def variables(instr: Instr) -> list[str]:
    found = []

    def leaf(value):
        if isinstance(value, Var):
            found.append(value.name)
        return value

    walk(instr.args, leaf)
    walk(tuple(instr.kwargs.values()), leaf)
    return found


class MissingError(Exception):
    """A variable that the program deleted, or whose maker was dropped: the call is left out on both devices."""


def resolve(value: Any, env: dict, device: Any, iteration: int) -> Any:
    def leaf(x):
        if isinstance(x, Var):
            if x.name not in env:
                raise MissingError(x.name)
            return env[x.name]
        if isinstance(x, Each):
            return resolve(x.at(iteration), env, device, iteration)
        return device if x is DEVICE else x

    return walk(value, leaf)
