"""What Python programs see: autoload, torch.neuron against torch.cuda's shape, torch.accelerator, and PyTorch's own
device-agnostic tools on the device."""

import ast
import copy
import inspect
import io
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.python.support import assert_same, target

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _on_neuron(device):
    if device != "neuron":
        pytest.skip("the device's own interface")


def python(code, **env):
    """Runs code in a process of its own; values in env replace the environment's, None removes."""
    merged = {k: v for k, v in os.environ.items() if not k.startswith("DENDRITE_")}
    for name, value in env.items():
        merged.pop(name, None)
        if value is not None:
            merged[name] = value
    command = [sys.executable, "-W", "always", "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, env=merged, timeout=120, cwd=ROOT)


def output(code, **env):
    done = python(code, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# --- autoload


def test_importing_torch_is_enough_and_imports_no_dynamo():
    code = """
        import sys, torch
        print(hasattr(torch, "neuron"), torch.neuron.is_initialized())
        print("torch._dynamo" in sys.modules, "torch._inductor" in sys.modules)
    """
    assert output(code) == ["True", "False", "False", "False"]


def test_autoload_can_be_switched_off_and_an_import_by_hand_registers():
    code = """
        import torch
        print(hasattr(torch, "neuron"))
        import torch_dendrite
        print(torch.ones(2, device="neuron").sum().item())
    """
    assert output(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == ["False", "2.0"]


@pytest.mark.parametrize("autoload", ["0", "1"])
def test_importing_the_package_before_torch_registers(autoload):
    code = """
        import torch_dendrite, torch
        print(torch.ones(2, device="neuron").sum().item())
    """
    assert output(code, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload) == ["2.0"]


# Stands in for a CUDA build with a device, before autoload asks.
WITH_CUDA = """
    import builtins, sys
    import importlib.metadata as metadata
    original = metadata.entry_points
    def entry_points(**kwargs):
        import torch
        torch.backends.cuda.is_built = lambda: True
        torch.cuda.is_available = lambda: True
        return original(**kwargs)
    metadata.entry_points = entry_points
    import torch
"""


def test_another_accelerator_keeps_the_device_out_until_it_is_asked_for():
    code = textwrap.dedent(WITH_CUDA) + textwrap.dedent("""
        print(hasattr(torch, "neuron"))
        import torch_dendrite
        print(hasattr(torch, "neuron"))
    """)
    assert output(code) == ["False", "True"]


@pytest.mark.parametrize(
    "env", [{"DENDRITE_TARGET": "embedded"}, {"NEURON_PJRT_PLUGIN": "/nowhere/libneuronpjrt.so"}]
)
def test_a_target_or_a_plugin_registers_beside_another_accelerator(env):
    code = textwrap.dedent(WITH_CUDA) + "print(hasattr(torch, 'neuron'))"
    assert output(code, **env) == ["True"]


def test_an_error_while_autoloading_is_one_warning_and_torch_works():
    code = """
        import sys
        sys.modules["torch_dendrite._C"] = None  # what a missing library looks like
        import torch
        print(torch.ones(2).sum().item(), hasattr(torch, "neuron"))
    """
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2.0", "False"]
    lines = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert len(lines) == 1, done.stderr
    assert "the device neuron is not available" in lines[0]


def test_an_error_while_importing_by_hand_is_raised():
    code = """
        import sys
        sys.modules["torch_dendrite._C"] = None
        import torch_dendrite
    """
    done = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 1
    assert "ImportError" in done.stderr or "ModuleNotFoundError" in done.stderr


def test_unknown_settings_give_one_warning():
    done = python("import torch; torch.ones(2, device='neuron')", DENDRITE_TEIR="0", DENDRITE_NOISE="1")
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if "UserWarning" in line]
    assert len(lines) == 1, done.stderr
    assert "DENDRITE_NOISE, DENDRITE_TEIR" in lines[0]


def test_bad_settings_are_an_error_when_the_device_starts_and_not_before():
    code = """
        import torch
        print(torch.neuron.device_count())
        try:
            torch.ones(2, device="neuron")
        except RuntimeError as error:
            print("DENDRITE_TIER" in str(error) and "expected" in str(error))
    """
    assert output(code, DENDRITE_TIER="7") == ["1", "True"]


def test_a_forked_child_gets_a_clear_error():
    code = """
        import os, torch
        torch.ones(2, device="neuron")
        if os.fork() == 0:
            try:
                torch.ones(2, device="neuron") + 1
            except RuntimeError as error:
                print("spawn" in str(error), torch.neuron._is_in_bad_fork(), flush=True)
            os._exit(0)
        os.wait()
        print(torch.neuron._is_in_bad_fork())
    """
    assert output(code) == ["True", "True", "False"]


# --- the extension module


def test_the_stub_names_what_the_extension_has():
    from torch_dendrite import _C

    tree = ast.parse((ROOT / "torch_dendrite/_C.pyi").read_text())
    stub = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert stub.keys() == {name for name in dir(_C) if not name.startswith("_")}
    for name, node in stub.items():
        if isinstance(node, ast.ClassDef):
            members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)} - {
                "__init__"
            }
            assert members == {member for member in vars(getattr(_C, name)) if not member.startswith("_")}


