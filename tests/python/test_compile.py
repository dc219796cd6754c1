"""torch.compile on the device: every graph gives CPU's values, compiled, whatever surrounds it."""

import copy
import os
import subprocess
import sys
import textwrap
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.python.support import assert_same, stat, target, tier

BACKENDS = ["neuron", "default"]


@pytest.fixture(autouse=True)
def _fresh_dynamo(device):
    if device != "neuron":
        pytest.skip("torch.compile on another device is not ours")
    torch._dynamo.reset()
    yield
    torch.neuron.synchronize()
    torch._dynamo.reset()


def compile_(function, backend="neuron", **kwargs):
    return torch.compile(function, **({} if backend == "default" else {"backend": backend}), **kwargs)


def fused_ops():
    torch.neuron.synchronize()
    return sum(n for key, n in stat("ops_by_tier").items() if key not in (0, "host"))


class Cell(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = kind(6, 8, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0].square().mean()


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 4),
    )


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


MODELS = {
    "conv": (conv_net, (2, 3, 8, 8)),
    "gru": (lambda: Cell(nn.GRU), (2, 5, 6)),
    "lstm": (lambda: Cell(nn.LSTM), (2, 5, 6)),
    "attention": (Attention, (2, 7, 16)),
    "embedding": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1), nn.LayerNorm(4)), (3, 4)),
}


