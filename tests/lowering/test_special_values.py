"""Special functions against PyTorch's CPU kernels: over their whole range, at poles, infinities and NaN."""

import math

import mpmath
import pytest
import torch

from tests.lowering.checks import check, run

aten = torch.ops.aten
INF, NAN = math.inf, math.nan
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, 8.0, -8.0, 0.5, -0.5, NAN, INF, -INF]


def points(low, high, dtype, n=173):
    return torch.cat([torch.linspace(low, high, n, dtype=dtype), torch.tensor(EDGES, dtype=dtype)])


UNARY = {
    "i0": (-60, 60),
    "special_i0e": (-200, 200),
    "special_i1": (-60, 60),
    "special_i1e": (-200, 200),
    "special_modified_bessel_i0": (-60, 60),
    "special_modified_bessel_i1": (-60, 60),
    "special_modified_bessel_k0": (-1, 60),
    "special_modified_bessel_k1": (-1, 60),
    "special_scaled_modified_bessel_k0": (-1, 90),
    "special_scaled_modified_bessel_k1": (-1, 90),
    "special_bessel_j0": (-50, 50),
    "special_bessel_j1": (-50, 50),
    "special_bessel_y0": (-1, 50),
    "special_bessel_y1": (-1, 50),
    "special_spherical_bessel_j0": (-20, 20),
    "special_airy_ai": (-12, 9),
    "lgamma": (-20.3, 200),
    "digamma": (-20.3, 200),
    "special_erfcx": (-5, 60),
    "special_log_ndtr": (-40, 8),
    "special_ndtri": (-0.1, 1.1),
    "special_entr": (-1, 5),
}


