"""LSTM, GRU and plain recurrent layers: values and gradients as on CPU, and one operator a layer and direction."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn
from torch.utils._pytree import tree_leaves, tree_map

from tests.python.support import assert_same, outcome, stat, synchronize, tier

KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn_tanh": lambda *a, **k: nn.RNN(*a, nonlinearity="tanh", **k),
    "rnn_relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
}
STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
TOLERANCES = {torch.float32: (1e-4, 1e-5), torch.float64: (1e-9, 1e-10), torch.bfloat16: (3e-2, 3e-2)}


def sequence(batch_first=False, dtype=torch.float32, seed=1):
    shape = (BATCH, STEPS, INPUT) if batch_first else (STEPS, BATCH, INPUT)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def states(module, dtype=torch.float32):
    """Initial states, one tensor or two."""
    count = module.num_layers * (2 if module.bidirectional else 1)
    generator = torch.Generator().manual_seed(2)
    one = [torch.randn(count, BATCH, HIDDEN, generator=generator).to(dtype) for _ in range(2)]
    return tuple(one) if module.mode == "LSTM" else one[0]


def leaves(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def to(tree, device):
    return tree_map(lambda x: x.to(device), tree)


def trained(module, x, hx, device, run=None, weigh=None):
    """All results, and the gradients of input, states and parameters."""
    module = copy.deepcopy(module).to(device)
    x, hx = tree_map(lambda t: t if t is None else t.detach().to(device).requires_grad_(), (x, hx))
    inputs = leaves((x, hx))
    call = (run or (lambda f: f))(module)
    results = leaves(call(x, hx))
    weights = weigh or [1.0] * len(results)
    used = [(r, w) for r, w in zip(results, weights, strict=True) if w]
    sum(
        (r.double() * torch.linspace(-1, w, r.numel()).view(r.shape).to(device)).sum() for r, w in used
    ).backward()
    grads = [t.grad for t in [*inputs, *module.parameters()]]
    return [r.detach() for r in results], grads


def same_training(module, x, hx, mode, dtype=torch.float32, **kwargs):
    rtol, atol = TOLERANCES[dtype]
    expected = trained(module, x, hx, "cpu", **kwargs)
    for _ in range(3 if mode.name == "adaptive" else 1):
        actual = trained(module, x, hx, mode.device, run=mode.wrap, **kwargs)
        assert_same(actual, expected, rtol=rtol, atol=atol)


OPTIONS = {
    "plain": {},
    "deep": {"num_layers": 2},
    "both ways": {"bidirectional": True, "num_layers": 2},
    "no bias": {"bias": False, "num_layers": 2},
    "batch first": {"batch_first": True, "num_layers": 2, "bidirectional": True},
}


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_training_matches_cpu(kind, options, given, mode):
    module = KINDS[kind](INPUT, HIDDEN, **OPTIONS[options])
    hx = states(module) if given else None
    same_training(module, sequence(module.batch_first), hx, mode)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_other_dtypes(kind, dtype, mode):
    module = KINDS[kind](INPUT, HIDDEN, bidirectional=True).to(dtype)
    if dtype == torch.bfloat16:
        # CPU rounds after every operator: float32 is the judge.
        judge = trained(copy.deepcopy(module).float(), sequence(dtype=dtype).float(), None, "cpu")
        expected = tree_map(lambda t: t.to(dtype), judge)
        actual = trained(module, sequence(dtype=dtype), None, mode.device, run=mode.wrap)
        assert_same(actual, expected, rtol=5e-2, atol=5e-2)
    else:
        same_training(module, sequence(dtype=dtype), states(module, dtype), mode, dtype)


def test_half_runs_without_gradient(mode):
    module = nn.LSTM(INPUT, HIDDEN).half()
    x = sequence(dtype=torch.float16)
    expected = copy.deepcopy(module).float()(x.float())[0].half()
    with torch.no_grad():
        actual = mode.wrap(copy.deepcopy(module).to(mode.device))(x.to(mode.device))[0]
    assert_same(actual, expected.detach(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("lengths", [(5, 3, 1), (4, 4, 4), (2, 2, 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences(kind, lengths, mode):
    module = KINDS[kind](INPUT, HIDDEN, num_layers=2, bidirectional=True)

    def run(device):
        on_device = copy.deepcopy(module).to(device)
        x = sequence().to(device).requires_grad_()
        hx = tree_map(lambda t: t.to(device).requires_grad_(), states(module))
        packed = rnn.pack_padded_sequence(x, torch.tensor(lengths))
        out, last = on_device(packed, hx)
        padded, _ = rnn.pad_packed_sequence(out)
        results = [padded, *leaves(last)]
        sum((r * torch.linspace(-1, 1, r.numel()).view(r.shape).to(device)).sum() for r in results).backward()
        return [r.detach() for r in results], [t.grad for t in [x, *leaves(hx), *on_device.parameters()]]

    assert_same(run(mode.device), run("cpu"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_in_any_order(kind, mode):
    module = KINDS[kind](INPUT, HIDDEN)

    def run(device):
        on_device = copy.deepcopy(module).to(device)
        packed = rnn.pack_padded_sequence(
            sequence().to(device), torch.tensor([2, 5, 3]), enforce_sorted=False
        )
        out, last = on_device(packed)
        return [rnn.pad_packed_sequence(out)[0].detach(), *[t.detach() for t in leaves(last)]]

    assert_same(run(mode.device), run("cpu"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weigh", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1)])
def test_gradients_that_start_at_some_results_only(weigh, mode):
    module = nn.LSTM(INPUT, HIDDEN, num_layers=2, bidirectional=True)
    same_training(module, sequence(), states(module), mode, weigh=weigh)


@pytest.mark.parametrize("wanted", ["input", "states", "weights", "biases"])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_gradients_that_end_at_some_arguments_only(kind, wanted, mode):
    module = KINDS[kind](INPUT, HIDDEN)

    def run(device):
        on_device = copy.deepcopy(module).to(device)
        x, hx = to((sequence(), states(module)), device)
        for name, parameter in on_device.named_parameters():
            parameter.requires_grad_(
                name.startswith({"weights": "weight", "biases": "bias"}.get(wanted, "-"))
            )
        x.requires_grad_(wanted == "input")
        for t in leaves(hx):
            t.requires_grad_(wanted == "states")
        on_device(x, hx)[0].square().sum().backward()
        return [t.grad for t in [x, *leaves(hx), *on_device.parameters()]]

    expected = run("cpu")
    assert any(g is not None for g in expected)
    assert any(g is None for g in expected)
    assert_same(run(mode.device), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("grad", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", KINDS)
def test_without_gradient(kind, grad, mode):
    module = KINDS[kind](INPUT, HIDDEN, num_layers=2, bidirectional=True).eval()
    on_device = mode.wrap(copy.deepcopy(module).to(mode.device))
    with grad():
        expected, actual = module(sequence()), on_device(sequence().to(mode.device))
        assert_same(leaves(actual), leaves(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("probability", [1.0, 0.0])
def test_dropout_between_layers(probability, mode):
    """With certainty either way the numbers drawn do not matter."""
    module = nn.LSTM(INPUT, HIDDEN, num_layers=3, dropout=probability)
    same_training(module, sequence(), None, mode)
    same_training(module.eval(), sequence(), None, mode)


def test_dropout_draws_and_only_when_training(mode):
    module = nn.GRU(INPUT, HIDDEN, num_layers=2, dropout=0.5).to(mode.device)
    x = sequence().to(mode.device)
    first, second = module(x)[0].cpu(), module(x)[0].cpu()
    assert not torch.equal(first, second)
    module.eval()
    assert torch.equal(module(x)[0].cpu(), module(x)[0].cpu())


@pytest.mark.parametrize("bidirectional", [False, True])
def test_projections(bidirectional, mode):
    module = nn.LSTM(INPUT, HIDDEN, num_layers=2, proj_size=3, bidirectional=bidirectional)
    same_training(module, sequence(), None, mode)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (4, 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_short_and_narrow(kind, shape, mode):
    module = KINDS[kind](2, 1, bidirectional=True)
    same_training(module, torch.randn(*shape, 2, generator=torch.Generator().manual_seed(3)), None, mode)


def test_unbatched_and_strided_input(mode):
    module = nn.LSTM(INPUT, HIDDEN)
    same_training(module, torch.randn(STEPS, INPUT), None, mode)
    same_training(module, torch.randn(INPUT, BATCH, STEPS).permute(2, 1, 0), None, mode)


def test_non_finite_values_spread_as_on_cpu(mode):
    for kind, bad in itertools.product(KINDS, [float("nan"), float("inf")]):
        module = KINDS[kind](INPUT, HIDDEN)
        x = sequence()
        x[2, 1, 0] = bad
        on_device = copy.deepcopy(module).to(mode.device)
        expected, actual = module(x)[0].detach(), on_device(x.to(mode.device))[0].detach()
        assert_same(actual, expected, rtol=1e-4, atol=1e-5)


def test_large_values_saturate(mode):
    for kind in ("lstm", "gru", "rnn_tanh"):
        module = KINDS[kind](INPUT, HIDDEN)
        same_training(module, sequence() * 1e4, None, mode)


# --- gradients of gradients


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_a_gradient(kind, mode):
    module = KINDS[kind](INPUT, HIDDEN, bidirectional=True).double()

    def run(device):
        on_device = copy.deepcopy(module).to(device)
        x = sequence(dtype=torch.float64).to(device).requires_grad_()
        hx = tree_map(lambda t: t.to(device).requires_grad_(), states(module, torch.float64))
        out, last = on_device(x, hx)
        loss = out.square().sum() + sum(t.sin().sum() for t in leaves(last))
        inputs = [x, *leaves(hx), *on_device.parameters()]
        first = torch.autograd.grad(loss, inputs, create_graph=True)
        sum(g.square().sum() for g in first).backward()
        return [g.detach() for g in first], [t.grad for t in inputs]

    assert_same(run(mode.device), run("cpu"), rtol=1e-8, atol=1e-9)


def test_gradient_of_a_gradient_packed(mode):
    module = nn.GRU(INPUT, HIDDEN, bidirectional=True).double()

    def run(device):
        on_device = copy.deepcopy(module).to(device)
        x = sequence(dtype=torch.float64).to(device).requires_grad_()
        out, _ = on_device(rnn.pack_padded_sequence(x, torch.tensor([5, 3, 2])))
        (first,) = torch.autograd.grad(out.data.square().sum(), [x], create_graph=True)
        first.square().sum().backward()
        return [first.detach(), x.grad, *[p.grad for p in on_device.parameters()]]

    assert_same(run(mode.device), run("cpu"), rtol=1e-8, atol=1e-9)


def test_transforms(mode):
    """torch.func and forward mode take PyTorch's own way through the operators."""
    module = nn.LSTM(INPUT, HIDDEN).double()
    x = sequence(dtype=torch.float64)

    def run(device):
        parameters = {k: v.detach().to(device) for k, v in module.named_parameters()}
        on_device = copy.deepcopy(module).to(device)
        batch = x.to(device)

        def loss(parameters):
            return torch.func.functional_call(on_device, parameters, (batch,))[0].square().sum()

        tangents = {k: torch.ones_like(v) for k, v in parameters.items()}
        return torch.func.grad(loss)(parameters), torch.func.jvp(loss, (parameters,), (tangents,))

    assert_same(run(mode.device), run("cpu"), rtol=1e-8, atol=1e-9)


