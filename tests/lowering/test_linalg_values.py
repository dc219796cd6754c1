"""Dense linear algebra against LAPACK through PyTorch: batches, wide and tall, complex, singular, empty."""

import pytest
import torch

from tests.lowering.checks import check, run

aten = torch.ops.aten
DTYPES = [torch.float32, torch.float64, torch.complex64]


def matrices(*shape, dtype=torch.float64):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype)


def positive(*shape, dtype=torch.float64):
    a = matrices(*shape, dtype=dtype)
    return a @ a.mH + shape[-1] * torch.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 4, 4), (3, 6, 4), (3, 4, 6), (1, 1)])
def test_lu(shape, dtype):
    a = matrices(*shape, dtype=dtype)
    check(aten.linalg_lu_factor_ex.default, a)
    check(aten.linalg_lu.default, a)
    factors, pivots, _ = torch.linalg.lu_factor_ex(a)
    check(aten.lu_unpack.default, factors, pivots)
    check(aten.lu_unpack.default, factors, pivots, True, False)


def test_lu_of_singular_matrices():
    a = torch.tensor([[0.0, 1, 2], [0, 3, 4], [0, 5, 6]])
    check(aten.linalg_lu_factor_ex.default, torch.stack([a, torch.eye(3), torch.zeros(3, 3)]))
    check(aten.linalg_lu_factor_ex.default, torch.empty(0, 3, 3))
    check(aten.linalg_lu_factor_ex.default, torch.empty(2, 0, 3))


def test_pivots_that_are_no_rows():
    factors, pivots, _ = torch.linalg.lu_factor_ex(matrices(3, 3))
    for wrong in (0, 4):
        pivots[1] = wrong
        recorder_error = run_unchecked(aten.lu_unpack.default, factors, pivots)
        assert recorder_error == 0


def run_unchecked(function, factors, pivots):
    """PyTorch's kernel refuses the pivots; the lowering's check must say so, too."""
    from tests.lowering.harness import Recorder

    class Stub:
        _schema = function._schema

        def __str__(self):
            return str(function)

        def __call__(self, *_):
            n = factors.shape[-1]
            return tuple(torch.empty(n, n, dtype=factors.dtype) for _ in range(3))

    recorder = Recorder()
    recorder.__torch_dispatch__(Stub(), (), (factors, pivots), {})
    return recorder.run()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
def test_solve(left, dtype):
    a = matrices(2, 4, 4, dtype=dtype)
    b = matrices(2, 4, 3, dtype=dtype) if left else matrices(2, 3, 4, dtype=dtype)
    for matrix in (a, a.mT):
        check(aten._linalg_solve_ex.default, matrix, b, left=left)
    check(aten._linalg_solve_ex.default, a[0], b, left=left)  # shared by the batch
    factors, pivots, _ = torch.linalg.lu_factor_ex(a)
    for adjoint in (False, True):
        check(aten.linalg_lu_solve.default, factors, pivots, b, left=left, adjoint=adjoint)