# --- torch.neuron

# What torch.cuda has that makes no sense here: graphs and pools, NVML, typed tensors, CUDA's own libraries.
ABSENT = set(
    """
    BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor CUDAGraph CUDAPluggableAllocator
    CharStorage CharTensor ComplexDoubleStorage ComplexFloatStorage CudaError DEVICE_REQUIREMENT DeferredCudaCallError
    DoubleStorage DoubleTensor ExternalStream FloatStorage FloatTensor GreenContext HalfStorage HalfTensor IntStorage
    IntTensor LongStorage LongTensor MemPool ShortStorage ShortTensor PYTORCH_RELEASES_CODE_CC
    caching_allocator_alloc caching_allocator_delete caching_allocator_disabled caching_allocator_enable
    change_current_allocator check_error clock_rate cudaStatus cudart current_blas_handle current_solver_handle
    get_gencode_flags get_per_process_memory_fraction get_stream_from_external get_sync_debug_mode graph
    graph_pool_handle has_half has_magma host_memory_stats host_memory_stats_as_nested_dict list_gpu_processes
    make_graphed_callables max_memory_cached memory_cached memory_usage power_draw
    reset_accumulated_host_memory_stats reset_max_memory_cached reset_peak_host_memory_stats
    set_per_process_memory_fraction set_sync_debug_mode temperature use_mem_pool utilization
    """.split()
)


def test_torch_neuron_has_what_torch_cuda_has():
    public = {
        name
        for name, value in vars(torch.cuda).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", "torch.cuda").startswith("torch")
        and name not in ("Device", "Any", "Callable", "Optional", "NewType", "TYPE_CHECKING", "cast")
    }
    public -= {"lru_cache", "classproperty"}
    missing = {name for name in public if not hasattr(torch.neuron, name)}
    assert missing <= ABSENT, sorted(missing - ABSENT)
    assert all(hasattr(torch.neuron, name) for name in torch.neuron.__all__)


def test_devices():
    count = torch.neuron.device_count()
    assert torch.neuron.is_available()
    assert torch.neuron.current_device() == 0
    with torch.neuron.device(0), torch.neuron.device(None), torch.neuron.device_of(torch.ones(1)):
        assert torch.neuron.current_device() == 0
    torch.neuron.set_device("neuron:0")
    with pytest.raises(RuntimeError, match="invalid device index"):
        torch.neuron.set_device(count)
    with pytest.raises(ValueError, match="expected a neuron device"):
        torch.neuron.set_device("cpu")
    assert torch.neuron.get_device_properties().info["target"] == target()
    assert torch.neuron.get_device_name() == torch.neuron.get_device_properties(0).name
    with pytest.raises(AssertionError, match="invalid device index"):
        torch.neuron.get_device_properties(count)
    assert torch.get_device_module("neuron") is torch.neuron


