"""Mixed precision: PyTorch's own classes, with the device filled in."""

from __future__ import annotations

from typing import Any

import torch


class autocast(torch.amp.autocast):  # noqa: N801 - torch.cuda.amp's name
    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool = True
    ) -> None:
        super().__init__("neuron", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("neuron", *args, **kwargs)
