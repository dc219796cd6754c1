"""Results of CPU kernels that have no .out form are made in the device tensor's own memory: the same values and
strides as on CPU, also where several results have one size, or the kernel's layout is not the result's."""

import pytest
import torch
import torch.nn.functional as F

CONVOLUTIONS = [
    ((2, 8, 16, 16), (8, 8, 3, 3), {"padding": 1}, F.conv2d),
    ((2, 8, 9, 9), (4, 8, 3, 3), {}, F.conv2d),
    ((4, 16, 20), (16, 1, 3), {"groups": 16, "padding": 1}, F.conv1d),
    ((1, 3, 4, 5, 6), (3, 3, 1, 1, 1), {}, F.conv3d),
    ((2, 8, 8, 8), (8, 8, 3, 3), {"padding": 1, "dtype": torch.bfloat16}, F.conv2d),
]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("case", range(len(CONVOLUTIONS)))
def test_convolutions_and_their_gradients(case, channels_last):
    shape, weight_shape, options, function = CONVOLUTIONS[case]
    options = dict(options)
    dtype = options.pop("dtype", torch.float32)
    if channels_last and len(shape) != 4:
        pytest.skip("channels last is a layout of four dimensions")
    torch.manual_seed(0)
    values = [torch.randn(s, dtype=dtype) for s in (shape, weight_shape, weight_shape[:1])]
    if channels_last:
        values[0] = values[0].contiguous(memory_format=torch.channels_last)
    results = []
    for device in "cpu", "neuron":
        for _ in range(3):  # memory of one run is reused by the next
            leaves = [v.to(device).detach().requires_grad_() for v in values]
            output = function(*leaves, **options)
            output.square().sum().backward()
            run = [output.detach(), *(leaf.grad for leaf in leaves)]
        results.append(run)
    rounding, rtol = (1e-6, 1e-4) if dtype == torch.float32 else (1e-2, 5e-2)
    for reference, ours in zip(*results, strict=True):
        # A gradient's elements are sums of hundreds of products that nearly cancel: what an order of addition can
        # change is a share of the terms, which the largest element stands for, not of the sum.
        atol = rounding * reference.abs().max().item()
        torch.testing.assert_close(ours.cpu(), reference, rtol=rtol, atol=atol)
        assert ours.stride() == reference.stride()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linalg.qr(x @ x.T + 64 * torch.eye(64, device=x.device)),
        lambda x: torch.linalg.eigh(x @ x.T)[:1],
        lambda x: torch.linalg.svd(x)[1],
        torch.linalg.lu_factor,
        lambda x: x.sort(),
        lambda x: x.aminmax(dim=1),
        lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
        lambda x: torch.native_group_norm(x.view(4, 16, 64), None, None, 4, 16, 64, 4, 1e-5),
    ],
)
def test_results_of_one_size_are_not_crossed(function):
    torch.manual_seed(1)
    x = torch.randn(64, 64)
    on_device = x.to("neuron")
    for _ in range(3):
        reference, ours = function(x), function(on_device)
        if isinstance(reference, torch.Tensor):
            reference, ours = (reference,), (ours,)
        for r, o in zip(reference, ours, strict=True):
            torch.testing.assert_close(o.cpu(), r, rtol=1e-3, atol=1e-3)


def test_memory_that_was_offered_is_not_freed_twice():
    # oneDNN takes scratch memory of the result's size as a raw pointer.
    torch.manual_seed(2)
    x, w = torch.randn(1, 16, 8, 8, device="neuron"), torch.randn(16, 16, 1, 1, device="neuron")
    reference = F.conv2d(x.cpu(), w.cpu())
    for _ in range(200):
        torch.testing.assert_close(F.conv2d(x, w).cpu(), reference, rtol=1e-4, atol=1e-4)
