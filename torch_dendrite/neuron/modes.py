"""Execution modes, and what the planner did."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch_dendrite import _C

_MODES = ("eager", "adaptive")


def set_execution_mode(mode: str) -> None:
    """Sets the process's default: ``"eager"`` or ``"adaptive"``."""
    _C.set_default_mode(_mode(mode))


def get_execution_mode() -> str:
    mode = _C.thread_mode()
    return _MODES[mode if mode >= 0 else _C.default_mode()]


@contextlib.contextmanager
def execution_mode(mode: str) -> Iterator[None]:
    """Sets this thread's mode, and that of the backward passes it starts, within a ``with`` block."""
    previous = _C.thread_mode()
    _C.set_thread_mode(_mode(mode))
    try:
        yield
    finally:
        _C.set_thread_mode(previous)


def _mode(mode: str) -> int:
    if mode not in _MODES:
        raise ValueError(f"expected one of {', '.join(map(repr, _MODES))} as execution mode, got {mode!r}")
    return _MODES.index(mode)


def stats() -> dict[str, Any]:
    """Counters since the start or the last ``reset_stats()``."""
    return _C.stats()


def reset_stats() -> None:
    _C.reset_stats()


def explain() -> str:
    """What the planner knows: each snippet, how often it was seen, its tiers' times, where it comes from."""
    return _C.explain()


def wait_for_compiles(timeout: float = 600.0) -> bool:
    """Blocks until no compile is queued or running; False if the timeout came first."""
    return _C.wait_for_compiles(timeout)


def trace_start() -> None:
    """Starts to record what ran when, on which lane."""
    _C.trace_start()


def trace_stop() -> list[dict[str, Any]]:
    """Stops, and returns the events: lane, name, begin and end in seconds, site, tier."""
    return _C.trace_stop()