def test_streams_and_events():
    default = torch.neuron.default_stream()
    assert default == torch.neuron.current_stream()
    stream = torch.neuron.Stream()
    assert isinstance(stream, torch.neuron.Stream)
    assert not isinstance(torch.neuron.Event(), torch.neuron.Stream)
    begin, end = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
    assert isinstance(begin, torch.neuron.Event)
    x = torch.randn(200, 200).to("neuron")
    with torch.neuron.stream(stream), torch.neuron.stream(None):
        assert torch.neuron.current_stream() == stream
        begin.record()
        y = x @ x
        stream.record_event(end)
    assert torch.neuron.current_stream() == default
    assert torch.neuron.default_stream() == default
    default.wait_stream(stream)
    default.wait_event(end)
    end.synchronize()
    assert end.query()
    assert 0 < begin.elapsed_time(end) < 60_000
    stream.synchronize()
    assert stream.query()
    assert_same(y, x.cpu() @ x.cpu(), rtol=1e-4, atol=1e-3)
    with pytest.raises(NotImplementedError):
        torch.neuron.Event(interprocess=True)
    previous = torch.neuron.current_stream()
    torch.neuron.set_stream(stream)
    assert torch.neuron.current_stream() == stream
    torch.neuron.set_stream(previous)


def test_memory_statistics():
    torch.neuron.synchronize()
    before = torch.neuron.memory_allocated()
    x = torch.empty(1 << 20, device="neuron")
    assert torch.neuron.memory_allocated() - before == 4 << 20
    y = torch.empty(1 << 20, device="neuron")
    del y
    torch.neuron.synchronize()
    assert torch.neuron.max_memory_allocated() - before >= 8 << 20
    torch.neuron.reset_peak_memory_stats()
    assert torch.neuron.max_memory_allocated() == torch.neuron.memory_allocated() == before + (4 << 20)
    assert torch.neuron.memory_reserved() >= torch.neuron.memory_allocated()
    nested = torch.neuron.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == torch.neuron.memory_allocated()
    assert "allocated" in torch.neuron.memory_summary()
    free, total = torch.neuron.mem_get_info()
    assert 0 < free <= total
    torch.neuron.reset_accumulated_memory_stats()
    assert torch.neuron.memory_stats()["allocation.all.allocated"] == 0
    z = torch.empty(8, device="neuron")
    assert torch.neuron.memory_stats()["allocation.all.allocated"] == 1
    with pytest.raises(NotImplementedError, match="memory_stats"):
        torch.neuron.memory_snapshot()
    del x, z
    torch.neuron.empty_cache()


def test_accelerator():
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    assert torch.accelerator.device_count() == torch.neuron.device_count()
    x = torch.ones(1000, device=torch.accelerator.current_accelerator())
    assert torch.accelerator.memory_allocated() == torch.neuron.memory_allocated() >= 4000
    assert torch.accelerator.memory_reserved() == torch.neuron.memory_reserved()
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == torch.accelerator.memory_allocated()
    assert torch.accelerator.max_memory_reserved() >= torch.accelerator.max_memory_allocated()
    torch.accelerator.reset_accumulated_memory_stats()
    torch.accelerator.empty_cache()
    torch.accelerator.empty_host_cache()
    torch.accelerator.synchronize()
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total
    stream, previous = torch.Stream(device="neuron"), torch.accelerator.current_stream()
    torch.accelerator.set_stream(stream)
    assert torch.accelerator.current_stream() == stream
    torch.accelerator.set_stream(previous)
    with torch.accelerator.device_index(0):
        assert_same(x + 1, torch.full((1000,), 2.0))


def test_generated_methods():
    x = torch.ones(2).neuron()
    assert x.is_neuron
    assert not torch.ones(2).is_neuron
    assert nn.Linear(2, 2).neuron().weight.is_neuron
    assert x.untyped_storage().is_neuron
    assert torch.ones(2).untyped_storage().neuron().device.type == "neuron"
    packed = nn.utils.rnn.pack_sequence([torch.ones(2, 1)]).neuron()
    assert packed.data.is_neuron


# --- random numbers


