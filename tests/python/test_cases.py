"""Behaviours that lazy, fused and out-of-tree backends are known to break: aliasing, in-place writes, moving
slices, changing scalars, random state. Each test covers a kind, in every mode, against PyTorch on CPU."""

import gc
import io

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.python.support import (
    assert_same,
    move,
    new_compiles,
    outcome,
    resident_bytes,
    stat,
    synchronize,
    tier,
)


def numbers(*shape, dtype=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return torch.randint(0, 100, shape, generator=generator, dtype=dtype)


def uses_snippets(mode):
    """Adaptive mode with compiling allowed: where `no new compile` must not be true by idleness."""
    return mode.device == "neuron" and mode.name == "adaptive" and tier() != "0"


def ops_in_snippets():
    return sum(n for key, n in stat("ops_by_tier").items() if key not in (0, "host"))


def assert_no_new_compile(step, mode):
    if mode.device == "neuron":
        torch.neuron.reset_stats()
    assert new_compiles(step, mode) == 0
    if uses_snippets(mode):
        assert ops_in_snippets() > 0, "no operator ran in a snippet: the absence of compiles shows nothing"


# --- aliases and `.data`

VIEWS = {
    "view": lambda x: x.view(-1),
    "transpose": lambda x: x.t(),
    "slice": lambda x: x[1:, ::2],
    "select": lambda x: x[:, 1],
    "expand": lambda x: x[:, :1].expand(4, 6),
    "as_strided": lambda x: x.as_strided((3, 3), (2, 5), 1),
    "unfold": lambda x: x.unfold(1, 2, 2),
    "diagonal": lambda x: x.diagonal(),
}


@pytest.mark.smoke
@pytest.mark.parametrize("view", VIEWS)
def test_rebinding_data_leaves_views_alone_and_writing_data_does_not(view, mode):
    make = VIEWS[view]
    # Dynamo rejects or reorders `.data =`; what is compiled is the arithmetic around it.
    add_one = mode.wrap(lambda t: t + 1)

    def on(device, plus):
        x = move(numbers(4, 6), device)
        y = make(x)
        x.data = plus(x.data)
        untouched = y.clone()
        x.data.add_(1)
        z = make(x)
        x.data += 1
        return x, y, untouched, z

    for _ in range(3):
        assert_same(on(mode.device, add_one), on("cpu", lambda t: t + 1))


@pytest.mark.smoke
@pytest.mark.parametrize("view", VIEWS)
def test_a_write_to_the_base_shows_in_every_view(view, mode):
    make = VIEWS[view]

    def run(x):
        y = make(x)
        before = y + 0
        x.mul_(2)
        between = y + 0
        x[1:].add_(1)
        return before, between, y + 0

    mode.same(run, numbers(4, 6))


@pytest.mark.parametrize("view", [v for v in VIEWS if v != "expand"])
def test_a_write_to_a_view_shows_in_the_base(view, mode):
    make = VIEWS[view]

    def run(x):
        y = make(x)
        y.mul_(3)
        first = x + 0
        y.copy_(y + 1)
        return first, x + 0

    mode.same(run, numbers(4, 6))


@pytest.mark.smoke
def test_a_result_keeps_the_values_its_inputs_had(mode):
    def run(x, y):
        r0 = x + y
        x.add_(1)
        r1 = x + y
        y.zero_()
        return r0, r1, x + y

    mode.same(run, numbers(3, 4), numbers(3, 4, seed=2))
    x, y = move((numbers(3), numbers(3, seed=2)), mode.device)
    expected = str((numbers(3) + numbers(3, seed=2)).tolist())
    r0 = x + y
    x.add_(1)
    assert str(r0.tolist()) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_in_place_on_detached_changes_the_original(dtype, mode):
    def run(t):
        d = t.detach()
        d.logical_not_() if dtype == torch.bool else d.add_(1)
        return d, t + 0 if dtype != torch.bool else t.clone()

    mode.same(run, numbers(5, dtype=dtype))


# --- out= and odd layouts


def test_resize_then_copy_keeps_the_data(mode):
    copy_rows = mode.wrap(lambda x, y: x.copy_(y))
    for shape in [(4,), (2, 3), (0,), (5, 1, 2)]:
        for dtype in [torch.float32, torch.int64, torch.bool]:
            source = numbers(*shape, dtype=dtype)
            x = torch.empty(0, dtype=dtype, device=mode.device)
            x.resize_(shape)
            copy_rows(x, source)
            assert_same(x, source)


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int8, torch.bool])
def test_partial_writes(dtype, mode):
    def run(b, a):
        n, m = a.shape
        b[:n, :m].copy_(a)
        b[-n:, -m:] = a
        b[::2, 1::3] = a[0, 0]
        b[0] = b[1]
        b[:, 0] = a[0, 1]
        return b

    mode.same(run, numbers(8, 9, dtype=dtype), numbers(3, 4, dtype=dtype, seed=2))


