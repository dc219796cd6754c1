"""What the fuzzer (tests/fuzz) found, each as small as it gets. The first line of a test says what was wrong."""

import pytest
import torch

from tests.python.support import outcome


def test_foreach_writes_are_seen_by_autograd(device):
    """Lists written in place kept their version counters: backward used the new values without an error."""
    x = torch.full((3,), 2.0, device=device)
    w = torch.ones(3, device=device, requires_grad=True)
    y = (w * x).sum()
    torch._foreach_mul_([x], 5.0)
    assert x._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_every_foreach_write_counts_as_one(device):
    def versions(where):
        xs = [torch.ones(2, device=where) for _ in range(2)]
        torch._foreach_add_(xs, 1)
        torch._foreach_addcmul_(xs, xs, xs, value=0.5)
        torch._foreach_sqrt_(xs)
        torch._foreach_add(xs, 1)
        return [x._version for x in xs]

    assert outcome(lambda: versions(device)) == outcome(lambda: versions("cpu"))


def test_a_mask_does_not_hide_nan(mode):
    """XLA made `mask.float() * x` into `select(mask, x, 0)`: NaN, infinity and the sign of zero were lost."""
    x = torch.tensor([float("nan"), float("inf"), -1.0, 2.0, -0.0])
    mask = torch.tensor([False, False, False, True, True])

    def run(x, mask):
        return x * mask, mask * x.double(), x * mask.to(torch.bfloat16), (x - 1) * (x > 100), x.half() * mask

    for y in mode.same(run, x, mask):
        assert y[0].isnan()
        assert y[2] == 0
        assert y[2].signbit()


def test_exponentials_overflow_where_they_are(mode):
    """XLA made exp(x) * exp(y) into exp(x + y) and log(exp(x)) into x: finite where PyTorch has NaN and infinity."""

    def run(x, y):
        return x.exp() * y.exp(), x.exp().log(), x / y.exp()

    x, y = torch.tensor([1e30, 1000.0, 1.0]), torch.tensor([-float("inf"), -1000.0, 2.0])
    product, log, _ = mode.same(run, x, y)
    assert product[:2].isnan().all()
    assert log[:2].isinf().all()


def test_the_root_of_a_square_overflows_where_the_square_does(mode):
    """XLA made sqrt(x * x) into abs(x), and log2(exp2(x)) into x."""

    def run(x):
        return (x * x).sqrt(), x.square().rsqrt(), x.exp2().log2(), (x**2) ** 0.5

    x = torch.tensor([1e30, 1e-30, 1000.0, -0.0, 4.0, -1.0, float("nan"), float("inf")])
    root, inverse, log, _ = mode.same(run, x)
    assert root[0].isinf()
    assert inverse[0] == 0
    assert log[2].isinf()


def test_clamping_zero_keeps_its_sign_and_a_sum_of_one_begins_with_zero(mode):
    """Compiled, relu(-0.0) and clamps at zero were 0.0, and sums over a dimension of size one gave -0.0 back."""

    def run(x):
        kept = (
            torch.relu(x),
            torch.nn.functional.relu6(x),
            x.clamp(min=0),
            torch.nn.functional.hardtanh(x, 0, 1),
        )
        return *kept, x.view(-1, 1).sum(1), x.view(-1, 1).mean(1), x.view(1, -1).sum(0)

    x = torch.tensor([-0.0, 0.0, -1.0, 2.0, float("nan"), float("inf")])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        results = mode.same(run, x.to(dtype))
        expected = run(x.to(dtype))
        for actual, wanted in zip(results, expected, strict=True):
            assert torch.equal(actual.cpu().signbit()[:4], wanted.signbit()[:4])