def train_steps(model, x, run, device, steps=3):
    results = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = run(x.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        results.append(loss.detach().cpu())
    return results, {name: value.cpu() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
@torch._dynamo.config.patch(allow_rnn=True)
def test_training_matches_cpu(name, backend):
    make, shape = MODELS[name]
    model, x = make(), torch.randn(shape)
    on_device = copy.deepcopy(model).to("neuron")
    before = fused_ops()
    expected = train_steps(model, x, model, "cpu")
    actual = train_steps(on_device, x, compile_(on_device, backend), "neuron")
    assert_same(actual, expected, rtol=1e-4, atol=1e-5)
    if tier() != "0":
        assert fused_ops() > before, "nothing was compiled"


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_recurrent_models_as_dynamo_takes_them_by_default(name):
    """It leaves the cell itself to eager mode."""
    make, shape = MODELS[name]
    model, x = make(), torch.randn(shape)
    on_device = copy.deepcopy(model).to("neuron")
    expected = train_steps(model, x, model, "cpu")
    assert_same(train_steps(on_device, x, compile_(on_device), "neuron"), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_inference_matches_cpu(backend, grad):
    model, x = conv_net().eval(), torch.randn(2, 3, 8, 8)
    on_device = copy.deepcopy(model).to("neuron")
    run = compile_(on_device, backend)
    with grad():
        for _ in range(2):
            assert_same(run(x.to("neuron")).detach(), model(x).detach(), rtol=1e-4, atol=1e-5)


def test_the_default_backend_leaves_inductor_asleep_on_the_device_and_untouched_on_cpu(monkeypatch):
    import torch._inductor.compile_fx

    called = []

    def compile_fx(graph_module, inputs, **_):
        called.append({x.device.type for x in inputs if isinstance(x, torch.Tensor)})
        return graph_module.forward

    monkeypatch.setattr(torch._inductor.compile_fx, "compile_fx", compile_fx)
    function = torch.compile(lambda x: torch.relu(x) + 1)
    x = torch.randn(4)
    assert_same(function(x.to("neuron")), torch.relu(x) + 1)
    assert called == []
    assert_same(function(x), torch.relu(x) + 1)
    assert called == [{"cpu"}]


def test_a_graph_that_only_makes_tensors_of_the_device_is_ours(monkeypatch):
    import torch._inductor.compile_fx

    monkeypatch.setattr(
        torch._inductor.compile_fx, "compile_fx", lambda *_, **__: pytest.fail("Inductor was asked")
    )
    function = torch.compile(lambda: torch.ones(3, device="neuron") * 2)
    assert_same(function(), torch.full((3,), 2.0))


def test_attention_stays_whole():
    """One fused operator, in the graph and on the tape, and not PyTorch's decomposition into a dozen."""
    graphs = []

    def look(graph_module, inputs):
        from torch._dynamo.backends.common import aot_autograd

        def keep(graph_module, inputs):
            graphs.append(graph_module)
            return graph_module

        return aot_autograd(fw_compiler=keep)(graph_module, inputs)

    q = torch.randn(2, 2, 5, 8, device="neuron", requires_grad=True)
    torch.compile(lambda q: F.scaled_dot_product_attention(q, q, q), backend=look)(q)
    assert "aten._scaled_dot_product_fused_attention_overrideable.default" in {
        str(node.target) for node in graphs[0].graph.nodes
    }
    before = stat("ops_captured")
    F.scaled_dot_product_attention(q, q, q)
    torch.neuron.synchronize()
    assert stat("ops_captured") - before <= 2


@pytest.mark.parametrize("layout", ["heads first", "heads second"])
def test_attention_keeps_the_layout_that_graphs_were_traced_with(layout):
    def function(q):
        y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        return y.view(-1) if layout == "heads first" else y.transpose(1, 2).view(2, 5, 16)

    q = torch.randn(2, 2, 5, 8) if layout == "heads first" else torch.randn(2, 5, 2, 8).transpose(1, 2)
    on_device = torch.empty_strided(q.shape, q.stride()).copy_(q).to("neuron")
    assert on_device.stride() == q.stride()
    assert_same(compile_(function)(on_device), function(q), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_dropout_draws_the_same_numbers_twice(reentrant):
    def block(x):
        return torch.sin(F.dropout(x, 0.5))

    def function(x):
        return checkpoint(block, x, use_reentrant=reentrant)

    x = (torch.rand(64) + 0.1).to("neuron").requires_grad_()
    run = compile_(function)
    kept = []
    for _ in range(3):
        x.grad = None
        y = run(x)
        y.sum().backward()
        kept.append((y != 0).cpu())
        expected = torch.where(kept[-1], 2 * torch.cos(2 * x.detach().cpu()), torch.zeros(64))
        assert_same(x.grad, expected, rtol=1e-4, atol=1e-5)
    assert 0 < kept[0].sum() < 64
    assert not torch.equal(kept[0], kept[1]), "each step must draw new numbers"


def test_random_numbers_move_from_call_to_call_and_follow_the_seed():
    run = compile_(lambda x: x + torch.rand(16, device="neuron"))
    x = torch.zeros(16, device="neuron")
    torch.manual_seed(5)
    first, second = run(x).cpu(), run(x).cpu()
    torch.manual_seed(5)
    assert not torch.equal(first, second)
    assert torch.equal(run(x).cpu(), first)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(16, device="neuron").cpu(), first)


def test_fake_tensors_run_nothing():
    from torch._subclasses import FakeTensorMode

    torch.neuron.synchronize()
    before = stat("ops_captured")
    with FakeTensorMode(), torch.device("neuron"):
        model = Attention()
        out = model(torch.empty(2, 7, 16))
        out.sum().backward()
    assert out.device.type == "neuron"
    assert out.shape == (2, 7, 16)
    assert stat("ops_captured") == before


@torch.library.custom_op("dendrite_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


_hook = {"call": None}


@torch.library.custom_op("dendrite_test::hook", mutates_args=())
def hook(x: torch.Tensor) -> torch.Tensor:
    """Runs Python in the middle of a region."""
    if _hook["call"] is not None:
        _hook["call"](x)
    return x.clone()


@hook.register_fake
def _(x):
    return torch.empty_like(x)


@pytest.fixture
def in_the_middle():
    def set_(call):
        _hook["call"] = call

    yield set_
    _hook["call"] = None


def around(x):
    return hook(x * 3 + 1).relu() - 2


def test_a_read_inside_of_a_region_sees_the_values_so_far(in_the_middle):
    seen = []
    in_the_middle(lambda x: seen.append(x.cpu()))
    x = torch.randn(8)
    assert_same(compile_(around)(x.to("neuron")), (x * 3 + 1).relu() - 2)
    assert_same(seen[0], x * 3 + 1)


def test_an_exception_inside_of_a_region_leaves_the_stream_usable(in_the_middle):
    run = compile_(around)
    x = torch.randn(8)
    expected = (x * 3 + 1).relu() - 2
    assert_same(run(x.to("neuron")), expected)

    def fail(_):
        raise ValueError("on purpose")

    in_the_middle(fail)
    with pytest.raises(ValueError, match="on purpose"):
        run(x.to("neuron"))
    in_the_middle(None)
    y = x.to("neuron") + 1
    torch.neuron.synchronize()
    assert_same(y, x + 1)
    assert_same(run(x.to("neuron")), expected)
    # No region is left open: what follows is not gathered until one ends.
    torch.neuron.reset_stats()
    z = y + 1
    assert_same(z, x + 2)


def test_regions_nest(in_the_middle):
    inner = compile_(lambda x: x.sin() * 2)
    seen = []
    in_the_middle(lambda x: seen.append(inner(x)))
    x = torch.randn(8)
    run = compile_(around)
    for i in range(2):
        assert_same(run(x.to("neuron")), (x * 3 + 1).relu() - 2)
        assert_same(seen[i], (x * 3 + 1).sin() * 2, rtol=1e-4, atol=1e-5)


def test_a_region_that_waits_for_another_threads_region_does_not_hang(in_the_middle):
    inner = compile_(lambda x: x.sin() * 2)
    x = torch.randn(8)
    inner(x.to("neuron"))
    seen = []

    def elsewhere(y):
        thread = threading.Thread(target=lambda: seen.append(inner(y)))
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    in_the_middle(elsewhere)
    assert_same(compile_(around)(x.to("neuron")), (x * 3 + 1).relu() - 2)
    assert_same(seen[0], (x * 3 + 1).sin() * 2, rtol=1e-4, atol=1e-5)


def test_graph_breaks_split_regions():
    def function(x, w):
        y = (x @ w).relu()
        if y.sum().item() > -1:  # a graph break, and a read
            y = y * 2
        return (y + 1).sum()

    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    w_device = w.detach().to("neuron").requires_grad_()
    run = compile_(function)
    for _ in range(3):
        w.grad = w_device.grad = None
        expected, actual = function(x, w), run(x.to("neuron"), w_device)
        expected.backward()
        actual.backward()
        assert_same((actual.detach(), w_device.grad), (expected.detach(), w.grad), rtol=1e-4, atol=1e-5)


def test_threads_with_regions_of_their_own():
    """Forward on four threads, backward on autograd's: regions must not mix."""
    make, shape = MODELS["attention"]
    models = [make() for _ in range(4)]
    x = torch.randn(shape)
    expected = []
    for model in models:
        copied = copy.deepcopy(model)
        expected.append(train_steps(copied, x, copied, "cpu", steps=6))
    actual, errors = [None] * 4, []
    on_device = [copy.deepcopy(m).to("neuron") for m in models]
    runs = [compile_(m) for m in on_device]

    def work(i):
        try:
            actual[i] = train_steps(on_device[i], x, runs[i], "neuron", steps=6)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert_same(actual, expected, rtol=1e-4, atol=1e-5)


def test_an_operator_without_a_lowering_runs_between_two_snippets():
    lowered = {name.split("::")[-1].split(".")[0] for name in torch_dendrite_c().lowered_ops()}
    assert "linalg_cholesky_ex" not in lowered, "choose another operator for this test"

    def function(x):
        return torch.linalg.cholesky(x @ x.T + 4 * torch.eye(4, device=x.device)).sum(0) * 2

    x = torch.randn(4, 4)
    run = compile_(function)
    for _ in range(2):
        assert_same(run(x.to("neuron")), function(x), rtol=1e-4, atol=1e-5)


def test_custom_operators_inside_of_a_graph():
    x = torch.randn(5)
    assert_same(compile_(lambda x: twice(x + 1) * 3, fullgraph=True)(x.to("neuron")), (x + 1) * 6)


@pytest.mark.parametrize("dynamic", [True, None])
def test_changing_shapes_are_compiled_one_by_one(dynamic):
    def function(x, w):
        return torch.relu(x @ w).sum(0) * x.shape[0]

    run = compile_(function, dynamic=dynamic)
    w = torch.randn(4, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rows in (3, 5, 7, 3, 5):
            x = torch.randn(rows, 4)
            assert_same(run(x.to("neuron"), w.to("neuron")), function(x, w), rtol=1e-4, atol=1e-5)
    assert any("static shapes" in str(w.message) for w in caught)


def test_changing_numbers():
    def function(x, scale, n):
        return x * scale + n

    run = compile_(function)
    x = torch.randn(4)
    for i in range(5):
        assert_same(run(x.to("neuron"), 0.1 * i, i), function(x, 0.1 * i, i))


def test_inputs_and_buffers_that_a_graph_writes():
    def function(x, y):
        x.mul_(2)
        y[1:3] = x[:2]
        return x.view(2, 2), y[1:] + 1

    run = compile_(function)
    for _ in range(3):
        x, y = torch.randn(4), torch.randn(5)
        x_device, y_device = x.to("neuron"), y.to("neuron")
        expected, actual = function(x, y), run(x_device, y_device)
        assert_same((actual, x_device, y_device), (expected, x, y))
        assert actual[0].data_ptr() == x_device.data_ptr(), "a view stays a view"


def test_steps_that_repeat_compile_nothing_new():
    model = Attention().to("neuron")
    run = compile_(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        run(torch.randn(2, 7, 16).to("neuron")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.neuron.synchronize()

    step(), step()
    before = stat("compiles"), stat("cache_misses")
    for _ in range(5):
        step()
    assert (stat("compiles"), stat("cache_misses")) == before


@pytest.mark.parametrize("compile_mode", ["default", "reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_modes_are_accepted(compile_mode, backend):
    x = torch.randn(4)
    assert_same(
        compile_(torch.sin, backend, mode=compile_mode)(x.to("neuron")), x.sin(), rtol=1e-5, atol=1e-6
    )


def test_unknown_modes_and_options_are_errors():
    x = torch.randn(4, device="neuron")
    with pytest.raises(Exception, match="expected mode= to be one of"):
        compile_(lambda x: x + 1, mode="fastest")(x)
    with pytest.raises(Exception, match="has no options="):
        compile_(lambda x: x + 2, options={"triton.cudagraphs": True})(x)


def test_a_failed_compile_is_an_error_each_time_and_the_device_goes_on():
    """The worker program is replaced by one that exits at once: every compile fails."""
    if tier() == "0":
        pytest.skip("nothing is compiled at tier 0")
    code = """
        import importlib.util, sys
        package = importlib.util.find_spec("torch_dendrite").submodule_search_locations[0]
        spec = importlib.util.spec_from_file_location("torch_dendrite._plugins", package + "/_plugins.py")
        plugins = sys.modules["torch_dendrite._plugins"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(plugins)
        plugins.worker = lambda: "/bin/false"
        import torch
        run = torch.compile(lambda x: torch.sin(x) * 3, backend="neuron")
        x = torch.ones(4, device="neuron")
        for _ in range(2):
            try:
                run(x)
                print("no error")
            except RuntimeError as error:
                assert "does not compile" in str(error), error
                print("raised")
        print((x + 1).sum().item())
    """
    env = {
        **os.environ,
        "DENDRITE_COMPILE_WORKERS": "1",
        "DENDRITE_CACHE_DIR": "off",
        "DENDRITE_TARGET": "embedded",
    }
    env.pop("DENDRITE_TIER", None)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=env, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["raised", "raised", "8.0"]


def test_the_device_is_known_to_dynamo():
    from torch._dynamo.device_interface import get_interface_for_device

    interface = get_interface_for_device("neuron")
    assert interface.device_count() == torch.neuron.device_count()
    assert interface.current_device() == 0
    assert get_interface_for_device(torch.device("neuron", 0)) is interface
    assert "neuron" in torch._dynamo.list_backends()


def test_streams_and_device_questions_inside_of_a_graph():
    def function(x):
        if torch.neuron.is_available() and torch.neuron.device_count() > 0:
            return x + torch.neuron.current_device() + 1
        return x

    x = torch.randn(4)
    assert_same(compile_(function)(x.to("neuron")), x + 1)


def test_autocast_inside_and_outside_of_a_graph():
    def inside(x, w):
        with torch.autocast("neuron", dtype=torch.bfloat16):
            return x @ w

    x, w = torch.randn(8, 8), torch.randn(8, 8)
    y = compile_(inside)(x.to("neuron"), w.to("neuron"))
    assert y.dtype == torch.bfloat16
    with torch.autocast("neuron", dtype=torch.bfloat16):
        z = compile_(lambda x, w: x @ w)(x.to("neuron"), w.to("neuron"))
    assert z.dtype == torch.bfloat16
    assert_same(y.float(), x @ w, rtol=5e-2, atol=2e-1)
    assert_same(z, y.cpu(), rtol=1e-2, atol=1e-2)


def test_compiled_values_do_not_depend_on_the_execution_mode():
    model, x = Attention(), torch.randn(2, 7, 16)
    results = []
    for mode in ("eager", "adaptive"):
        with torch.neuron.execution_mode(mode):
            on_device = copy.deepcopy(model).to("neuron")
            results.append(train_steps(on_device, x, compile_(on_device), "neuron"))
        torch._dynamo.reset()
    assert_same(results[1], results[0], rtol=1e-5, atol=1e-6)


def torch_dendrite_c():
    from torch_dendrite import _C

    return _C


def test_target_is_the_one_asked_for():
    """The file says something about a target only if that target runs."""
    assert torch_dendrite_c().info()["target"] == target()


def test_graphs_run_without_python():
    """The interpreter in C++ takes straight graphs, lists and constants included, and leaves others to FX."""
    from torch.fx.experimental.proxy_tensor import make_fx

    from torch_dendrite._program import make_program

    constant = torch.randn(3).to("neuron")

    def function(x, i):
        a, b = x.split(2)
        c = torch.cat([b, a], 0).index_put((i,), constant)[:, i]
        values, places = c.sort(descending=True)
        return (
            values.to(torch.float64) * 2,
            places,
            torch.full((2,), 1.5, device="neuron") + constant[0],
            None,
            7,
        )

    x, i = torch.randn(4, 3).to("neuron"), torch.tensor([0, 2]).to("neuron")
    graph = make_fx(function)(x, i)
    inputs = [x, i]
    actual = make_program(graph)(inputs)
    assert inputs == [], "arguments are the program's to drop"
    assert_same(list(actual), [v.cpu() if isinstance(v, torch.Tensor) else v for v in function(x, i)])
    with pytest.raises(RuntimeError, match="expected 2 inputs"):
        make_program(graph)([x])
    graph.graph.call_function(print, ())
    assert make_program(graph) is None, "print is no operator"


def test_errors_in_a_program_are_what_they_were(in_the_middle):
    from torch.fx.experimental.proxy_tensor import make_fx

    from torch_dendrite._program import make_program

    x = torch.randn(4).to("neuron")
    run = make_program(make_fx(lambda x: (around(x),))(x))

    def fail(_):
        raise KeyError("mine")

    in_the_middle(fail)
    with pytest.raises(KeyError, match="mine"):
        run([x])