def test_solve_for_vectors_and_nothing():
    check(aten._linalg_solve_ex.default, matrices(4, 4), matrices(4))
    check(aten._linalg_solve_ex.default, matrices(2, 4, 4), matrices(2, 4))
    check(aten._linalg_solve_ex.default, matrices(2, 4, 4), matrices(2, 4, 0))
    check(aten._linalg_solve_ex.default, torch.empty(0, 0), torch.empty(0, 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_inverse_and_determinant(dtype):
    for a in (matrices(4, 4, dtype=dtype), matrices(2, 3, 5, 5, dtype=dtype), matrices(3, 3, dtype=dtype).mT):
        check(aten.linalg_inv_ex.default, a)
        check(aten._linalg_det.default, a)
        check(aten._linalg_slogdet.default, a)
    check(aten._linalg_det.default, torch.zeros(2, 3, 3, dtype=dtype))
    check(aten._linalg_slogdet.default, torch.zeros(2, 3, 3, dtype=dtype))
    check(aten.linalg_inv_ex.default, torch.empty(0, 3, 3, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [True, False])
def test_cholesky(upper, dtype):
    for a in (positive(4, 4, dtype=dtype), positive(2, 3, 5, 5, dtype=dtype)):
        check(aten.linalg_cholesky_ex.default, a, upper=upper)
        factor = torch.linalg.cholesky(a, upper=upper)
        check(aten._cholesky_solve_helper.default, matrices(*a.shape[:-1], 3, dtype=dtype), factor, upper)
        check(aten.cholesky_inverse.default, factor, upper)
    check(aten.linalg_cholesky_ex.default, torch.empty(2, 0, 0, dtype=dtype), upper=upper)


def test_cholesky_says_where_it_fails():
    good = positive(4, 4)
    bad, worse, nan = good.clone(), good.clone(), good.clone()
    bad[2, 2] = -1
    worse[0, 0] = 0
    nan[3, 3] = float("nan")
    a = torch.stack([good, bad, worse, nan])
    recorder, results, _ = run(aten.linalg_cholesky_ex.default, a)
    assert recorder.value_of(results[1]).tolist() == results[1].tolist() == [0, 3, 1, 4]
    torch.testing.assert_close(recorder.value_of(results[0])[0], results[0][0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 6, 3), (2, 2, 3, 5), (1, 1)])
def test_qr(shape, dtype):
    a = matrices(*shape, dtype=dtype)
    for mode in ("reduced", "complete", "r"):
        check(aten.linalg_qr.default, a, mode)
    check(aten.geqrf.default, a)
    packed, tau = torch.geqrf(a)
    if shape[-2] >= shape[-1]:
        check(aten.linalg_householder_product.default, packed, tau)
        other = matrices(*shape[:-1], 3, dtype=dtype)
        check(aten.ormqr.default, packed, tau, other)
        check(aten.ormqr.default, packed, tau, other, True, True)
        check(aten.ormqr.default, packed, tau, other.mT.contiguous(), False)


def test_qr_of_what_is_triangular_already():
    check(aten.geqrf.default, torch.eye(3))
    check(aten.linalg_qr.default, torch.zeros(3, 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_systems(dtype):
    a, b = matrices(2, 4, 4, dtype=dtype) + 3 * torch.eye(4), matrices(2, 4, 3, dtype=dtype)
    for upper in (True, False):
        for transpose in (True, False):
            check(aten.triangular_solve.default, b, a, upper, transpose)
        check(aten.triangular_solve.default, b, a[0], upper, False, True)
        check(aten.linalg_solve_triangular.default, a, b, upper=upper)
    check(aten.triangular_solve.default, torch.empty(0, 3), torch.empty(0, 0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_exponential(dtype):
    for scale in (0, 1e-3, 0.5, 3):
        check(aten.linalg_matrix_exp.default, scale * matrices(2, 4, 4, dtype=dtype))
    mixed = torch.stack(
        [matrices(3, 3, dtype=dtype), 4 * torch.eye(3, dtype=dtype), 0 * torch.eye(3, dtype=dtype)]
    )
    check(aten.linalg_matrix_exp.default, mixed)
    check(aten.linalg_matrix_exp.default, torch.empty(2, 0, 0, dtype=dtype))


def test_matrix_exponential_of_half_precision_is_rounded_once():
    x = matrices(3, 3).bfloat16()
    check(aten.linalg_matrix_exp.default, x, want=[torch.linalg.matrix_exp(x.double()).bfloat16()])


def test_no_loop_where_a_host_kernel_is_faster():
    from tests.lowering.harness import Recorder, Unimplemented

    recorder = Recorder(kernels_by_name=True)
    recorder.__torch_dispatch__(aten.linalg_lu_factor_ex.default, (), (matrices(65, 65),), {})
    with pytest.raises(Unimplemented, match="host kernel"):
        recorder.run()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 6, 3), (2, 3, 5), (1, 1), (7, 7)])
def test_singular_values(shape, dtype):
    a = matrices(*shape, dtype=dtype)
    check(aten._linalg_svd.default, a, False, False)
    check(aten.linalg_pinv.atol_rtol_tensor, a)


def test_singular_values_of_special_matrices():
    a = matrices(5, 3)
    low = torch.cat([a, a[:, :1] + a[:, 1:2]], 1)  # of rank 3
    for x in (torch.zeros(3, 3), torch.eye(4), low, low.T.contiguous(), torch.ones(6, 6)):
        check(aten._linalg_svd.default, x, False, False)
    for options in (dict(), dict(rtol=torch.tensor(0.1)), dict(atol=torch.tensor(1.0))):
        check(aten.linalg_pinv.atol_rtol_tensor, low, **options)
        check(aten.linalg_pinv.atol_rtol_tensor, low @ low.T, hermitian=True, **options)
    check(aten.linalg_pinv.atol_rtol_tensor, torch.zeros(2, 3, 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues(dtype):
    a = matrices(2, 5, 5, dtype=dtype)
    a = a + a.mH
    for triangle in ("L", "U"):
        check(aten._linalg_eigh.default, a, triangle, False)
        check(aten._linalg_eigh.default, a.triu() if triangle == "U" else a.tril(), triangle, False)
    # Opposite eigenvalues, and equal ones.
    check(aten._linalg_eigh.default, torch.diag(torch.tensor([1.0, -1, 2, -2, 0])).to(dtype), "L", False)
    check(aten._linalg_eigh.default, torch.tensor([[0.0, 1], [1, 0]], dtype=dtype), "L", False)


def test_vectors_are_left_to_the_host():
    from tests.lowering.harness import Unimplemented

    for call in ((aten._linalg_svd.default, matrices(3, 3)), (aten._linalg_eigh.default, positive(3, 3))):
        with pytest.raises(Unimplemented, match="unique up to a sign"):
            run(*call)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3), (3, 0), (0, 3), (2, 3, 0)])
def test_matrices_of_nothing(shape):
    a = torch.empty(*shape)
    check(aten.linalg_lu.default, a)
    for mode in ("reduced", "complete", "r"):
        check(aten.linalg_qr.default, a, mode)
    check(aten.linalg_pinv.atol_rtol_tensor, a)
    if shape[-1] == shape[-2]:
        check(aten._linalg_det.default, a)
        check(aten._linalg_slogdet.default, a)