def test_a_write_from_the_host_into_a_window(mode):
    """The source is on the CPU and the destination is a strided window on the device."""
    for _ in range(3):
        b, a = numbers(8, 9), numbers(3, 4, seed=2)
        on_device = b.to(mode.device)
        on_device[1:7:2, 2:6].copy_(a)
        on_device[0, :4] = a[0]
        b[1:7:2, 2:6].copy_(a)
        b[0, :4] = a[0]
        assert_same(on_device, b)


def test_exclusive_or_touches_exactly_the_named_elements(mode):
    def run(z, w):
        z[:, 0] ^= 1
        z[1] |= 6
        z[:, -1] &= 3
        w[::2] ^= True
        return z, w

    mode.same(run, numbers(4, 5, dtype=torch.int64), numbers(6, dtype=torch.bool))


FILLS = {
    "normal_": lambda t: t.normal_(100.0, 0.5),
    "uniform_": lambda t: t.uniform_(100.0, 101.0),
    "bernoulli_": lambda t: t.bernoulli_(1.0).mul_(100),
    "exponential_": lambda t: t.exponential_(1.0).add_(100),
    "random_": lambda t: t.random_(100, 200),
    "addcdiv_": lambda t: t.addcdiv_(torch.full_like(t, 100.0), torch.ones_like(t), value=2),
    "addcmul_": lambda t: t.addcmul_(torch.full_like(t, 100.0), torch.ones_like(t), value=2),
    "fill_": lambda t: t.fill_(123.0),
    "lerp_": lambda t: t.lerp_(torch.full_like(t, 500.0), 0.5),
}


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("window", ["transposed", "strided", "offset"])
def test_filling_a_window_writes_through_and_nowhere_else(fill, window, mode):
    take = {
        "transposed": lambda x: x.t()[2:4],
        "strided": lambda x: x[1::2, ::3],
        "offset": lambda x: x[2:4, 3:5],
    }[window]
    run = mode.wrap(FILLS[fill])
    for _ in range(2):
        x = torch.zeros(6, 8, device=mode.device)
        run(take(x))
        on_cpu = x.cpu()
        mask = torch.zeros(6, 8, dtype=torch.bool)
        take(mask).fill_(True)
        assert (on_cpu[mask] >= 50).all(), on_cpu
        assert (on_cpu[~mask] == 0).all(), on_cpu


OUT_CALLS = {
    "add": lambda x, out: torch.add(x, 1, out=out),
    "mm": lambda x, out: torch.mm(x, x, out=out),
    "sum": lambda x, out: torch.sum(x[:, :, None].expand(4, 4, 3), 2, out=out),
    "where": lambda x, out: torch.where(x > 0, x, -x, out=out),
    "cumsum": lambda x, out: torch.cumsum(x, 1, out=out),
    "index_select": lambda x, out: torch.index_select(
        x, 0, torch.tensor([3, 0, 2, 2], device=x.device), out=out
    ),
    "cat": lambda x, out: torch.cat([x[:1], x[1:]], out=out),
}


@pytest.mark.parametrize("call", OUT_CALLS)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided", "odd offset"])
def test_out_into_a_view_writes_the_view_only(call, layout, mode):
    take = {
        "contiguous": lambda b: b[:4, :4].contiguous(),
        "transposed": lambda b: b[:4, :4].t(),
        "strided": lambda b: b[::2, ::2],
        "odd offset": lambda b: b.view(-1)[3:19].view(4, 4),
    }[layout]

    def run(b, x):
        out = take(b)
        result = OUT_CALLS[call](x, out)
        return result + 0, b + 0

    for _ in range(3):
        # Not compiled as a whole: AOTAutograd copies an out= result back itself, so it would test that.
        cpu, dev = (move((numbers(8, 8), numbers(4, 4, seed=2)), d) for d in ("cpu", mode.device))
        assert_same((run(*dev), dev), (run(*cpu), cpu))