# --- how it runs


def captured(function, device):
    synchronize(device)
    before = stat("ops_captured")
    result = function()
    synchronize(device)
    return stat("ops_captured") - before, result


@pytest.fixture
def on_neuron(device):
    if device != "neuron":
        pytest.skip("counts the device's operators")


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("kind", KINDS)
def test_operators_do_not_grow_with_time(kind, packed, on_neuron):
    module = KINDS[kind](INPUT, HIDDEN, num_layers=2).to("neuron")

    def step(steps):
        x = torch.randn(steps, BATCH, INPUT, device="neuron")
        if packed:
            x = rnn.pack_padded_sequence(x, torch.tensor([steps, steps - 1, 1]))
        out = module(x)[0]
        (out.data if packed else out).square().sum().backward()
        module.zero_grad()

    for steps in (4, 11):
        step(steps)
    few, _ = captured(lambda: step(4), "neuron")
    many, _ = captured(lambda: step(11), "neuron")
    if packed:  # PyTorch packs step by step
        assert many - few < 11 * 4
    else:
        assert many == few < 80


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_runs_on_the_host_or_without_a_lowering(kind, on_neuron):
    torch.neuron.synchronize()
    torch.neuron.reset_stats()
    module = KINDS[kind](INPUT, HIDDEN, num_layers=2, bidirectional=True).to("neuron")
    module(sequence().to("neuron"))[0].sum().backward()
    torch.neuron.synchronize()
    assert not {op for op in torch.neuron.stats()["fallback_ops"] if "recurrent" in op}
    if tier() == "compiled":
        assert sum(n for key, n in stat("ops_by_tier").items() if key not in (0, "host")) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_hold_whole_layers(kind, on_neuron):
    from torch._dynamo.backends.common import aot_autograd

    graphs = []

    def keep(graph_module, inputs):
        graphs.append(graph_module)
        return graph_module

    torch._dynamo.reset()
    module = KINDS[kind](INPUT, HIDDEN).to("neuron")
    expected = module(sequence().to("neuron"))[0].detach()
    with torch._dynamo.config.patch(allow_rnn=True):
        run = torch.compile(module, backend=aot_autograd(fw_compiler=keep), dynamic=False)
        out = run(sequence().to("neuron"))[0]
    out.sum().backward()
    assert_same(out.detach(), expected.cpu(), rtol=1e-5, atol=1e-6)
    names = [[str(node.target) for node in g.graph.nodes] for g in graphs]
    assert "dendrite.recurrent_layer.default" in names[0]
    assert "dendrite.recurrent_layer_backward.default" in names[-1]
    torch._dynamo.reset()


