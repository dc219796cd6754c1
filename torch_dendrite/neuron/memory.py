"""Memory of the device: what its allocator holds."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import torch

from torch_dendrite import _C
from torch_dendrite.neuron._index import index_of


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Statistics under ``torch.cuda.memory_stats``'s keys; empty until the device has started."""
    index = index_of(device)
    return dict(torch.accelerator.memory_stats(index)) if _C.started() else {}


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        inner = nested
        *path, last = key.split(".")
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def memory_allocated(device: Any = None) -> int:
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Any = None) -> None:
    index = index_of(device)
    if _C.started():
        torch.accelerator.reset_peak_memory_stats(index)


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_reserved = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    index = index_of(device)
    if _C.started():
        torch.accelerator.reset_accumulated_memory_stats(index)


def empty_cache() -> None:
    """Returns memory that no tensor uses to the system."""
    if _C.started():
        _C.empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes: the host's, which the embedded and opaque targets share."""
    index_of(device)
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


def device_memory_used(device: Any = None) -> int:
    """Bytes that this process holds on the device."""
    return memory_reserved(device)


def memory_snapshot(device: Any = None) -> NoReturn:
    raise NotImplementedError(
        "the device neuron records no memory snapshots: memory_stats() has totals, memory_summary() prints them"
    )


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    index = index_of(device)
    lines = [f"memory of neuron:{index}", f"{'':12}{'current':>16}{'peak':>16}  bytes"]
    statistics = memory_stats(index)
    for name in ("allocated", "reserved"):
        row = [statistics.get(f"{name}_bytes.all.{column}", 0) for column in ("current", "peak")]
        lines.append(f"{name:12}" + "".join(f"{value:>16,}" for value in row))
    if not abbreviated:
        made = statistics.get("allocation.all.allocated", 0)
        freed = statistics.get("allocation.all.freed", 0)
        lines.append(f"storages: {made:,} made, {freed:,} freed, {made - freed:,} alive")
    return "\n".join(lines)


def get_allocator_backend() -> str:
    return "native"
