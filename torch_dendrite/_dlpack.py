"""DLPack for this device: PyTorch's own converter knows the type, its Python side does not know our name.

Host-visible targets share memory: the capsule names the storage's own address, and a tensor made from it uses the
same storage (csrc/device). Opaque targets have nothing to share but copies on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import dlpack
from torch.utils.dlpack import DLDeviceType

from torch_dendrite import _C


def _prepare(tensor: torch.Tensor, dl_device: Any = None) -> None:
    """Raises where memory cannot be shared; otherwise waits for the values, which the receiver may read at once."""
    if dl_device is not None and int(dl_device[0]) == DLDeviceType.kDLCPU:
        return
    if not _C.info()["host_visible"]:
        raise BufferError(
            "the memory of this neuron device cannot be shared: its address means nothing to the host. "
            "Export a copy instead: tensor.cpu(), or __dlpack__(dl_device=(DLDeviceType.kDLCPU, 0))"
        )
    _C.synchronize(tensor.device.index)


def _exports(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def export(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if isinstance(tensor, torch.Tensor) and tensor.device.type == "neuron":
            _prepare(tensor, kwargs.get("dl_device"))
        return function(tensor, *args, **kwargs)

    return export


def register() -> None:
    device_of = torch.Tensor.__dlpack_device__

    @functools.wraps(device_of)
    def dlpack_device(self: torch.Tensor) -> tuple[Any, int]:
        if self.device.type == "neuron":
            return DLDeviceType.kDLExtDev, self.device.index
        return device_of(self)

    torch.Tensor.__dlpack_device__ = dlpack_device
    torch.Tensor.__dlpack__ = _exports(torch.Tensor.__dlpack__)
    dlpack.to_dlpack = torch.to_dlpack = _exports(dlpack.to_dlpack)
