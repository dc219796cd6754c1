"""What every tensor does: printing, reading back, copies, conversions, views, aliases, pickling, DLPack."""

import copy
import io
import pickle
import re

import pytest
import torch
from torch import nn
from torch.utils import dlpack

from tests.python.support import assert_same, move, synchronize, target, tier
from tests.python.test_cases import numbers

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


def values(dtype, *shape):
    x = numbers(*shape, seed=5)
    if dtype.is_complex:
        return torch.complex(x, x.flip(0)).to(dtype)
    return (x * 10).abs().to(dtype) if not dtype.is_floating_point else x.to(dtype)


# --- the device


@pytest.mark.smoke
def test_the_device_is_there_after_import_torch(device):
    x = torch.ones(2, device=device)
    assert x.device.type == device
    if device == "neuron":
        assert torch.neuron.is_available()
        assert torch.neuron.device_count() >= 1
        assert x.device.index == torch.neuron.current_device() == 0
        assert torch.accelerator.current_accelerator().type == "neuron"
        assert x.is_neuron


def test_execution_mode_by_context_and_by_default(device):
    if device != "neuron":
        pytest.skip("modes are the device's own")
    with torch.neuron.execution_mode("adaptive"):
        y = torch.ones(3, device=device) + 1
        with torch.neuron.execution_mode("eager"):
            y = y + 1
        y = y + 1
    assert y.tolist() == [4, 4, 4]
    with pytest.raises(ValueError, match=r"eager.*adaptive"):
        torch.neuron.set_execution_mode("fast")


# --- reading back


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_come_back_as_they_went(dtype, device):
    x = values(dtype, 3, 4)
    y = x.to(device)
    assert (y.dtype, y.shape, y.stride()) == (x.dtype, x.shape, x.stride())
    assert y.tolist() == x.tolist()
    assert y[1, 2].item() == x[1, 2].item()
    assert torch.equal(y.cpu(), x)
    assert torch.equal(y.t().cpu(), x.t())
    assert y.cpu().device.type == "cpu"


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
def test_printing_is_cpus_text_with_the_device_named(shape, dtype, device):
    x = values(dtype, *shape)
    text = repr(x.to(device))
    if device != "cpu":
        assert f"device='{device}:0'" in text
    assert text.replace(f", device='{device}:0'", "") == repr(x)
    if shape == () and dtype == torch.float32:
        assert f"{x.to(device):.3}" == f"{x:.3}"


def test_printing_special_values(device):
    values = [float("nan"), float("inf"), -float("inf"), -0.0]
    if target() == "embedded" and tier() != "compiled":
        values.append(1e-42)  # compiled code flushes denormals, and printing computes
    x = torch.tensor(values)
    # The device's name may not fit on the line.
    assert re.sub(rf",\s+device='{device}:0'", "", repr(x.to(device))) == repr(x)


def test_numpy_raises_as_on_cuda(device):
    x = torch.ones(2, device=device)
    if device == "cpu":
        pytest.skip("CPU tensors convert")
    with pytest.raises(TypeError, match=r"can't convert .* to numpy.*Tensor.cpu\(\)"):
        x.numpy()
    with pytest.raises(TypeError):
        memoryview(x)
    assert x.cpu().numpy().tolist() == [1, 1]


def test_truth_and_numbers(device):
    assert bool(torch.ones((), device=device))
    assert not bool(torch.zeros(1, device=device))
    assert int(torch.tensor(7, device=device)) == 7
    assert float(torch.tensor(0.5, device=device)) == 0.5
    assert list(range(5))[torch.tensor(2, device=device)] == 2
    assert torch.tensor([3, 4], device=device).tolist() == [3, 4]
    with pytest.raises(RuntimeError, match=r"[Bb]oolean value of Tensor"):
        bool(torch.ones(2, device=device))
    with pytest.raises(RuntimeError, match="elements cannot be converted to Scalar"):
        torch.ones(2, device=device).item()


# --- copies and conversions


@pytest.mark.parametrize("source", DTYPES)
def test_every_conversion(source, device):
    x = values(source, 4, 3)
    y = x.to(device)
    for dtype in DTYPES:
        if source.is_complex and not dtype.is_complex:
            continue  # warns, and drops half of the value
        assert_same(y.to(dtype), x.to(dtype))
        assert_same(torch.empty(4, 3, dtype=dtype, device=device).copy_(x), x.to(dtype))
        assert_same(torch.empty(4, 3, dtype=dtype).copy_(y), x.to(dtype))


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "strided": lambda x: x[::2, 1::2],
    "offset": lambda x: x[1:3],
    "expanded": lambda x: x[:1].expand(6, 6),
    "reversed by index": lambda x: x[[5, 4, 3, 2, 1, 0]],
}