INDEX_LAYOUTS = {
    "contiguous": lambda i: i.clone(),
    "every other": lambda i: i.repeat_interleave(2)[::2],
    "odd offset": lambda i: torch.cat([i[:1], i])[1:],
    "expanded": lambda i: i[:1].expand(4),
}


@pytest.mark.parametrize("layout", INDEX_LAYOUTS)
def test_index_tensors_of_any_layout(layout, mode):
    index = INDEX_LAYOUTS[layout](torch.tensor([3, 0, 2, 5]))

    def run(x, i, source):
        picked = x[i], x.index_select(0, i), torch.gather(x, 0, i[:, None].expand(4, 3))
        added = x.index_add(0, i, source)
        return (*picked, added, x.t()[:, i])

    mode.same(run, numbers(6, 3), index, numbers(4, 3, seed=3))


# --- autograd

WRITES = {
    "slice": lambda x: x[:, :2].zero_(),
    "item": lambda x: x[0, 0].fill_(0),
    "whole": lambda x: x.zero_(),
    "row": lambda x: x[1].mul_(2),
}
SAVERS = {
    "saves its input": lambda w, x: (w * x).sum(),
    "saves its output": lambda w, x: (w.exp() * 2).sum() + x.sum(),
    "saves nothing": lambda w, x: (w + x).sum(),
}


@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("write", WRITES)
def test_writing_between_forward_and_backward_gives_cpus_gradient_or_error(write, saver, mode):
    forward = SAVERS[saver]

    def on(device, run):
        w = move(numbers(4, 5), device).requires_grad_()
        x = move(numbers(4, 5, seed=2), device)
        loss = run(w, x)
        WRITES[write](x)

        def backward():
            loss.backward()
            return w.grad.cpu()

        return outcome(backward)

    run = mode.wrap(forward)
    for _ in range(2):
        assert_same(on(mode.device, run), on("cpu", forward))


def test_writing_to_a_saved_output_gives_cpus_error(device, mode):
    w = move(numbers(4), device).requires_grad_()
    y = w.exp()
    y.data  # noqa: B018 - reading .data must not hide the version
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# --- loops that must stay bounded and must not compile again


def test_writing_row_i_in_a_long_loop_is_bounded(device, mode):
    memory = torch.zeros(512, 16384, device=device)  # 32 MiB, so that a copy per write would show
    row = move(numbers(16384), device)

    def loop(times):
        for i in range(times):
            memory[i % 512] = row
        synchronize(device)

    loop(64)
    gc.collect()
    before = resident_bytes()
    if device == "neuron":
        torch.neuron.reset_peak_memory_stats()
        held = torch.neuron.memory_allocated()
    loop(1500)
    assert resident_bytes() - before < 64 << 20
    if device == "neuron":
        assert torch.neuron.max_memory_allocated() - held < 8 << 20
    assert_same(memory, numbers(16384).expand(512, 16384).contiguous())


def test_moving_writes_compile_once(device, mode):
    cache = torch.zeros(4, 64, 8, device=device)
    x = move(numbers(4, 8), device)

    def step(i):
        cache[:, i % 64] = x * 2 + 1
        (cache[:, (i + 1) % 64] + 1).sum()

    assert_no_new_compile(step, mode)
    assert_same(cache[:, 0], numbers(4, 8) * 2 + 1)


def test_moving_slices_of_equal_length_compile_once(device, mode):
    x = move(numbers(128, 8), device)
    results = {}

    def step(i):
        start = i % 97
        window = x[start : start + 16]
        results[start] = (window * 2).relu().sum(0)

    assert_no_new_compile(step, mode)
    start = max(results)
    assert_same(results[start], (numbers(128, 8)[start : start + 16] * 2).relu().sum(0), rtol=1e-4)


