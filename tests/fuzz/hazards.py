"""Calls whose result PyTorch leaves undefined, found on CPU just before they run. They are left out on both sides."""

from __future__ import annotations

import torch

from tests.fuzz.program import Instr

# A write to an expanded tensor raises in these; others write in an undefined order.
CHECKS_OVERLAP = (".add_", ".mul_", ".sub_", ".div_", ".copy_")
WRITING_HELPERS = tuple(
    "helpers." + n for n in ("setitem", "iop", "step_without_grad", "download_then_write")
)
MAX_NUMEL = 1 << 16


def offsets(x: torch.Tensor) -> torch.Tensor:
    """The byte offset of each element in its storage."""
    found = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(x.shape, x.stride()):
        found = found.unsqueeze(-1) + torch.arange(size) * stride
    return (found.flatten() + x.storage_offset()) * x.element_size()


def overlaps_itself(x: torch.Tensor) -> bool:
    if x.numel() <= 1:
        return False
    return not x.is_contiguous() and offsets(x).unique().numel() != x.numel()


def same_storage(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.untyped_storage()._cdata == y.untyped_storage()._cdata


def partly_overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    if not x.numel() or not y.numel() or not same_storage(x, y):
        return False
    key = (x.storage_offset(), x.shape, x.stride(), x.dtype)
    if key == (y.storage_offset(), y.shape, y.stride(), y.dtype):
        return False
    touched = []
    for t in (x, y):
        begin = offsets(t).unique()
        touched.append((begin[:, None] + torch.arange(t.element_size())).flatten())
    return bool(torch.isin(touched[0], touched[1]).any())


def written(instr: Instr, args: tuple, kwargs: dict) -> list[torch.Tensor]:
    name = instr.call
    found = []
    if isinstance(kwargs.get("out"), torch.Tensor):
        found.append(kwargs["out"])
    elif isinstance(kwargs.get("out"), tuple):
        found += kwargs["out"]
    in_place = name.endswith("_") and not name.endswith("__")
    if (in_place or name in WRITING_HELPERS) and args:
        first = args[1] if name == "helpers.iop" else args[0]
        found += first if isinstance(first, (list, tuple)) else [first]
    return [t for t in found if isinstance(t, torch.Tensor)]


def tensors(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    return []


def is_undefined(instr: Instr, args: tuple, kwargs: dict) -> bool:
    outputs = written(instr, args, kwargs)
    inputs = tensors(args) + tensors([v for k, v in kwargs.items() if k != "out"])
    if instr.call == "helpers.setitem" and any(same_storage(args[0], t) for t in tensors(args[1:])):
        return True  # whether that is a fill or a copy depends on the device
    for k, out in enumerate(outputs):
        if overlaps_itself(out):
            expanded = any(n > 1 and s == 0 for n, s in zip(out.shape, out.stride()))
            if not expanded or instr.call not in CHECKS_OVERLAP:
                return True
        for other in inputs + outputs[k + 1 :]:
            if other is not out and partly_overlap(out, other):
                return True
        if "out" in kwargs and any(same_storage(out, t) for t in inputs):
            return True  # which may be resized, or read late
    # An integer has no NaN: what a cast makes of one is up to the machine.
    casts_to = kwargs.get("dtype")
    if instr.call in (".to", ".type") and len(args) > 1 and isinstance(args[1], torch.dtype):
        casts_to = args[1]
    target = casts_to if isinstance(casts_to, torch.dtype) else None
    if outputs and target is None and not outputs[0].dtype.is_floating_point:
        target = outputs[0].dtype
    if target is not None and not (target.is_floating_point or target.is_complex or target == torch.bool):
        for t in inputs:
            if t.dtype.is_complex or (t.dtype.is_floating_point and not bool((t.abs() < 100).all())):
                return True
            if t.dtype.is_floating_point and target == torch.uint8 and bool((t < 0).any()):
                return True
    return False
