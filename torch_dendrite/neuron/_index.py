from __future__ import annotations

from typing import Any

import torch

from torch_dendrite import _C


def index_of(device: Any = None) -> int:
    """The index that a device argument means: None and ``"neuron"`` are the current device."""
    if device is None:
        return _C.current_device()
    if isinstance(device, int):
        return _C.current_device() if device < 0 else device
    device = torch.device(device)
    if device.type != "neuron":
        raise ValueError(f"expected a neuron device, got {device}")
    return _C.current_device() if device.index is None else device.index
