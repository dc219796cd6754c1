"""Reductions over segments against PyTorch's CPU kernels: empty segments, NaN, zeros in products, starting values."""

import pytest
import torch

from tests.lowering.checks import check

aten = torch.ops.aten
NAN = float("nan")
REDUCTIONS = ["sum", "mean", "max", "min", "prod"]
LENGTHS = torch.tensor([2, 0, 3, 1])
DATA = torch.tensor(
    [[1.0, 2.0], [3.0, 0.0], [0.0, NAN], [5.0, 4.0], [0.0, 4.0], [-1.0, 7.0]], dtype=torch.float64
)


@pytest.mark.parametrize("initial", [None, 1.5])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_by_lengths(reduce, initial):
    options = dict(lengths=LENGTHS, axis=0, initial=initial)
    check(aten.segment_reduce.default, DATA, reduce, **options)
    out = aten.segment_reduce(DATA, reduce, **options)
    for sign in (1, -1):
        grad = sign * torch.rand(out.shape, dtype=out.dtype)
        check(aten._segment_reduce_backward.default, grad, out, DATA, reduce, **options)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_by_offsets_in_a_batch(reduce):
    data = torch.randn(2, 6, 3)
    offsets = torch.tensor([[0, 2, 2, 6], [0, 1, 5, 6]])
    check(aten.segment_reduce.default, data, reduce, offsets=offsets, axis=1)
    out = aten.segment_reduce(data, reduce, offsets=offsets, axis=1)
    grad = torch.randn_like(out)
    check(aten._segment_reduce_backward.default, grad, out, data, reduce, offsets=offsets, axis=1)


def test_other_types():
    check(
        aten.segment_reduce.default,
        torch.randn(5).bfloat16(),
        "sum",
        lengths=torch.tensor([2, 3], dtype=torch.int32),
    )
