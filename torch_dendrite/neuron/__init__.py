"""``torch.neuron``: the device's module, shaped like ``torch.cuda``.

What CUDA has and this device has not (graphs, memory pools, NVML's sensors) is absent, so that ``hasattr`` tells.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Any

import torch

from torch_dendrite import _C
from torch_dendrite.neuron import amp, memory, random, streams
from torch_dendrite.neuron._index import index_of as _index
from torch_dendrite.neuron.memory import (
    device_memory_used,
    empty_cache,
    get_allocator_backend,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_reserved,
    reset_peak_memory_stats,
)
from torch_dendrite.neuron.modes import (
    execution_mode,
    explain,
    get_execution_mode,
    reset_stats,
    set_execution_mode,
    stats,
    trace_start,
    trace_stop,
    wait_for_compiles,
)
from torch_dendrite.neuron.random import (
    _get_generator as _get_generator,
)
from torch_dendrite.neuron.random import (
    _get_rng_state_offset as _get_rng_state_offset,
)
from torch_dendrite.neuron.random import (
    _set_rng_state_offset as _set_rng_state_offset,
)
from torch_dendrite.neuron.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_dendrite.neuron.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

AcceleratorError = torch.AcceleratorError
OutOfMemoryError = torch.OutOfMemoryError

__all__ = [
    "AcceleratorError",
    "DeviceProperties",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "execution_mode",
    "explain",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_execution_mode",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_reserved",
    "reset_peak_memory_stats",
    "reset_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_execution_mode",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stats",
    "stream",
    "streams",
    "synchronize",
    "trace_start",
    "trace_stop",
    "wait_for_compiles",
]


def is_available() -> bool:
    return _C.device_count() > 0


def is_initialized() -> bool:
    return _C.started() and not _is_in_bad_fork()


def __getattr__(name: str) -> Any:
    if name == "default_generators":  # as many as there are devices, which the environment may still change
        return random.generators()
    if name == "_initialized":  # what torch.utils.checkpoint asks before it saves random states
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def init() -> None:
    """Starts the device now and not with the first tensor."""
    _C.info()


_lazy_init = init

_forked_while_started = False


def _after_fork() -> None:
    global _forked_while_started
    _forked_while_started = _forked_while_started or _C.started()


os.register_at_fork(after_in_child=_after_fork)


def _is_in_bad_fork() -> bool:
    return _forked_while_started


def device_count() -> int:
    return _C.device_count()


def current_device() -> int:
    return _C.current_device()


def set_device(device: Any) -> None:
    """Makes a device the current one; a negative index changes nothing."""
    _C.set_device(_index(device))


def _exchange_device(device: int) -> int:
    previous = _C.current_device()
    if device >= 0:
        _C.set_device(device)
    return previous


_maybe_exchange_device = _exchange_device


class device(contextlib.ContextDecorator):  # noqa: N801 - torch.cuda's name
    """Makes a device the current one within a ``with`` block; None changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *_: object) -> None:
        _C.set_device(self.prev_idx)


class device_of(device):  # noqa: N801 - torch.cuda's name
    """Makes the device of a tensor or storage the current one; one elsewhere changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == "neuron" else None)


def synchronize(device: Any = None) -> None:
    """Waits until all work of the device is complete; raises the first error that nobody has read."""
    _C.synchronize(_index(device))


@dataclass(frozen=True)
class DeviceProperties:
    """What is known of a device. `info` is what ``dendrite info`` prints."""

    name: str
    total_memory: int
    multi_processor_count: int
    info: dict[str, Any]
    major: int = 0
    minor: int = 0


def get_device_name(device: Any = None) -> str:
    return get_device_properties(device).name


def get_device_properties(device: Any = None) -> DeviceProperties:
    index = _index(device)
    if not 0 <= index < device_count():
        raise AssertionError(f"invalid device index neuron:{index}: there are {device_count()} devices")
    info = dict(_C.info())
    name = f"{info['target']} ({info['platform']})" if "platform" in info else info["target"]
    return DeviceProperties(name, mem_get_info(index)[1], os.cpu_count() or 1, info)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """(0, 0): PJRT has no such number."""
    _index(device)
    return (0, 0)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """False: copies between devices go through the runtime."""
    _index(device), _index(peer_device)
    return False


def get_arch_list() -> list[str]:
    """Empty: what runs on the device is compiled on the way, for the device at hand."""
    return []


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


def is_tf32_supported() -> bool:
    return False


def is_current_stream_capturing() -> bool:
    return False


def ipc_collect() -> None:
    """Nothing to do: storages are not shared between processes."""


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]