@pytest.mark.smoke
@pytest.mark.parametrize("take", LAYOUTS)
def test_copies_of_every_layout_in_every_direction(take, device):
    x = numbers(6, 6)
    part, part_there = LAYOUTS[take](x), LAYOUTS[take](x.to(device))
    assert_same(part_there, part)
    assert_same(part.to(device), part)
    assert part.to(device, copy=True).stride() == part.to("cpu", copy=True).stride()
    assert_same(part_there.clone(), part)
    assert part_there.clone().stride() == part.clone().stride()
    assert part_there.contiguous().is_contiguous()
    for destination in (device, "cpu"):
        for source in (part, part_there):
            target_tensor = torch.zeros(part.shape[::-1], device=destination).t()
            assert_same(target_tensor.copy_(source, non_blocking=True).cpu(), part)


def test_a_non_blocking_source_may_change_at_once(device):
    if device == "cpu":
        pytest.skip("nothing is copied from CPU to CPU")
    source = numbers(1 << 16)
    expected = source.clone()
    there = source.to(device, non_blocking=True)
    source.fill_(-1)
    assert torch.equal(there.cpu(), expected)
    there = expected.clone().to(device, non_blocking=True)  # the source dies at once
    assert torch.equal(there.cpu(), expected)


def test_copying_broadcasts_and_overlapping_copies_follow_cpu(device):
    x = torch.zeros(3, 4, device=device)
    x.copy_(torch.arange(4.0))
    assert_same(x, torch.arange(4.0).expand(3, 4).contiguous())
    x.copy_(torch.tensor(2.0, device=device))
    assert x.sum().item() == 24
    with pytest.raises(RuntimeError, match=r"must match|not match|cannot be broadcast|doesn't match"):
        x.copy_(torch.zeros(5))


def test_factories(device):
    assert torch.zeros(2, 3, device=device).sum().item() == 0
    assert torch.full((2,), 7, device=device).tolist() == [7, 7]
    assert torch.arange(1, 9, 3, device=device).tolist() == [1, 4, 7]
    assert_same(torch.linspace(0, 1, 5, device=device), torch.linspace(0, 1, 5))
    assert torch.eye(2, device=device).tolist() == [[1, 0], [0, 1]]
    assert torch.empty(2, 3, device=device).t().new_zeros(2).device.type == device
    assert torch.tensor([[1, 2]], device=device).shape == (1, 2)
    assert torch.empty_strided((2, 3), (1, 2), device=device).stride() == (1, 2)
    x = torch.empty(2, 3, 4, 5, device=device, memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert torch.zeros_like(x).stride() == x.stride()


# --- views, aliases, storages


@pytest.mark.smoke
def test_views_share_storage_and_versions(device):
    x = torch.zeros(4, 6, device=device)
    y = x.view(6, 4)[1:]
    assert y._base is x
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert y.storage_offset() == 4
    assert y.data_ptr() == x.data_ptr() + 16
    version = x._version
    y.add_(1)
    assert x._version == version + 1
    assert x.sum().item() == 20
    assert x.data_ptr() != 0
    assert torch.zeros(3, device=device).data_ptr() != x.data_ptr()


def test_dtype_and_complex_views(device):
    x = torch.tensor([1.0, -2.0])
    y = x.to(device)
    assert y.view(torch.int32).tolist() == x.view(torch.int32).tolist()
    y.view(torch.int32)[0] = 0x40400000
    assert y.tolist() == [3.0, -2.0]
    z = torch.tensor([1 + 2j, 3 - 1j])
    there = z.to(device)
    assert there.conj().tolist() == z.conj().tolist()
    assert (there.conj() * 2).tolist() == (z.conj() * 2).tolist()
    assert torch.view_as_real(there).tolist() == torch.view_as_real(z).tolist()
    there.imag.mul_(2)
    assert there.tolist() == [1 + 4j, 3 - 2j]
    assert z.conj().imag.to(device).tolist() == z.conj().imag.tolist()  # the negative bit


def test_set_resize_and_data(device):
    x = torch.arange(6.0, device=device)
    y = torch.empty(0, device=device)
    y.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    y.add_(10)
    assert x.tolist() == [0, 11, 12, 13, 14, 5]
    y.set_(torch.ones(3, device=device))
    assert y.tolist() == [1, 1, 1]
    assert x.tolist()[0] == 0
    x.resize_(2, 2)
    assert x.tolist() == [[0, 11], [12, 13]]
    x.resize_(8)
    assert x[:4].tolist() == [0, 11, 12, 13]
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0
    p = nn.Parameter(torch.zeros(2, device=device))
    p.data = torch.ones(3, device=device)
    assert p.tolist() == [1, 1, 1]
    assert p.is_leaf
    assert p.requires_grad


def test_overlapping_writes_raise_as_on_cpu(device):
    x = torch.zeros(4, device=device)
    with pytest.raises(RuntimeError, match=r"single memory location|overlap"):
        x[:1].expand(4).add_(1)
    with pytest.raises(RuntimeError, match=r"unsupported operation|overlap"):
        torch.add(x[:3], 1, out=x[1:])


def test_user_errors_rise_on_the_users_line_in_pytorchs_words(device):
    x = torch.ones(2, 3, device=device)
    with pytest.raises(RuntimeError, match=r"size of tensor a \(3\) must match the size of tensor b \(4\)"):
        x + torch.ones(4, device=device)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        x @ x
    if device != "cpu":
        with pytest.raises(RuntimeError, match=f"{device}.*cpu|cpu.*{device}|same device"):
            x + torch.ones(2, 3)
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        x[torch.tensor([5], device=device)].tolist()
    # An error leaves the device usable.
    assert (torch.ones(2, device=device) + 1).tolist() == [2, 2]


# --- copies of objects, files


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("steps", torch.tensor(4))


def test_deepcopy_and_pickle(device):
    x = torch.arange(6.0, device=device).view(2, 3)
    for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x).clone()):
        assert again.device == x.device
        again.add_(1)
        assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert again.tolist() == [[1, 2, 3], [4, 5, 6]]
    shared = {"whole": x, "row": x[1]}
    twin = copy.deepcopy(shared)
    twin["row"].zero_()
    assert twin["whole"].tolist() == [[0, 1, 2], [0, 0, 0]]
    model = Small().to(device)
    assert copy.deepcopy(model).linear.weight.device.type == device
    leaf = torch.ones(2, device=device, requires_grad=True)
    assert copy.deepcopy(leaf).requires_grad


