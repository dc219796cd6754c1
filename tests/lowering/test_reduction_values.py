"""Reductions and scans against PyTorch's CPU kernels: NaN, infinities, ties, empty and 0-dim tensors, dtypes."""

import math

import pytest
import torch

from tests.lowering.checks import check

aten = torch.ops.aten
INF, NAN = math.inf, math.nan
SPECIAL = torch.tensor(
    [
        [1.0, NAN, 3.0, NAN],
        [INF, 2.0, INF, 1.0],
        [-INF, -INF, -INF, -INF],
        [0.0, -0.0, 0.0, -0.0],
        [NAN, NAN, NAN, NAN],
        [2.0, 7.0, 7.0, -1.0],
    ]
)
ROWS = {
    "sum": lambda x: check(aten.sum.dim_IntList, x, [1]),
    "mean": lambda x: check(aten.mean.dim, x, [-1], True),
    "prod": lambda x: check(aten.prod.dim_int, x, 1),
    "nansum": lambda x: check(aten.nansum.default, x, [1]),
    "amax": lambda x: check(aten.amax.default, x, [1]),
    "amin": lambda x: check(aten.amin.default, x, [1], True),
    "max": lambda x: check(aten.max.dim, x, 1),
    "min": lambda x: check(aten.min.dim, x, 1, True),
    "max of all": lambda x: check(aten.max.default, x),
    "argmax": lambda x: check(aten.argmax.default, x, 1),
    "argmin of all": lambda x: check(aten.argmin.default, x),
    "aminmax": lambda x: check(aten.aminmax.default, x, dim=1),
    "any": lambda x: check(aten.any.dim, x, 1),
    "all": lambda x: check(aten.all.dim, x, 0),
    "any of no dims": lambda x: check(aten.any.dims, x, []),
    "var": lambda x: check(aten.var.correction, x, [1]),
    "std of one": lambda x: check(aten.std.correction, x[:, :1].clone(), [1]),
    "count_nonzero": lambda x: check(aten.count_nonzero.default, x, 0),
    "logsumexp": lambda x: check(aten.logsumexp.default, x, [1]),
    "cumsum": lambda x: check(aten.cumsum.default, x, 1),
    "cumprod": lambda x: check(aten.cumprod.default, x, 0),
    "cummax": lambda x: check(aten.cummax.default, x, 1),
    "cummin": lambda x: check(aten.cummin.default, x, 0),
    "logcumsumexp": lambda x: check(aten.logcumsumexp.default, x, 1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("case", ROWS)
def test_special_values(case, dtype):
    ROWS[case](SPECIAL.to(dtype))


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, INF, -INF])
def test_norms(p):
    check(aten.linalg_vector_norm.default, SPECIAL, p, [1])
    check(aten.linalg_vector_norm.default, torch.randn(5, 7), p)
    check(aten.norm.ScalarOpt_dim, torch.randn(5, 7, dtype=torch.float64), p, [0], True)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64, torch.bool])
def test_integers(dtype):
    x = torch.randint(0, 2 if dtype == torch.bool else 100, (4, 5)).to(dtype)
    for func in (aten.sum.default, aten.prod.default, aten.max.default, aten.any.default, aten.all.default):
        check(func, x)
    check(aten.sum.dim_IntList, x, [0], False, dtype=torch.float32)
    check(aten.max.dim, x, 0)
    check(aten.cumsum.default, x, 1)
    check(aten.cummax.default, x, 1)
    if dtype != torch.bool:
        check(aten.argmin.default, x, 1)


def test_a_number_has_one_dimension():
    x = torch.tensor(3.5)
    check(aten.sum.dim_IntList, x, [0])
    check(aten.sum.dim_IntList, x, [])
    check(aten.max.dim, x, -1)
    check(aten.argmax.default, x, 0, True)
    check(aten.cumsum.default, x, -1)
    check(aten.cummin.default, x, 0)
    check(aten.var.correction, x)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty(shape):
    x = torch.zeros(shape)
    for func in (aten.sum.dim_IntList, aten.mean.dim, aten.logsumexp.default):
        check(func, x, [0])
        check(func, x, [1])
    check(aten.prod.dim_int, x, 0)
    check(aten.var.correction, x, [1])
    check(aten.all.dim, x, 0)
    check(aten.any.default, x)
    check(aten.cumsum.default, x, 0)
    check(aten.cummax.default, x, 1)


def test_complex():
    x = torch.randn(3, 4, dtype=torch.complex64)
    check(aten.sum.dim_IntList, x, [0])
    check(aten.var.correction, x, [1])
    check(aten.linalg_vector_norm.default, x)
    check(aten.any.dim, x, 0)
    check(aten.cumprod.default, x, 1)


def test_long_sums_are_as_exact_as_pytorchs():
    x = torch.rand(1 << 18)
    check(aten.sum.default, x)
    check(aten.cumsum.default, x, 0)
    check(aten.var_mean.correction, x + 1000)