def test_generators():
    a = torch.Generator(device="neuron").manual_seed(3)
    b = torch.Generator(device="neuron").manual_seed(3)
    draw = [torch.rand(5, generator=g, device="neuron").cpu() for g in (a, b, a)]
    assert torch.equal(draw[0], draw[1])
    assert not torch.equal(draw[0], draw[2])
    state = a.get_state()
    again = [torch.randn(5, generator=a, device="neuron").cpu()]
    a.set_state(state)
    again.append(torch.randn(5, generator=a, device="neuron").cpu())
    assert torch.equal(*again)
    c = a.clone_state()
    assert torch.equal(*(torch.rand(5, generator=g, device="neuron").cpu() for g in (a, c)))


def test_generators_that_share_a_state():
    a = torch.Generator(device="neuron").manual_seed(3)
    shared = a.graphsafe_get_state()
    first = torch.rand(5, generator=a, device="neuron").cpu()
    second = torch.rand(5, generator=shared, device="neuron").cpu()
    a.manual_seed(3)
    assert torch.equal(torch.rand(5, generator=shared, device="neuron").cpu(), first)
    assert torch.equal(torch.rand(5, generator=a, device="neuron").cpu(), second)
    b = torch.Generator(device="neuron").manual_seed(9)
    b.graphsafe_set_state(a)
    b.manual_seed(3)
    assert torch.equal(torch.rand(5, generator=a, device="neuron").cpu(), first)


def test_fork_rng_and_seeds():
    torch.manual_seed(1)
    first = torch.rand(4, device="neuron").cpu()
    torch.manual_seed(1)
    with torch.random.fork_rng(device_type="neuron"):
        torch.neuron.manual_seed_all(77)
        torch.rand(9, device="neuron")
    assert torch.equal(torch.rand(4, device="neuron").cpu(), first)
    assert torch.neuron.initial_seed() == 1
    states = torch.neuron.get_rng_state_all()
    x = torch.rand(4, device="neuron").cpu()
    torch.neuron.set_rng_state_all(states)
    assert torch.equal(torch.rand(4, device="neuron").cpu(), x)
    torch.neuron.seed_all()
    assert torch.neuron.initial_seed() != 1
    assert torch.neuron.default_generators[0].initial_seed() == torch.neuron.initial_seed()


# --- mixed precision


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def test_autocast(mode):
    x, model = torch.randn(3, 8), mlp()
    on_device = copy.deepcopy(model).to("neuron")
    for dtype in (torch.bfloat16, torch.float16):
        with torch.amp.autocast("neuron", dtype=dtype):
            y = mode.wrap(on_device)(x.to("neuron"))
            assert y.softmax(-1).dtype == torch.float32
        assert y.dtype == dtype
        assert_same(y.float().detach(), model(x).detach(), rtol=5e-2, atol=5e-2)
    with torch.neuron.amp.autocast(enabled=False):
        assert on_device(x.to("neuron")).dtype == torch.float32


def test_grad_scaler_skips_steps_with_infinities(mode):
    """fp16 training: a step whose gradients overflow changes nothing and halves the scale."""
    model = mlp().to("neuron")
    run = mode.wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("neuron", init_scale=2.0**10, growth_interval=2)
    x = torch.randn(6, 8).to("neuron")

    def step(factor):
        optimizer.zero_grad()
        with torch.amp.autocast("neuron", dtype=torch.float16):
            loss = run(x).float().square().mean() * factor
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        scaler.step(optimizer)
        scaler.update()
        return norm.item(), [p.detach().cpu().clone() for p in model.parameters()]

    initial = [p.detach().cpu().clone() for p in model.parameters()]
    norm, after_good = step(1.0)
    assert 0 < norm < 1e6
    assert not torch.equal(initial[0], after_good[0])
    scale = scaler.get_scale()
    norm, after_bad = step(float("inf"))
    assert not norm < float("inf")
    assert all(torch.equal(a, b) for a, b in zip(after_good, after_bad, strict=True))
    assert scaler.get_scale() == scale / 2
    step(1.0), step(1.0)
    assert scaler.get_scale() == scale
    assert scaler.state_dict()["scale"] == scale