def test_moving_reads_of_one_row_compile_once(device, mode):
    x = move(numbers(64, 32), device)
    total = torch.zeros(32, device=device)

    def step(i):
        total.add_(x[i % 64].abs().sqrt())

    assert_no_new_compile(step, mode)


def test_scalars_that_meet_and_part_compile_once(device, mode):
    x = move(numbers(64), device)
    pairs = [(2.0, 2.0), (2.0, 3.0), (3.0, 3.0), (0.5, 2.0), (1.0, 1.0), (7.0, 1.0)]
    worst = 0.0

    def step(i):
        nonlocal worst
        a, b = pairs[i % len(pairs)]
        y = (x * a + 1) * b + x / a
        if i % 5 == 0:
            expected = (numbers(64) * a + 1) * b + numbers(64) / a
            worst = max(worst, (y.cpu() - expected).abs().max().item())

    assert_no_new_compile(step, mode)
    assert worst < 1e-4


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_a_learning_rate_schedule_compiles_once(kind, foreach, device, mode):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(device)
    make = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[kind]
    optimizer = make(model.parameters(), lr=0.1, foreach=foreach)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (1 + i))
    x = move(numbers(4, 8), device)
    run = mode.wrap(model)

    def step(i):
        run(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()

    assert_no_new_compile(step, mode)


def test_printing_costs_at_most_one_small_compile(device, mode):
    if device != "neuron":
        pytest.skip("counts the device's compiles")
    x = move(numbers(40, 40), device) + 1
    synchronize(device)
    torch.neuron.reset_stats()
    first_text = str(x)
    assert stat("compiles") <= 1
    first = stat("compiles")
    second_text = str(x)
    assert stat("compiles") == first
    values = str(numbers(40, 40) + 1)[len("tensor(") : -1]
    assert values[:40] in first_text
    assert second_text == first_text


def test_printing_every_step_compiles_nothing_new(device, mode):
    x = move(numbers(16, 16), device)

    def step(i):
        y = (x * 2 + i).relu()
        str(y.sum())

    assert_no_new_compile(step, mode)


def test_gradient_accumulation_is_bounded(device, mode):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    x = move(numbers(256, 64), device)
    run = mode.wrap(model)

    def micro_steps(times):
        for _ in range(times):
            (run(x).mean() / times).backward()

    micro_steps(20)
    synchronize(device)
    gc.collect()
    before = resident_bytes()
    if device == "neuron":
        held = torch.neuron.memory_allocated()
        torch.neuron.reset_peak_memory_stats()
    micro_steps(400)
    synchronize(device)
    assert resident_bytes() - before < 64 << 20
    if device == "neuron":
        assert torch.neuron.max_memory_allocated() - held < 16 << 20
        assert torch.neuron.memory_allocated() <= held + (1 << 20)


# --- keys


@pytest.mark.smoke
def test_programs_that_differ_only_in_wiring_never_share_an_executable(mode):
    """Same operators, same shapes, other wiring: run alternately, so a wrong hit would give the other's result."""
    programs = {
        "ab+c": lambda a, b, c: (a * b) + c,
        "ac+b": lambda a, b, c: (a * c) + b,
        "bc+a": lambda a, b, c: (b * c) + a,
        "ab+a": lambda a, b, c: (a * b) + a,
        "aa+c": lambda a, b, c: (a * a) + c,
        "a-bc": lambda a, b, c: a - (b * c),
        "bc-a": lambda a, b, c: (b * c) - a,
        "in place": lambda a, b, c: a.mul_(b).add_(c),
        "in place, other": lambda a, b, c: b.mul_(a).add_(c),
    }
    inputs = [numbers(5, 5, seed=s) for s in range(3)]
    for _ in range(4):
        for program in programs.values():
            mode.same(program, *inputs, repeats=1)


def test_layouts_and_dtypes_never_share_an_executable(mode):
    def run(x, y):
        return (x * 2 + y).sum(0)

    base = numbers(6, 6)
    for _ in range(3):
        mode.same(run, base, base.t(), repeats=1)
        mode.same(run, base.t(), base, repeats=1)
        mode.same(run, base, base[:1].expand(6, 6), repeats=1)
        mode.same(run, base.double(), base, repeats=1)
        mode.same(run, base, base.to(torch.int64), repeats=1)


# --- parameters


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, i):
        return self.head(self.embed(i))


