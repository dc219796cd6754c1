"""``torch.neuron``: the device's module, shaped like ``torch.cuda``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from torch_dendrite import _C

_MODES = ("eager", "adaptive")


def _index(device: Any = None) -> int:
    if device is None:
        return _C.current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "neuron":
        raise ValueError(f"expected a neuron device, got {device}")
    return _C.current_device() if device.index is None else device.index


# --- devices


def is_available() -> bool:
    return _C.device_count() > 0


def is_initialized() -> bool:
    return _C.started()


def init() -> None:
    _C.info()


def _is_in_bad_fork() -> bool:
    return False


def device_count() -> int:
    return _C.device_count()


def current_device() -> int:
    return _C.current_device()


def set_device(device: Any) -> None:
    _C.set_device(_index(device))


def get_device_name(device: Any = None) -> str:
    _index(device)
    info = _C.info()
    return f"{info['target']} ({info.get('platform', 'no plugin')})"


def get_device_properties(device: Any = None) -> dict[str, Any]:
    _index(device)
    return dict(_C.info())


def get_device_capability(device: Any = None) -> tuple[int, int]:
    _index(device)
    return (0, 0)


def synchronize(device: Any = None) -> None:
    """Waits until all work of the device is complete; raises the first error that nobody has read."""
    _C.synchronize(_index(device))


class device(contextlib.ContextDecorator):
    """Makes a device the current one within a ``with`` block."""

    def __init__(self, device: Any) -> None:
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _C.current_device()
        _C.set_device(self.idx)

    def __exit__(self, *_: object) -> bool:
        _C.set_device(self.prev_idx)
        return False


# --- streams and events


class Stream(torch.Stream):
    """A stream of the device. All streams of a device run in order on one executor."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        if kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, torch.device("neuron", _index(device)), priority=priority)


class Event(torch.Event):
    """A point in a stream; ``elapsed_time`` is in milliseconds of device time."""

    def __new__(cls, enable_timing: bool = True, blocking: bool = False, interprocess: bool = False) -> Event:
        return super().__new__(cls, device="neuron", enable_timing=enable_timing, blocking=blocking)


def current_stream(device: Any = None) -> torch.Stream:
    return torch.accelerator.current_stream(torch.device("neuron", _index(device)))


def default_stream(device: Any = None) -> torch.Stream:
    return (
        torch.Stream(stream_id=0, device_index=_index(device), device_type=torch.device("neuron").type_index)
        if False
        else current_stream(device)
    )


def set_stream(stream: torch.Stream) -> None:
    torch.accelerator.set_stream(stream)


@contextlib.contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    if stream is None:
        yield
        return
    with stream:
        yield


# --- modes and planner


def set_execution_mode(mode: str) -> None:
    """Sets the process's default: ``"eager"`` or ``"adaptive"``."""
    _C.set_default_mode(_mode(mode))


def get_execution_mode() -> str:
    mode = _C.thread_mode()
    return _MODES[mode if mode >= 0 else _C.default_mode()]


@contextlib.contextmanager
def execution_mode(mode: str) -> Iterator[None]:
    """Sets this thread's mode, and that of the backward passes it starts, within a ``with`` block."""
    _C.set_thread_mode(_mode(mode))
    try:
        yield
    finally:
        _C.reset_thread_mode()


def _mode(mode: str) -> int:
    if mode not in _MODES:
        raise ValueError(f"expected one of {', '.join(map(repr, _MODES))} as execution mode, got {mode!r}")
    return _MODES.index(mode)


def stats() -> dict[str, Any]:
    """Counters since the start or the last ``reset_stats()``; the keys are in docs/architecture.md."""
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
    _C.trace_start()


def trace_stop() -> list[dict[str, Any]]:
    return _C.trace_stop()


# --- memory


def memory_stats(device: Any = None) -> dict[str, int]:
    return _C.memory_stats(_index(device)) if _C.started() else {}


def memory_allocated(device: Any = None) -> int:
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Any = None) -> None:
    if _C.started():
        _C.reset_peak_memory_stats(_index(device))


def reset_max_memory_allocated(device: Any = None) -> None:
    reset_peak_memory_stats(device)


def empty_cache() -> None:
    if _C.started():
        _C.empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes: the host's, on host-visible targets."""
    import os

    _index(device)
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


# --- random numbers


def _generators() -> tuple[torch.Generator, ...]:
    return tuple(_C.default_generator(i) for i in range(device_count()))


def manual_seed(seed: int) -> None:
    _C.default_generator(_C.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for generator in _generators():
        generator.manual_seed(int(seed))


def seed() -> None:
    _C.default_generator(_C.current_device()).seed()


def seed_all() -> None:
    manual_seed_all(_C.default_generator(_C.current_device()).seed())


def initial_seed() -> int:
    return _C.default_generator(_C.current_device()).initial_seed()


def get_rng_state(device: Any = "neuron") -> Tensor:
    return _C.default_generator(_index(device)).get_state()


def set_rng_state(new_state: Tensor, device: Any = "neuron") -> None:
    _C.default_generator(_index(device)).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    return [generator.get_state() for generator in _generators()]


def set_rng_state_all(states: list[Tensor]) -> None:
    for generator, state in zip(_generators(), states, strict=True):
        generator.set_state(state)


# --- autocast


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


class amp:
    """``torch.neuron.amp``: the autocast and gradient scaler of this device."""

    @staticmethod
    def autocast(
        dtype: torch.dtype = torch.bfloat16, enabled: bool = True, cache_enabled: bool = True
    ) -> Any:
        return torch.amp.autocast("neuron", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    @staticmethod
    def GradScaler(*args: Any, **kwargs: Any) -> torch.amp.GradScaler:
        return torch.amp.GradScaler("neuron", *args, **kwargs)