def test_grad_scaler_training_matches_float32_on_cpu(mode):
    model = mlp()
    on_device = copy.deepcopy(model).to("neuron")
    x = torch.randn(6, 8)
    losses = {}
    for device, module in (("cpu", model), ("neuron", on_device)):
        run = mode.wrap(module) if device == "neuron" else module
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
        scaler = torch.amp.GradScaler("neuron", enabled=device == "neuron")
        losses[device] = []
        for _ in range(6):
            optimizer.zero_grad()
            with torch.amp.autocast("neuron", dtype=torch.float16, enabled=device == "neuron"):
                loss = run(x.to(device)).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses[device].append(loss.item())
    assert losses["cpu"][-1] < losses["cpu"][0]
    torch.testing.assert_close(
        torch.tensor(losses["neuron"]), torch.tensor(losses["cpu"]), rtol=2e-2, atol=1e-3
    )


# --- PyTorch's tools


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_recomputes_the_same_dropout(mode, reentrant):
    def block(x):
        return torch.sin(F.dropout(x, 0.5))

    x = (torch.rand(64) + 0.1).to("neuron").requires_grad_()
    run = mode.wrap(lambda x: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant))
    y = run(x)
    y.sum().backward()
    kept = (y != 0).cpu()
    expected = torch.where(kept, 2 * torch.cos(2 * x.detach().cpu()), torch.zeros(64))
    assert_same(x.grad, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("foreach", [None, True, False])
def test_clip_grad_norm(mode, foreach):
    model = mlp()
    on_device = copy.deepcopy(model).to("neuron")
    norms = []
    for module, device in ((model, "cpu"), (on_device, "neuron")):
        (module(torch.ones(2, 8, device=device)).square().sum() * 100).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0, foreach=foreach))
    assert norms[0] > 1
    assert_same(norms[1], norms[0], rtol=1e-4)
    assert_same([p.grad for p in on_device.parameters()], [p.grad for p in model.parameters()], rtol=1e-4)


def test_function_transforms(mode):
    def loss(w, x):
        return torch.tanh(x @ w).square().sum()

    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))
    hessian = torch.func.hessian(lambda w: torch.tanh(w).sum())
    jacobian = torch.func.jacrev(lambda w: torch.sin(w) * w.sum())
    tangent = lambda w: torch.func.jvp(torch.sin, (w,), (torch.ones_like(w),))  # noqa: E731
    w, x = torch.randn(4), torch.randn(3, 4)
    eager = mode if not mode.compiled else type(mode)("eager", mode.device)
    for function, args in ((per_sample, (w, x)), (hessian, (w,)), (jacobian, (w,)), (tangent, (w,))):
        eager.same(function, *args, rtol=1e-4, atol=1e-5)


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return {"x": torch.full((3,), float(i)), "y": i * i}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pin", [False, True])
def test_data_loader(workers, pin):
    torch.ones(2, device="neuron")  # the device has started: workers must not mind
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=workers, pin_memory=pin)
    seen = []
    for batch in loader:
        assert batch["x"].is_pinned() == pin
        x, y = batch["x"].to("neuron", non_blocking=True), batch["y"].to("neuron", non_blocking=True)
        batch["x"].fill_(-1) if not pin else None  # a pageable source may change at once
        assert torch.equal((x[:, 0] * x[:, 0]).cpu().long(), y.cpu())
        seen += y.tolist()
    assert seen == [i * i for i in range(10)]


def test_collate_of_tensors_of_the_device():
    batch = torch.utils.data.default_collate([{"x": torch.ones(2, device="neuron") * i} for i in range(3)])
    assert batch["x"].is_neuron
    assert_same(batch["x"], torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))


@pytest.mark.filterwarnings("ignore")
def test_profiler():
    from torch.profiler import ProfilerActivity, profile

    x = torch.randn(16, 16).to("neuron")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1], record_shapes=True) as p:
        (x @ x).sum().item()
    assert {"aten::mm", "aten::sum"} <= {event.key for event in p.key_averages()}
    with torch.autograd.profiler.profile(use_device="neuron") as p:
        (x @ x).sum().item()
    assert "aten::mm" in {event.key for event in p.key_averages()}
    assert "aten::mm" in p.key_averages().table()