# Where PyTorch's own kernels are wrong by up to 3e-6, in f64 too: what they approximate.
TRUTH = {
    "special_bessel_j0": lambda x: mpmath.besselj(0, x),
    "special_bessel_j1": lambda x: mpmath.besselj(1, x),
    "special_bessel_y0": lambda x: mpmath.bessely(0, x) if x > 0 else -INF if x == 0 else NAN,
    "special_bessel_y1": lambda x: mpmath.bessely(1, x) if x > 0 else -INF if x == 0 else NAN,
    "special_airy_ai": mpmath.airyai,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    x = points(*UNARY[name], dtype)
    if name in {"lgamma", "digamma"}:  # infinitely steep there: a rounding of x is what both compute
        x = x[(x > 0) | ((x - x.round()).abs() > 0.02) | ~x.isfinite()]
    function = getattr(aten, name).default
    if name not in TRUTH:
        return check(function, x)
    want = [float(TRUTH[name](mpmath.mpf(v))) if math.isfinite(v) else NAN for v in x.tolist()]
    check(function, x, want=[torch.tensor(want, dtype=dtype)])
    check(function, torch.linspace(*UNARY[name], 173))


@pytest.mark.parametrize("name", sorted(UNARY))
def test_other_types_and_shapes(name):
    function = getattr(aten, name).default
    check(function, torch.tensor([1, 2, 3]))
    check(function, torch.tensor(0.75))
    check(function, torch.empty(0, 3))
    check(function, torch.rand(3, 4).t())


def test_tails_of_the_normal_quantile():
    p = torch.tensor([1e-300, 1e-100, 1e-20, 1e-8, 1e-3, 0.1, 0.125, 0.9, 1 - 1e-9], dtype=torch.float64)
    check(aten.special_ndtri.default, p)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_polygamma(n):
    x = torch.cat([torch.linspace(-4.4, 30, 69), torch.tensor([NAN, INF])])
    check(aten.polygamma.default, n, x)
    # The CPU's series for n = 1 is good to nine digits only.
    want = [float(mpmath.polygamma(n, v)) if math.isfinite(v) else NAN for v in x.double().tolist()]
    want = torch.tensor(want, dtype=torch.float64)
    want = torch.where(x.isfinite(), want, torch.polygamma(n, x.double()))
    check(aten.polygamma.default, n, x.double(), want=[want])
    check(aten.polygamma.default, n, torch.tensor([1, 2]))


def test_zeta():
    x = torch.tensor([1.0, 0.5, 1.5, 2.0, 3.0, 2.5, 30.0, 200.0, NAN, 3.0, 2.5, 4.0])
    q = torch.tensor([2.0, 2.0, 0.3, 1.0, 20.0, -1.5, 0.5, 3.0, 1.0, -2.0, -2.0, -2.5])
    for dtype in (torch.float32, torch.float64):
        check(aten.special_zeta.default, x.to(dtype), q.to(dtype))
        check(aten.special_zeta.other_scalar, x.to(dtype), 1.5)
        check(aten.special_zeta.self_scalar, 2.0, q.to(dtype))


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma(name):
    a = [0.0, 0.1, 0.5, 1.0, 2.5, 7.0, 25.0, 150.0, 1000.0, INF, -1.0, NAN]
    x = [0.0, 1e-3, 0.4, 1.0, 1.2, 3.0, 8.0, 24.0, 160.0, 990.0, INF, -1.0, NAN]

    def truth(a, x, kernel):  # where the CPU's expansions for large numbers are good to nine digits only
        if not (0 < a < INF and 0 < x < INF):
            return kernel
        ends = (0, x) if name == "igamma" else (x, mpmath.inf)
        return float(mpmath.gammainc(a, *ends, regularized=True))

    function = getattr(aten, name).default
    rows, columns = torch.tensor(a, dtype=torch.float64)[:, None], torch.tensor(x, dtype=torch.float64)
    kernel = function(rows, columns)
    want = [[truth(a[i], x[k], kernel[i, k].item()) for k in range(len(x))] for i in range(len(a))]
    check(function, rows, columns, want=[torch.tensor(want, dtype=torch.float64)])
    check(function, rows[1:8].float(), columns[1:9].float())


POLYNOMIALS = [
    *("chebyshev_polynomial_" + k for k in "tuvw"),
    *("shifted_chebyshev_polynomial_" + k for k in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_orthogonal_polynomials(name):
    packet = getattr(aten, "special_" + name)
    # No NaN among the arguments: most of the CPU's kernels return an uninitialised variable for it.
    x = torch.tensor([-1.5, -1.0, -0.7, 0.0, 0.3, 0.99, 1.0, 1.25], dtype=torch.float64)
    n = torch.tensor([-1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 13.0, NAN], dtype=torch.float64)
    check(packet.default, x[:, None], n)
    check(packet.default, x[:, None].float(), n[:7].float())
    check(packet.n_scalar, x, 4)
    check(packet.x_scalar, 0.25, n)
    check(packet.n_scalar, torch.tensor([1, 0, 2]), 3)
    check(packet.n_scalar, torch.empty(0), 3)


def test_hermite_polynomials_have_a_highest_degree():
    check(aten.special_hermite_polynomial_h.n_scalar, torch.tensor([0.5]), 129)
    check(aten.special_hermite_polynomial_he.n_scalar, torch.tensor([0.5], dtype=torch.float64), 513)


def test_xlog1py():
    x = torch.tensor([0.0, 1.0, NAN, 0.0, 2.0, -1.0, 0.0])
    y = torch.tensor([-1.0, -1.0, 1.0, NAN, 1e-9, INF, INF])
    check(aten.special_xlog1py.default, x, y)
    check(aten.special_xlog1py.other_scalar, x, 2)
    check(aten.special_xlog1py.self_scalar, 2, y)


def test_incomplete_gamma_gradient_is_made_of_these():
    a, x = torch.rand(5) + 0.5, (torch.rand(5) + 0.5).requires_grad_()
    torch.igamma(a, x).sum().backward()
    _, results, _ = run(aten.lgamma.default, a)
    torch.testing.assert_close(x.grad, (x.log() * (a - 1) - x - results[0]).exp().detach())