@pytest.mark.smoke
def test_tied_weights_stay_tied(device, mode):
    torch.manual_seed(0)
    model = Tied()
    before = model.embed.weight
    model.to(device)
    assert model.embed.weight is before, "`.to` must keep the identity of parameters"
    assert model.embed.weight is model.head.weight
    assert len(list(model.parameters())) == 1
    state = model.state_dict()
    assert state["embed.weight"].data_ptr() == state["head.weight"].data_ptr()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model_run = mode.wrap(model)
    model_run(torch.tensor([1, 2], device=device)).sum().backward()
    optimizer.step()
    assert_same(model.head.weight.detach(), model.embed.weight.detach().cpu())

    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for where in (device, "cpu"):
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        assert loaded["embed.weight"].device.type == where
        assert loaded["embed.weight"].data_ptr() == loaded["head.weight"].data_ptr()
        assert_same(loaded["head.weight"], model.embed.weight.detach().cpu())
    again = Tied().to(device)
    again.load_state_dict(loaded)
    assert again.embed.weight is again.head.weight


# --- random numbers

DRAWS = {
    "rand": lambda d: torch.rand(33, device=d),
    "randn": lambda d: torch.randn(33, device=d),
    "randint": lambda d: torch.randint(0, 1000, (33,), device=d),
    "randperm": lambda d: torch.randperm(33, device=d),
    "bernoulli": lambda d: torch.full((33,), 0.5, device=d).bernoulli(),
    "dropout": lambda d: nn.functional.dropout(torch.ones(33, device=d), 0.5),
    "exponential_": lambda d: torch.empty(33, device=d).exponential_(),
    "multinomial": lambda d: torch.multinomial(torch.ones(64, device=d), 33),
    "normal": lambda d: torch.normal(torch.zeros(33, device=d), torch.ones(33, device=d)),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_equal_seeds_give_equal_draws_and_the_state_moves(draw, device, mode):
    call = mode.wrap(DRAWS[draw])
    torch.manual_seed(7)
    first, second = call(device).cpu(), call(device).cpu()
    assert not torch.equal(first, second)
    torch.manual_seed(7)
    assert torch.equal(call(device).cpu(), first)
    if device == "neuron":
        state = torch.neuron.get_rng_state()
        third, fourth = call(device).cpu(), call(device).cpu()
        torch.neuron.set_rng_state(state)
        assert torch.equal(call(device).cpu(), third)
        assert torch.equal(call(device).cpu(), fourth)


def test_a_generator_of_ones_own(device, mode):
    generator = torch.Generator(device=device).manual_seed(3)
    a = torch.rand(9, generator=generator, device=device).cpu()
    state = generator.get_state()
    b = torch.rand(9, generator=generator, device=device).cpu()
    generator.set_state(state)
    assert torch.equal(torch.rand(9, generator=generator, device=device).cpu(), b)
    generator.manual_seed(3)
    assert torch.equal(torch.rand(9, generator=generator, device=device).cpu(), a)
    assert generator.initial_seed() == 3
    torch.manual_seed(5)
    before = torch.rand(9, device=device).cpu()
    torch.manual_seed(5)
    torch.rand(9, generator=generator, device=device)
    assert torch.equal(torch.rand(9, device=device).cpu(), before), (
        "own generators leave the default one alone"
    )


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_recomputes_with_the_same_masks(reentrant, device, mode):
    def block(x, w):
        return nn.functional.dropout(x @ w, 0.5).relu()

    run_block = mode.wrap(block)

    def gradient(with_checkpoint):
        torch.manual_seed(11)
        x = move(numbers(16, 32), device).requires_grad_()
        w = move(numbers(32, 32, seed=4), device).requires_grad_()
        y = checkpoint(run_block, x, w, use_reentrant=reentrant) if with_checkpoint else run_block(x, w)
        y.square().sum().backward()
        return x.grad.cpu(), w.grad.cpu()

    plain, again = gradient(False), gradient(True)
    assert (plain[0] != 0).any()
    assert_same(again, plain, rtol=1e-4, atol=1e-4)
