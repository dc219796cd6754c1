"""What broke once: linalg.lstsq's solution, a strided part of its storage on CPU, came back contiguous; addbmm_ refused
to give its first argument the size of the result; uniform_ refused complex tensors; what CPU's kernel conjugates by the
bit of its result came back unconjugated."""

import pytest
import torch


def test_a_strided_part_of_a_larger_storage_stays_one(device):
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    expected = torch.linalg.lstsq(a, b).solution
    actual = torch.linalg.lstsq(a.to(device), b.to(device)).solution
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("sizes", [(), (1,), (4, 5)])
def test_addbmm_in_place_has_the_sizes_of_its_result(sizes, device):
    first, batch1, batch2 = torch.randn(sizes), torch.randn(2, 4, 3), torch.randn(2, 3, 5)
    expected = first.clone().addbmm_(batch1, batch2, beta=0.5)
    actual = first.to(device).addbmm_(batch1.to(device), batch2.to(device), beta=0.5)
    torch.testing.assert_close(actual.cpu(), expected)


def test_complex_tensors_are_filled_uniformly_in_both_parts(device):
    x = torch.empty(4096, dtype=torch.complex64, device=device).uniform_(1, 3).cpu()
    for part in (x.real, x.imag):
        assert 1 <= part.min() < 1.1 < 2.9 < part.max() < 3
        assert abs(part.mean() - 2) < 0.1


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("out", [False, True])
def test_a_kernel_that_conjugates_by_the_bit(out, adjoint, device):
    torch.manual_seed(0)
    factors, pivots = torch.linalg.lu_factor(torch.randn(3, 3, dtype=torch.complex64))
    arguments = factors, pivots, torch.randn(2, 3, dtype=torch.complex64)

    def solve(arguments, where):
        given = {"out": torch.empty(2, 3, dtype=torch.complex64, device=where)} if out else {}
        return torch.linalg.lu_solve(*arguments, left=False, adjoint=adjoint, **given)

    expected = solve(arguments, "cpu")
    assert expected.is_conj()
    actual = solve([x.to(device) for x in arguments], device)
    torch.testing.assert_close((actual + 0).cpu(), (expected + 0))


@pytest.mark.parametrize("gradient", [False, True])
def test_max_pool1d_of_a_strided_input(gradient, device):
    x = torch.randn(2, 5, 3)

    def pool(where):
        y = x.to(where).transpose(-1, -2).requires_grad_(gradient)
        result = torch.nn.functional.max_pool1d(y, 2)
        return result, torch.autograd.grad(result.sum(), y)[0] if gradient else result

    for actual, expected in zip(pool(device), pool("cpu"), strict=True):
        assert actual.stride() == expected.stride()
        torch.testing.assert_close(actual.detach().cpu(), expected.detach())