def test_copies_of_modules_and_state(tmp_path):
    model = mlp().to("neuron")
    model.tied = model[0].weight
    copied = copy.deepcopy(model)
    assert copied.tied is copied[0].weight
    with torch.no_grad():
        model[0].weight.add_(1)
    assert not torch.equal(copied[0].weight.cpu(), model[0].weight.cpu())
    copied.load_state_dict(model.state_dict())
    assert torch.equal(copied[0].weight.cpu(), model[0].weight.cpu())

    file = tmp_path / "state.pt"
    torch.save(model.state_dict(), file)
    for place in (None, "cpu", "neuron", torch.device("neuron:0")):
        loaded = torch.load(file, map_location=place)
        assert loaded["0.weight"].device.type == ("cpu" if place == "cpu" else "neuron")
        fresh = mlp().to("neuron")
        fresh.load_state_dict({k: v for k, v in loaded.items() if k != "tied"})
        assert_same(
            [p.detach() for p in fresh.parameters()], [p.detach().cpu() for p in list(model.parameters())]
        )
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    whole = torch.load(buffer, weights_only=False)
    assert whole.tied is whole[0].weight


def test_optimizer_state_round_trip():
    model = mlp().to("neuron")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model(torch.ones(2, 8, device="neuron")).sum().backward()
    optimizer.step()
    twin = copy.deepcopy(model)
    other = torch.optim.AdamW(twin.parameters(), lr=1e-2)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for module, optim in ((model, optimizer), (twin, other)):
        optim.zero_grad()
        module(torch.ones(2, 8, device="neuron")).sum().backward()
        optim.step()
    assert all(
        torch.equal(a.cpu(), b.cpu()) for a, b in zip(model.parameters(), twin.parameters(), strict=True)
    )


def test_the_default_device():
    with torch.device("neuron"):
        assert torch.ones(2).is_neuron
        assert nn.Linear(2, 2).weight.is_neuron
    torch.set_default_device("neuron")
    try:
        assert torch.arange(3).is_neuron
    finally:
        torch.set_default_device(None)
    assert not torch.ones(2).is_neuron


# --- custom operators


@torch.library.custom_op("dendrite_test::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x * x * x


cube.register_autograd(
    lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@torch.library.custom_op("dendrite_test::add_one_", mutates_args=("x",))
def add_one_(x: torch.Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("dendrite_test::on_cpu", mutates_args=(), device_types="cpu")
def on_cpu(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * 2)


def test_custom_operators_without_a_fake_implementation(mode):
    eager = mode if not mode.compiled else type(mode)("eager", mode.device)

    def function(x):
        y = cube(x * 2)
        (grad,) = torch.autograd.grad(y.sum(), x)
        z = y.detach() + 1
        add_one_(z)
        return y, grad, z

    eager.same(function, torch.randn(4, requires_grad=True), rtol=1e-4, atol=1e-5)


def test_a_custom_operator_that_has_a_cpu_kernel_only_runs_on_the_host():
    x = torch.randn(4)
    y = on_cpu(x.to("neuron") + 1)
    assert y.is_neuron
    assert_same(y, (x + 1) * 2)


def test_modes_are_of_the_thread_and_backward_follows():
    previous = torch.neuron.get_execution_mode()
    with torch.neuron.execution_mode("adaptive"):
        assert torch.neuron.get_execution_mode() == "adaptive"
        seen = []

        class Look(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                seen.append(torch.neuron.get_execution_mode())
                return grad * 2

        x = torch.ones(2, device="neuron", requires_grad=True)
        Look.apply(x).sum().backward()
        assert seen == ["adaptive"]
    assert torch.neuron.get_execution_mode() == previous
    with pytest.raises(ValueError, match="execution mode"):
        torch.neuron.set_execution_mode("lazy")