def test_fake_tensors_have_the_right_shapes(on_neuron):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(), torch.device("neuron"):
        module = nn.LSTM(INPUT, HIDDEN, num_layers=2, bidirectional=True, batch_first=True)
        out, (h, c) = module(torch.empty(BATCH, STEPS, INPUT))
        out.sum().backward()
    assert out.shape == (BATCH, STEPS, 2 * HIDDEN)
    assert h.shape == c.shape == (4, BATCH, HIDDEN)
    assert all(p.grad.shape == p.shape for p in module.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_casts_whole_layers(kind, mode):
    module = KINDS[kind](INPUT, HIDDEN, num_layers=2)
    on_device = copy.deepcopy(module).to(mode.device)
    expected = module(sequence())[0]
    expected.sum().backward()
    with torch.autocast(mode.device, dtype=torch.bfloat16):
        out, last = on_device(sequence().to(mode.device))
    assert {t.dtype for t in [out, *leaves(last)]} == {torch.bfloat16}
    assert_same(out.float(), expected.detach(), rtol=3e-2, atol=3e-2)
    out.float().sum().backward()
    for mine, theirs in zip(on_device.parameters(), module.parameters(), strict=True):
        assert mine.grad.dtype == torch.float32
        assert_same(mine.grad, theirs.grad, rtol=1e-1, atol=1e-1)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x, hx, w: (x.double(), hx, w),
        lambda x, hx, w: (x[..., :-1], hx, w),
        lambda x, hx, w: (x, [hx[0]], w),
        lambda x, hx, w: (x, [hx[0].double(), hx[1]], w),
        lambda x, hx, w: (x, hx, w[:-1]),
        lambda x, hx, w: (x, hx, [w[0], w[1][:-1], *w[2:]]),
        lambda x, hx, w: (x[0, 0], hx, w),
    ],
    ids=["dtype", "width", "one state", "state dtype", "few weights", "short weight", "one dimension"],
)
def test_what_is_wrong_raises(spoil, mode):
    module = nn.LSTM(INPUT, HIDDEN)

    def run(device):
        hx = [torch.zeros(1, BATCH, HIDDEN) for _ in range(2)]
        x, hx, weights = spoil(sequence(), hx, [p.detach() for p in module.parameters()])
        x, hx, weights = to((x, hx, weights), device)
        results = torch.lstm(x, hx, weights, True, 1, 0.0, False, False, False)
        return [t.cpu() for t in results]

    # CPU's fused kernel reads past the end of some of these instead.
    assert outcome(run, mode.device)[0] == "error"


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_module_database(name, training, mode):
    """PyTorch's own samples of each module."""
    from torch.testing._internal.common_modules import module_db

    seen = 0
    for info in module_db:
        if info.module_cls is not getattr(nn, name):
            continue
        samples = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
        )
        for sample in samples:
            seen += 1
            make, call = sample.constructor_input, sample.forward_input
            module = info.module_cls(*make.args, **make.kwargs).train(training)

            def run(device, module=module, call=call):
                on_device = copy.deepcopy(module).to(device)
                args, kwargs = tree_map(
                    lambda t: (
                        t.detach().to(device).requires_grad_(t.requires_grad)
                        if isinstance(t, torch.Tensor)
                        else t
                    ),
                    (call.args, call.kwargs),
                )
                results = leaves(on_device(*args, **kwargs))
                sum((r * r).sum() for r in results).backward()
                inputs = [t for t in leaves((args, kwargs)) if t.requires_grad]
                return [r.detach() for r in results], [t.grad for t in [*inputs, *on_device.parameters()]]

            torch.manual_seed(1)
            assert_same(run(mode.device), run("cpu"), rtol=1e-4, atol=1e-5)
    assert seen > 0