@pytest.mark.smoke
@pytest.mark.parametrize("weights_only", [True, False])
def test_save_and_load_with_map_location(weights_only, device):
    model = Small().to(device)
    whole = torch.arange(6.0, device=device)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "whole": whole, "part": whole[2:4]}, file)
    there = device if device == "cpu" else f"{device}:0"
    for location in (None, "cpu", device, torch.device(there), {there: "cpu"}):
        file.seek(0)
        loaded = torch.load(file, map_location=location, weights_only=weights_only)
        on_cpu = location == "cpu" or isinstance(location, dict)
        assert loaded["whole"].device.type == ("cpu" if on_cpu else device)
        assert_same(loaded["model"]["linear.weight"], model.linear.weight.detach().cpu())
        loaded["part"].fill_(-1)
        assert loaded["whole"].tolist() == [0, 1, -1, -1, 4, 5], "views stay views of one storage"
    file = io.BytesIO()
    torch.save(torch.ones(3), file)
    file.seek(0)
    assert torch.load(file, map_location=device).device.type == device


def test_a_module_moves_and_keeps_its_parameters(device):
    model = Small()
    weight = model.linear.weight
    assert model.to(device) is model
    assert model.linear.weight is weight
    assert weight.device.type == device
    assert model.steps.device.type == device
    assert model.double().linear.weight.dtype == torch.float64
    assert model.cpu().linear.weight.device.type == "cpu"


def test_dlpack(device):
    x = torch.arange(6.0, device=device).view(2, 3)
    if device == "neuron" and target() == "opaque":
        with pytest.raises((RuntimeError, BufferError)):
            dlpack.to_dlpack(x)
        return
    y = torch.from_dlpack(x)
    y.add_(1)
    synchronize(device)
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert y.device == x.device


# --- autograd, autocast, threads


def test_autograd_hooks_and_grad_modes(device):
    x = move(numbers(3, 3), device).requires_grad_()
    seen = []
    x.register_hook(lambda g: seen.append(g.device.type))
    (x * x).sum().backward()
    assert seen == [device]
    assert_same(x.grad, 2 * numbers(3, 3))
    (x * 3).sum().backward()
    assert_same(x.grad, 2 * numbers(3, 3) + 3)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        assert (x * 2).is_inference()
    (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert_same(second, 6 * numbers(3, 3))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_lowers_matmul_and_raises_softmax(dtype, device):
    x = move(numbers(4, 4), device)
    with torch.autocast(device, dtype=dtype):
        product = x @ x
        assert product.dtype == dtype
        if device == "neuron":  # CUDA's list; CPU's own differs
            assert product.softmax(-1).dtype == torch.float32
    assert (x @ x).dtype == torch.float32
    assert_same(product.float(), (numbers(4, 4).to(dtype) @ numbers(4, 4).to(dtype)).float(), 2e-2, 2e-2)


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader_workers(workers, device):
    dataset = torch.utils.data.TensorDataset(torch.arange(12.0))
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=workers)
    torch.ones(1, device=device)  # the device is in use before the workers fork
    assert sum(batch.to(device).sum().item() for (batch,) in loader) == 66


def test_memory_statistics_follow_allocations(device):
    if device != "neuron":
        pytest.skip("statistics are the device's own")
    synchronize(device)
    before = torch.neuron.memory_allocated()
    x = torch.zeros(1 << 20, device=device)
    assert torch.neuron.memory_allocated() - before >= 4 << 20
    torch.neuron.reset_peak_memory_stats()
    y = torch.zeros(1 << 20, device=device)
    del y
    assert torch.neuron.max_memory_allocated() - before >= 8 << 20
    del x
    synchronize(device)
    assert torch.neuron.memory_allocated() - before < 1 << 20
