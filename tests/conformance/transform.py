"""Moving arguments to a device with all that makes a view of them, and the layouts that samples are put into."""

import torch
from torch.utils import _pytree as pytree


def move(tree, device):
    """Copies every tensor to `device`, keeping strides, offset, conjugate and negative bits: views stay views, each of
    a storage of its own. A device among the arguments becomes that device."""

    def tensor(x):
        detached = x.detach()
        if detached.layout != torch.strided:
            return detached.to(device).requires_grad_(x.requires_grad)
        if detached.is_neg():
            y = torch._neg_view(tensor(torch._neg_view(detached)))
        elif detached.is_conj():
            y = torch.conj(tensor(torch.conj(detached)))
        else:
            flat = torch.empty(0, dtype=x.dtype).set_(detached.untyped_storage()).clone()
            y = torch.as_strided(flat.to(device), x.size(), x.stride(), x.storage_offset())
        return y.detach().requires_grad_(x.requires_grad)

    def one(x):
        if isinstance(x, torch.Tensor):
            return tensor(x)
        if device != "cpu" and isinstance(x, torch.device) and x.type == "cpu":
            return torch.device(device, 0)
        return device if isinstance(x, str) and x == "cpu" else x

    return pytree.tree_map(one, tree)


def to_cpu(leaves):
    """Results on the CPU. Strides, and the lazy bits, are read off the originals."""
    return [
        x.detach().cpu().resolve_conj().resolve_neg() if isinstance(x, torch.Tensor) else x for x in leaves
    ]


def _noncontiguous(x):
    if x.dim() == 0 or x.numel() == 0:
        return x
    buffer = torch.empty(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
    buffer.zero_()
    return buffer[..., ::2].copy_(x)


def _transposed(x):
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() >= 2 else x


def _offset(x):
    buffer = torch.zeros(x.numel() + 3, dtype=x.dtype)
    return buffer[3:].view(x.shape).copy_(x)


def _expanded(x):
    for dim, size in enumerate(x.shape):
        if size > 1:
            return x.narrow(dim, 0, 1).expand_as(x)
    return x


def _channels_last(x):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.contiguous(memory_format=formats[x.dim()]) if x.dim() in formats else x


def _conjugated(x):
    return torch.conj(x.conj().resolve_conj()) if x.is_complex() else x


LAYOUTS = {
    "noncontiguous": _noncontiguous,
    "transposed": _transposed,
    "offset": _offset,
    "expanded": _expanded,
    "channels_last": _channels_last,
    "conjugated": _conjugated,
}


def apply_layout(name, tree):
    """The arguments in that layout, or None if it is none of theirs."""
    changed = False

    def one(x):
        nonlocal changed
        if not isinstance(x, torch.Tensor) or x.layout != torch.strided:
            return x
        y = LAYOUTS[name](x.detach())
        same = y.stride() == x.stride() and y.storage_offset() == x.storage_offset()
        changed |= not same or y.is_conj() != x.is_conj()
        return y

    with torch.no_grad():
        result = pytree.tree_map(one, tree)
    return result if changed else None
