"""Where PyTorch's own CPU kernel is wrong the device is not: fused SGD on 16-bit parameters reads the momentum as
floats, beyond its end, and stores no parameter, as soon as there are enough elements for a vector; batch norm in its
out= forms, on a strided input, writes what it found in memory."""

import pytest
import torch

from tests.python import support


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("nesterov", [False, True])
def test_fused_sgd_on_half_types(dtype, nesterov, device, mode):
    sizes, options = (37, 1000), {"lr": 0.1, "momentum": 0.9, "nesterov": nesterov, "weight_decay": 0.01}
    torch.manual_seed(0)
    starts = [torch.randn(n).to(dtype) for n in sizes]
    gradients = [[torch.randn(n).to(dtype) for n in sizes] for _ in range(3)]
    buffers = [None] * len(sizes)
    expected = [p.float() for p in starts]
    for step in gradients:
        for k, gradient in enumerate(step):
            g = gradient.float() + 0.01 * expected[k]
            b = g if buffers[k] is None else 0.9 * buffers[k] + g
            expected[k] = (expected[k] - 0.1 * (g + 0.9 * b if nesterov else b)).to(dtype).float()
            buffers[k] = b.to(dtype).float()
    parameters = [torch.nn.Parameter(p.to(device)) for p in starts]
    optimizer = torch.optim.SGD(parameters, fused=True, **options)
    with mode.active():
        for step in gradients:
            for p, gradient in zip(parameters, step, strict=True):
                p.grad = gradient.to(device)
            optimizer.step()
        for p, e, b in zip(parameters, expected, buffers, strict=True):
            torch.testing.assert_close(p.detach().cpu().float(), e)
            torch.testing.assert_close(optimizer.state[p]["momentum_buffer"].cpu().float(), b)


@pytest.mark.parametrize(
    "operator", ["native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"]
)
@pytest.mark.parametrize("layout", ["expanded", "transposed", "narrowed"])
def test_batch_norm_of_a_strided_input(operator, layout, device):
    torch.manual_seed(0)
    x = {
        "expanded": torch.randn(1, 1, 3).expand(1, 2, 3),
        "transposed": torch.randn(3, 4, 2).transpose(-1, -2),
        "narrowed": torch.randn(3, 2, 8)[..., ::2],
    }[layout]
    training = () if operator == "_batch_norm_with_update" else (True,)
    found = []
    for where in ("cpu", device):
        moved = support.move(x, where)
        mean, var = torch.zeros(x.shape[1], device=where), torch.ones(x.shape[1], device=where)
        function = getattr(torch.ops.aten, operator).default
        result = function(moved, None, None, mean, var, *training, 0.1, 1e-5)
        found.append([y.cpu() for y in (*result[:3], mean, var)])
    torch.testing.assert_close(found[1], found[0])


def test_batch_norm_without_statistics_of_a_strided_input(device):
    x = torch.randn(3, 2, 8)
    found = [
        torch.ops.aten._native_batch_norm_legit.no_stats(x.to(where)[..., ::2], None, None, True, 0.1, 1e-5)
        for where in ("cpu", device)
    ]
    torch.testing.assert_close([y.cpu() for y in found[1]], list(found[0]))


def test_evaluation_with_expanded_statistics(device):
    x = torch.randn(3, 2, 4)

    def run(where):
        mean, var = (
            torch.full((1,), 0.5, device=where).expand(2),
            torch.full((1,), 2.0, device=where).expand(2),
        )
        function = torch.ops.aten._native_batch_norm_legit.default
        return function(x.to(where), None, None, mean, var, False, 0.1, 1e-5)[0].cpu()

    torch.testing.assert_close(run(device), run("cpu"))
