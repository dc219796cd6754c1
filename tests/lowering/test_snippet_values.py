"""Snippets over views, in-place writes and aliasing, against PyTorch: random programs and the cases worth naming."""

import random

import pytest
import torch

from tests.lowering.harness import Recorder, get_library


def compare(recorder, tensors):
    assert recorder.run() == -1
    for i, want in enumerate(tensors):
        if want.untyped_storage()._cdata not in recorder.storages:
            continue  # no record touches it
        got = recorder.value_of(want)
        if not torch.allclose(got, want, rtol=1e-4, atol=1e-4, equal_nan=True):
            text = recorder.text() + get_library().dendrite_harness_stablehlo().decode()
            raise AssertionError(f"tensor {i}: got {got}\nwant {want}\n{text}")


def hlo():
    return get_library().dendrite_harness_stablehlo().decode()


def random_view(t, rng):
    """One random view of `t`."""
    kind = rng.choice(["select", "slice", "step", "transpose", "permute", "flatten", "unsqueeze", "expand", "split",
                       "diagonal", "unfold", "narrow_last", "as_strided"])  # fmt: skip
    d = rng.randrange(t.dim()) if t.dim() else 0
    if t.dim() == 0 or t.numel() == 0:
        return t.unsqueeze(0)
    n = t.shape[d]
    if kind == "select" and t.dim() > 1:
        return t.select(d, rng.randrange(n))
    if kind == "slice":
        a = rng.randrange(n)
        return t.narrow(d, a, rng.randrange(1, n - a + 1))
    if kind == "step":
        return t[(slice(None),) * d + (slice(rng.randrange(n), None, rng.randrange(1, 4)),)]
    if kind == "transpose" and t.dim() > 1:
        return t.transpose(d, rng.randrange(t.dim()))
    if kind == "permute":
        order = list(range(t.dim()))
        rng.shuffle(order)
        return t.permute(order)
    if kind == "flatten":
        try:
            return t.view(-1)
        except RuntimeError:
            return t
    if kind == "unsqueeze" and t.dim() < 4:
        return t.unsqueeze(d)
    if kind == "expand" and t.dim() < 4:
        return t.unsqueeze(0).expand(3, *t.shape)
    if kind == "split" and n % 2 == 0 and t.dim() < 4:
        return t.unflatten(d, (2, n // 2))
    if kind == "diagonal" and t.dim() > 1:
        return t.diagonal(0, 0, 1)
    if kind == "unfold" and n >= 2:
        return t.unfold(d, 2, 1)
    if kind == "narrow_last":
        return t.narrow(-1, t.shape[-1] // 2, t.shape[-1] - t.shape[-1] // 2)
    if kind == "as_strided" and t.is_contiguous() and t.numel() >= 8:
        return t.as_strided((2, 3), (3, 2), t.storage_offset())
    return t


def overlaps(t):
    """Whether some element is reached twice, which PyTorch refuses to write."""
    positions = [0]
    for size, stride in zip(t.shape, t.stride()):
        positions = [p + i * stride for p in positions for i in range(size)]
    return len(set(positions)) != len(positions)


@pytest.mark.parametrize("host_visible", [True, False], ids=["host_visible", "opaque"])
@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed, host_visible):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    shapes = [(4, 6), (2, 3, 4), (8,), (5, 7), (1, 6), (3, 1, 5), (16, 8)]
    tensors = [torch.randn(rng.choice(shapes)) for _ in range(3)]
    if host_visible:
        tensors.append(torch.randn(300)[37 : 37 + 60].view(6, 10))  # a window of a larger storage
    recorder = Recorder(host_visible=host_visible)
    with recorder:
        for _ in range(12):
            source = rng.choice(tensors)
            for _ in range(rng.randrange(3)):
                source = random_view(source, rng)
            target = rng.choice(tensors)
            for _ in range(rng.randrange(4)):
                target = random_view(target, rng)
            action = rng.choice(["new", "add_", "mul_", "copy_", "fill_", "zero_"])
            if action == "new":
                tensors.append(source * 0.5 + 1)
            elif overlaps(target) or target.numel() == 0:
                continue
            elif action in ("fill_", "zero_"):
                target.fill_(rng.random()) if action == "fill_" else target.zero_()
            else:
                # As large as the target, so that any source will do.
                # An element of the target itself changes under PyTorch's hands.
                if source.untyped_storage()._cdata == target.untyped_storage()._cdata:
                    source = torch.ones(())
                other = source if source.shape == target.shape else source[(0,) * source.dim()]
                try:
                    getattr(target, action)(other)
                except RuntimeError as e:  # PyTorch refuses some overlaps, and then nothing is recorded
                    if not ("memory location" in str(e) or "overlap" in str(e)):
                        raise
    compare(recorder, tensors)


def test_partial_writes_keep_one_form():
    cache = torch.zeros(2, 3, 8, 4)
    rows = torch.randn(2, 3, 1, 4)
    recorder = Recorder()
    with recorder:
        for i in range(3):
            cache[:, :, i : i + 1].copy_(rows)
    compare(recorder, [cache])
    # Updates chain without a reshape of the cache between them, so that a plugin can do them in place.
    updates = [line for line in hlo().splitlines() if "dynamic_update_slice" in line]
    assert len(updates) == 3
    assert not any("reshape" in line and "-> tensor<192xf32>" in line for line in hlo().splitlines())


def test_value_is_read_back_for_nothing():
    x = torch.randn(4, 8)
    recorder = Recorder()
    with recorder:
        y = x.t() + 1
        z = y * 2
    compare(recorder, [y, z])
    assert hlo().count("transpose") <= 3  # x to y's sizes, and each result to its storage's order


@pytest.mark.parametrize(
    "dtype", [torch.int32, torch.float32, torch.float64, torch.bool, torch.uint8, torch.complex64]
)
def test_dtype_views(dtype):
    x = torch.randint(0, 2, (4, 16), dtype=torch.uint8)
    recorder = Recorder()
    with recorder:
        y = x.view(dtype).clone()
        x.view(dtype)[1:3].zero_()
        x.add_(1)
    compare(recorder, [y, x])


def test_complex_as_real():
    z = torch.randn(3, 4, dtype=torch.complex64)
    recorder = Recorder()
    with recorder:
        a = torch.view_as_real(z) * 2
        z.real.add_(1)
        b = z.conj() * 1j
        c = z.conj().imag + 1
        d = torch.view_as_complex(a) + z
    compare(recorder, [a, z, b, c, d])


def test_empty_and_zero_dim():
    e, s = torch.empty(0, 3), torch.tensor(2.0)
    recorder = Recorder()
    with recorder:
        a = e + 1
        b = s * 3
        s.add_(b)
        c = torch.zeros(3)[:0] + s
    compare(recorder, [a, b, s, c])


def test_small_tensor_in_a_large_bucket():
    bucket = torch.randn(100_000)
    p = bucket[50_001 : 50_001 + 24].view(4, 6)
    recorder = Recorder()
    with recorder:
        p.mul_(2)
        q = p[1:] + 1
    compare(recorder, [bucket, q])
    assert "100000" not in hlo()


def test_dead_intermediate_is_no_output():
    x = torch.randn(8)
    recorder = Recorder()
    with recorder:
        dead = x.exp()
        y = dead + 1
    recorder.storages[dead.untyped_storage()._cdata].live = False
    compare(recorder, [y])
    assert hlo().count("tf.aliasing_output") == 1


def test_moving_offset_is_an_argument():
    cache, row = torch.zeros(6, 4), torch.randn(4)
    for at in (0, 3, 5):
        recorder = Recorder(lift_offsets=True)
        with recorder:
            cache[at].copy_(row)
            y = cache[at] * 2
        compare(recorder, [cache, y])
    first = hlo()
    assert "dynamic_slice" in first or "dynamic_update_slice" in first
    recorder = Recorder(lift_offsets=True)
    with recorder:
        cache[1].copy_(row)
        y = cache[1] * 2
    compare(recorder, [cache, y])
    assert hlo() == first
