"""Products against PyTorch's CPU kernels: dtypes, scalars, views, broadcasting, empty contractions."""

import math

import pytest
import torch

from tests.lowering.checks import check, replay

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.int64, torch.int8])
def test_products(dtype):
    def make(*shape):
        small = torch.randn(*shape, dtype=dtype) if dtype.is_floating_point or dtype.is_complex else None
        return torch.randint(-9, 9, shape).to(dtype) if small is None else small

    check(aten.mm.default, make(3, 5), make(5, 4))
    check(aten.mm.default, make(5, 3).t(), make(4, 5).t())
    check(aten.bmm.default, make(2, 3, 5), make(2, 5, 4))
    check(aten.bmm.default, make(3, 2, 5).transpose(0, 1), make(2, 4, 5).transpose(1, 2))
    check(aten.addmm.default, make(4), make(3, 5), make(5, 4), beta=2, alpha=3)
    check(aten.baddbmm.default, make(1, 4), make(2, 3, 5), make(2, 5, 4))
    check(aten.addbmm.default, make(3, 4), make(2, 3, 5), make(2, 5, 4), beta=2)
    check(aten.mv.default, make(3, 5), make(5))
    check(aten.addmv.default, make(3), make(3, 5), make(5), beta=2, alpha=3)
    check(aten.dot.default, make(5), make(5))
    check(aten.vdot.default, make(5), make(5))
    check(aten.addr.default, make(3, 4), make(3), make(4), beta=2, alpha=3)


@pytest.mark.parametrize("dtype", FLOATS)
def test_composites(dtype):
    def make(*shape):
        return torch.randn(*shape, dtype=dtype)

    for a, b in (
        ((2, 1, 3, 4), (5, 4, 6)),
        ((4,), (5, 4, 6)),
        ((2, 3, 4), (4,)),
        ((4,), (4,)),
        ((3, 4), (4, 5)),
    ):
        check(aten.matmul.default, make(*a), make(*b))
    for x in (make(2, 3, 8), make(3, 8), make(8)):
        check(aten.linear.default, x, make(5, 8), make(5))
        check(aten.linear.default, x, make(5, 8))
    check(aten.outer.default, make(3), make(4))
    x, w, b, g = (make(*s).requires_grad_(i < 3) for i, s in enumerate(((2, 3, 8), (5, 8), (5,), (2, 3, 5))))
    torch.nn.functional.linear(x, w, b).backward(g)
    replay(
        aten.linear_backward.default,
        (x.detach(), g, w.detach(), [True, True, True]),
        (x.grad, w.grad, b.grad),
    )


def test_beta_of_zero_drops_nan():
    nan = torch.full((3, 4), math.nan)
    a, b = torch.randn(3, 5), torch.randn(5, 4)
    for lift in ((), ("beta", "alpha")):
        check(aten.addmm.default, nan, a, b, beta=0, alpha=2, lift=lift)
        check(aten.addmm.default, torch.ones(4), a, b, beta=0.5, alpha=2, lift=lift)


def test_empty_contraction_gives_zeros():
    check(aten.mm.default, torch.randn(3, 0), torch.randn(0, 4))
    check(aten.mm.default, torch.randn(0, 3), torch.randn(3, 4))
    check(aten.mv.default, torch.randn(3, 0), torch.randn(0))
    check(aten.addmm.default, torch.randn(4), torch.randn(3, 0), torch.randn(0, 4))


def test_rows_in_groups():
    offsets = torch.tensor([3, 3, 10], dtype=torch.int32)
    check(aten._grouped_mm.default, torch.randn(10, 8), torch.randn(3, 8, 16), offsets)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems(upper, left, unit):
    torch.manual_seed(0)
    a = torch.randn(2, 1, 4, 4) + 4 * torch.eye(4)  # the other triangle holds numbers, too
    b = torch.randn(3, 4, 5) if left else torch.randn(3, 5, 4)
    arguments = dict(upper=upper, left=left, unitriangular=unit)
    check(aten.linalg_solve_triangular.default, a, b, **arguments)
    check(aten.linalg_solve_triangular.default, a.double(), b.double(), **arguments)
