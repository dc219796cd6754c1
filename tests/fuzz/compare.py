"""Whether two tensors are the same: all that a program can ask of them."""

from __future__ import annotations

import torch

TOLERANCE = {  # relative, and absolute as a share of the largest finite magnitude
    torch.float64: 1e-11,
    torch.complex128: 1e-11,
    torch.float32: 3e-5,
    torch.complex64: 3e-5,
    torch.float16: 6e-3,
    torch.bfloat16: 4e-2,
}
FLOATS_BY_SIZE = {
    1: (),
    2: (torch.float16, torch.bfloat16),
    4: (torch.float32,),
    8: (torch.float64, torch.float32),
}
INTS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def leaf(x: torch.Tensor) -> bool | str:
    try:
        return x.is_leaf
    except RuntimeError as error:  # one of several views of what was written since
        return str(error)


def meta(x: torch.Tensor) -> tuple:
    """What is compared without reading the values."""
    return (
        tuple(x.shape),
        x.stride(),
        x.storage_offset(),
        x.dtype,
        x.is_contiguous(),
        x.requires_grad,
        leaf(x),
        x.is_conj(),
        x.is_neg(),
        x._version,
    )


META_NAMES = "shape strides offset dtype contiguous requires_grad leaf conj neg version".split()


def meta_difference(cpu: torch.Tensor, dev: torch.Tensor) -> str | None:
    a, b = meta(cpu), meta(dev)
    if a == b:
        return None
    if a[:-1] == b[:-1] and b[-1] > a[-1]:
        return None  # composite operators resize out= through the dispatcher, but not on CPU
    if cpu.numel() == 0 and a[0] == b[0] and a[3] == b[3] and a[1:3] != b[1:3]:
        # Strides of an empty tensor address nothing.
        a, b = a[:1] + a[3:], b[:1] + b[3:]
        if a[:-1] == b[:-1] and b[-1] >= a[-1]:
            return None
        return f"{a} on CPU, {b} on the device"
    return ", ".join(f"{n} {x} on CPU, {y} on the device" for n, x, y in zip(META_NAMES, a, b) if x != y)


def _bits(x: torch.Tensor) -> torch.Tensor:
    return x.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)


def to_host(x: torch.Tensor) -> torch.Tensor:
    return x.detach().cpu().resolve_conj().resolve_neg()


def differing(cpu: torch.Tensor, dev: torch.Tensor, exact: bool) -> torch.Tensor | None:
    """A mask of the elements that differ, or None. Both are on the host, of the same shape and dtype."""
    if cpu.numel() == 0:
        return None
    if torch.equal(_bits(cpu), _bits(dev)):
        return None
    if cpu.dtype.is_complex:
        a, b = torch.view_as_real(cpu.contiguous()), torch.view_as_real(dev.contiguous())
        mask = differing(a, b, exact)
        return None if mask is None else mask.any(-1)
    if not cpu.dtype.is_floating_point:
        mask = cpu != dev
        return mask if mask.any() and not _same_nans(cpu, dev, mask) else None
    same_nan = cpu.isnan() & dev.isnan()
    equal = (cpu == dev) & (torch.signbit(cpu) == torch.signbit(dev))
    if exact:
        mask = ~(equal | same_nan)
        return mask if mask.any() else None
    tolerance = TOLERANCE[cpu.dtype]
    a, b = cpu.double(), dev.double()
    finite = a[a.isfinite()]
    scale = finite.abs().max() if finite.numel() else torch.tensor(0.0)
    near = (a - b).abs() <= tolerance * (a.abs() + scale)
    # Where CPU says zero, its sign counts unless the other is a small number and not a zero.
    near &= ~((a == 0) & (b == 0) & ~equal)
    mask = ~(equal | same_nan | near)
    return mask if mask.any() else None


def _same_nans(cpu: torch.Tensor, dev: torch.Tensor, mask: torch.Tensor) -> bool:
    """Whether integers that differ are NaNs of other bits, seen through a view of another dtype."""
    a, b = cpu[mask], dev[mask]
    for dtype in FLOATS_BY_SIZE[cpu.element_size()] if cpu.dtype != torch.bool else ():
        x, y = a.view(dtype), b.view(dtype)
        different = a.view(INTS[x.element_size()]) != b.view(INTS[x.element_size()])
        if bool((x.isnan() & y.isnan() | ~different).all()):
            return True
    return False


def excused(cpu: torch.Tensor, dev: torch.Tensor, mask: torch.Tensor, noisy: list) -> bool:
    """Whether rounding errors in the CPU's own run move each differing element as far as the device is off."""
    reached = torch.zeros_like(mask)
    for other in noisy:
        if other is None or other.shape != cpu.shape or other.dtype != cpu.dtype:
            return True  # rounding decides a shape
        a, b, c = (to_double(x) for x in (cpu, dev, other))
        distance, moved = (a - b).abs(), (a - c).abs()
        odd = a.isfinite() != c.isfinite()
        reached |= (moved * 100 >= distance) & (moved > 0) | odd | (torch.signbit(a) != torch.signbit(c))
    return bool(reached[mask].all())


def to_double(x: torch.Tensor) -> torch.Tensor:
    return x.abs().double() if x.dtype.is_complex else x.double()


def values_difference(cpu: object, dev: object, exact: bool) -> bool:
    """Whether Python values, which may be nested lists, differ."""
    if isinstance(cpu, (list, tuple)):
        if type(cpu) is not type(dev) or len(cpu) != len(dev):
            return True
        return any(values_difference(a, b, exact) for a, b in zip(cpu, dev))
    if type(cpu) is not type(dev):
        return True
    if isinstance(cpu, float):
        if cpu != cpu or dev != dev:
            return (cpu != cpu) != (dev != dev)
        return cpu != dev and (exact or abs(cpu - dev) > 1e-4 * (abs(cpu) + 1))
    if isinstance(cpu, complex):
        return values_difference([cpu.real, cpu.imag], [dev.real, dev.imag], exact)
    return cpu != dev
