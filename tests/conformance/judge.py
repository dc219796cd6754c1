"""Whether results agree with CPU's. A verdict is None or (letter, message); the letters are those of the status list:

V  a value differs            T  shape, dtype or structure differs      S  strides differ
R  raises, where CPU does not X  raises another class of error          A  accepts what CPU refuses
C  the process died           H  no answer in time
"""

import torch

from tests.conformance import database

# Values that mean nothing: memory as it was found.
MEANINGLESS = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_",
}  # fmt: skip
# Which of several equal elements this result points at is up to the kernel: what it points at is compared.
POINTERS = {"argsort": 0, "kthvalue": 1, "median": 1, "nanmedian": 1, "mode": 1, "topk": 1, "sort": 1, "msort": 1,
            "max.reduction_with_dim": 1, "min.reduction_with_dim": 1}  # fmt: skip


def describe(x):
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    return repr(x)[:60]


def difference(a, e, rtol, atol):
    if a.layout != torch.strided:
        a, e = a.to_dense(), e.to_dense()
    try:
        torch.testing.assert_close(
            a, e, rtol=rtol, atol=atol, equal_nan=True, check_device=False, check_stride=False
        )
    except AssertionError as error:
        return " ".join(str(error).replace("Tensor-likes are not close!", "").split())[:150]
    return None


def layout_of(x):
    """Strides of the dimensions that have any."""
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided:
        return None
    return [s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1] if x.numel() else []


def same_form(actual, expected):
    """Structure, shapes, dtypes, and what is no tensor."""
    if len(actual) != len(expected):
        return "T", f"{len(actual)} results instead of {len(expected)}"
    for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if isinstance(e, torch.Tensor):
            if not isinstance(a, torch.Tensor) or a.shape != e.shape or a.dtype != e.dtype:
                return "T", f"result {k} is {describe(a)} instead of {describe(e)}"
        elif type(a) is not type(e):
            return "T", f"result {k} is {describe(a)} instead of {describe(e)}"
    return None


def rounding(e):
    """What a 16-bit result of several operators, each of which rounds, may differ by wherever its terms cancel: one
    unit in the last place of the largest element."""
    if e.dtype not in (torch.bfloat16, torch.float16) or not e.numel():
        return 0
    return torch.finfo(e.dtype).eps * e.detach().abs().nan_to_num(posinf=0).max().item()


def same_values(op, actual, expected, precise=None, arguments=None, composed=False):
    """`precise()` gives CPU's results in a wider dtype: CPU's own rounding may be the worse of the two, and a result
    that agrees with the wider one is right. Tolerances are the same for both. So is one that is at most twice as far
    from the wider one as CPU's is, which depends on the machine: its kernels differ from processor to processor."""
    finer = None
    for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if not isinstance(e, torch.Tensor):
            if not isinstance(e, torch.device) and a != e and not (a != a and e != e):
                if isinstance(e, float) and abs(a - e) <= 1e-5 + 1.3e-6 * abs(e):
                    continue
                return "V", f"result {k} is {a!r} instead of {e!r}"[:150]
            continue
        rtol, atol = database.tolerance(op, e.dtype)
        atol = max(atol, rounding(e)) if composed else atol
        problem = difference(a, e.detach(), rtol, atol)
        if problem and POINTERS.get(database.name_of(op)) == k and points_at_equals(arguments, a, e):
            continue
        if problem and precise and (e.is_floating_point() or e.is_complex()):
            finer = finer if finer is not None else (precise() or [])
            if (
                len(finer) == len(expected)
                and isinstance(finer[k], torch.Tensor)
                and finer[k].shape == a.shape
            ):
                truth = finer[k].detach()
                problem = difference(a, truth.to(e.dtype), rtol, atol) and problem
                times = 4 if composed else 2  # the errors of a few elements, after many roundings, vary
                if problem and farthest(a, truth) <= times * farthest(e.detach(), truth):
                    continue
        if problem:
            return "V", f"result {k}: {problem}"
    return None


def farthest(a, truth):
    """The largest distance, infinite where one is not finite and the other is another value."""
    apart = (a.to(truth.dtype) - truth).abs()
    same = (a.to(truth.dtype) == truth) | (a.isnan() & truth.isnan())
    return apart.masked_fill(same, 0).nan_to_num(nan=float("inf")).max().item() if a.numel() else 0


def points_at_equals(arguments, a, e):
    """Whether two tensors of indices select equal elements of the first argument, along some dimension."""
    source = arguments[0]
    if not isinstance(source, torch.Tensor) or a.dtype != torch.int64 or source.dim() == 0:
        return False
    for dim in range(source.dim()):
        for keep in (True, False):
            i, j = (
                (a, e) if keep else (a.unsqueeze(dim), e.unsqueeze(dim)) if a.dim() < source.dim() else (a, e)
            )
            try:
                found = [torch.gather(source.detach(), dim, x) for x in (i, j)]
            except (RuntimeError, IndexError):
                continue
            if difference(*found, 0, 0) is None:
                return True
    return False


def same_layout(actual, expected):
    """Of results still on their devices."""
    for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if layout_of(a) != layout_of(e):
            return "S", f"result {k} of {describe(e)}: {layout_of(a)} instead of {layout_of(e)}"
    return None


def same_distribution(draws, others):
    """Two lists of draws (each a list of leaves): per leaf, the means of values and of magnitudes over draws, whose
    difference has to stay below six of its standard errors."""
    for k, first in enumerate(draws[0]):
        if not isinstance(first, torch.Tensor) or first.numel() == 0 or first.is_complex():
            continue
        for what, of in (("mean", lambda x: x), ("magnitude", torch.abs)):
            rows = [
                torch.stack([of(draw[k].detach().double()).nan_to_num().mean() for draw in group])
                for group in (draws, others)
            ]
            gap = (rows[0].mean() - rows[1].mean()).abs()
            error = (rows[0].var() / len(draws) + rows[1].var() / len(others)).sqrt()
            scale = max(rows[0].abs().max(), rows[1].abs().max())
            if gap > 6 * error + 1e-3 * scale + 1e-6:
                return (
                    "V",
                    f"result {k}: {what} over draws {rows[0].mean():.4g} instead of {rows[1].mean():.4g}",
                )
    return None
