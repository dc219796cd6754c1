"""What a step does that is more than one call of PyTorch's. Printed into reproducers, so each stands by itself."""

import threading
import time

import torch


def make(device, shape, dtype, seed, special=False):
    """Small numbers that every floating-point type holds exactly, so that sums and products are exact as well."""
    generator = torch.Generator().manual_seed(seed)
    n = 1
    for size in shape:
        n *= size
    x = torch.randint(-8, 9, (n,), generator=generator)
    if dtype == torch.bool:
        x = x > 0
    elif dtype == torch.uint8:
        x = x.abs().to(dtype)
    elif dtype.is_complex:
        x = torch.complex(x.float() / 2, x.flip(0).float() / 4).to(dtype)
    elif dtype.is_floating_point:
        x = (x.float() / 4).to(dtype)
        if special and n:
            inf = float("inf")
            values = torch.tensor([float("nan"), inf, -inf, -0.0, 0.0, 1e30, -1e30, 1e-30, 1000.0, -1000.0])
            x[torch.randint(0, n, (max(1, n // 4),), generator=generator)] = values[seed % 10].to(dtype)
    else:
        x = x.to(dtype)
    return x.view(shape).to(device, copy=True)


def make_strided(device, shape, stride, offset, dtype, seed):
    """A view with any strides of a storage of its own."""
    span = offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride))
    return make(device, (max(span, 1),), dtype, seed).as_strided(shape, stride, offset)


def index(device, high, shape, seed, dtype=torch.int64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, high, shape, generator=generator).to(dtype).to(device)


def permutation(device, n, seed):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed)).to(device)


def setitem(x, key, value):
    x[key] = value


def getitem(x, key):
    return x[key]


def set_data(x, y):
    x.data = y


def get_data(x):
    return x.data


def filled(device, shape, dtype, value):
    return torch.empty(shape, dtype=dtype, device=device).fill_(value)


def resize(x, shape, value):
    """`resize_`, with `value` where there was no storage before."""
    before = x.untyped_storage().nbytes() // x.element_size()
    x.resize_(shape)
    after = x.untyped_storage().nbytes() // x.element_size()
    if after > before:
        torch.as_strided(x.detach(), (after - before,), (1,), before).fill_(value)


def to_int(x, dtype):
    """A cast that is defined for every value."""
    return torch.nan_to_num(x, nan=3.0, posinf=9.0, neginf=-9.0).clamp(0, 100).to(dtype)


def op(kind, x, y):
    """Python's operators, where they take another way than the functions."""
    return {
        "+": lambda: x + y,
        "-": lambda: x - y,
        "*": lambda: x * y,
        "/": lambda: x / y,
        "//": lambda: x // y,
        "%": lambda: x % y,
        "**": lambda: x**y,
        "@": lambda: x @ y,
        "<": lambda: x < y,
        "==": lambda: x == y,
        "&": lambda: x & y,
        "|": lambda: x | y,
        "^": lambda: x ^ y,
        "~": lambda: ~x,
        "neg": lambda: -x,
    }[kind]()


def iop(kind, x, y):
    if kind == "+":
        x += y
    elif kind == "-":
        x -= y
    elif kind == "*":
        x *= y
    elif kind == "^":
        x ^= y
    else:
        x &= y


def real_imag(x, part):
    return x.real if part == "real" else x.imag


def transposed(x, which):
    return x.mT if which == "mT" else x.t()


def values_only(x, *args, **kwargs):
    return x.topk(*args, **kwargs).values


def sort_stable(x, dim, descending):
    return tuple(torch.sort(x, dim=dim, descending=descending, stable=True))


def named(x, name, *args, **kwargs):
    """Operators that return a named tuple, as a plain one."""
    return tuple(getattr(torch, name)(x, *args, **kwargs))


# --- autograd


def leaf(x):
    return x.detach().clone().requires_grad_()


def loss(x):
    return (x.abs() if x.is_complex() else x.float()).sum()


def backward(x, retain=False):
    loss(x).backward(retain_graph=retain)


def grad(y, *xs):
    return tuple(torch.autograd.grad(loss(y), xs, allow_unused=True))


def hook(x, factor):
    if x.requires_grad:
        x.register_hook(lambda g: g * factor)


def take_grad(x):
    return None if x.grad is None else x.grad


def step_without_grad(x, alpha):
    """What an optimizer does."""
    with torch.no_grad():
        if x.grad is not None:
            x.add_(x.grad, alpha=-alpha)
            x.grad.zero_()


# --- reads: what they return is compared


def item(x):
    return x.flatten()[0].item() if x.numel() else None


def tolist(x):
    return x.tolist()


def truth(x):
    return bool((x == x).any())


def printed(x):
    text = " ".join(repr(x.detach()).split())  # where a line breaks depends on how long the device's name is
    return text.replace(", device='neuron:0'", "") if x.dtype != torch.bfloat16 else ""


def to_host(x):
    return x.cpu()


def numpy(x):
    """numpy's copy as a tensor: the bytes as the host sees them."""
    return torch.from_numpy(x.detach().cpu().resolve_conj().resolve_neg().numpy().copy())


def from_host(x, device):
    return x.detach().to("cpu", copy=True).to(device, copy=True)


def size_from_value(x):
    """A shape that depends on a value."""
    return torch.ones(int(x.flatten()[0].item()) % 5 if x.numel() else 0)


# --- the device's own: nothing on CPU


def is_ours(device):
    return device.type == "neuron"


def synchronize(device):
    if is_ours(device):
        torch.neuron.synchronize()


def pause(seconds):
    time.sleep(seconds)


_streams = []


def use_stream(device, number):
    """Makes a side stream, or with 0 the default one, current, ordered after the one before."""
    if not is_ours(device):
        return
    while len(_streams) < 3:
        _streams.append(torch.neuron.Stream())
    stream = torch.neuron.default_stream() if number == 0 else _streams[number - 1]
    before = torch.neuron.current_stream()
    if stream != before:
        stream.wait_stream(before)
    torch.neuron.set_stream(stream)


def record_stream(x, device):
    if is_ours(device):
        x.record_stream(torch.neuron.current_stream())


def event(device, what):
    if not is_ours(device):
        return
    mark = torch.neuron.Event()
    mark.record()
    if what == "wait":
        torch.neuron.current_stream().wait_event(mark)
    elif what == "synchronize":
        mark.synchronize()
        assert mark.query()
    else:
        mark.query()


def in_thread(function):
    """Runs it in a thread of its own and returns, or raises, what it did."""
    box = {}

    def run():
        try:
            box["result"] = function()
        except BaseException as error:
            box["error"] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if "error" in box:
        raise box["error"]
    return box["result"]


# --- random numbers: the same for a seed, in every mode; and known values out of random operators


def draw(kind, device, shape, dtype):
    x = torch.empty(shape, dtype=dtype, device=device)
    if kind == "rand":
        return torch.rand(shape, dtype=dtype, device=device)
    if kind == "randn":
        return torch.randn(shape, dtype=dtype, device=device)
    if kind == "randint":
        return torch.randint(-9, 100, shape, device=device)
    if kind == "randperm":
        return torch.randperm(x.numel(), device=device)
    if kind == "bernoulli":
        return torch.full(shape, 0.25, dtype=dtype, device=device).bernoulli()
    if kind == "dropout":
        return torch.nn.functional.dropout(x.fill_(1), 0.5)
    if kind == "multinomial":
        return torch.ones(shape, device=device).flatten().multinomial(2)
    return getattr(x, kind)()


def same_for_seed(kind, device, shape, dtype, seed):
    """Whether a seed brings the same numbers back, in both modes, and then others."""

    def twice():
        torch.manual_seed(seed)
        return [draw(kind, device, shape, dtype) for _ in range(2)]

    def close(a, b):
        return torch.allclose(a.double().cpu(), b.double().cpu(), rtol=1e-2, atol=1e-4)

    first = twice()
    if is_ours(device):
        for mode in ("eager", "adaptive"):
            with torch.neuron.execution_mode(mode):
                if not all(close(a, b) for a, b in zip(first, twice())):
                    return f"{kind} differs in mode {mode}"
    elif not all(close(a, b) for a, b in zip(first, twice())):
        return f"{kind} differs"
    return [list(x.shape) + [str(x.dtype)] + list(x.stride()) for x in first]


def known_random(kind, device, shape, value):
    """Random operators whose result is known."""
    x = torch.full(shape, float(value), device=device)
    if kind == "bernoulli":
        return torch.bernoulli(torch.ones_like(x)) * x
    if kind == "dropout0":
        return torch.nn.functional.dropout(x, 0.0)
    if kind == "dropout1":
        return torch.nn.functional.dropout(x, 1.0)
    if kind == "uniform":
        return x.clone().uniform_(0, 1).ge(0).to(x.dtype) * x
    if kind == "randint":
        return torch.randint(3, 4, shape, device=device) + x
    if kind == "normal":
        return x.clone().normal_(value, 0.0)
    return torch.randperm(x.numel(), device=device).sort().values.view(shape) + x


def check():
    """Marks where everything is compared."""


def delete(*names):
    """The variables of these names, by the one who runs the program."""


def nth(results, k):
    return results[k]


def late_error(kind, x, at):
    """The class of the error of an index out of range, whenever it is found."""
    i = torch.tensor([0, at], device=x.device)
    try:
        if kind == "index":
            y = x[i]
        elif kind == "index_select":
            y = x.index_select(0, i)
        elif kind == "gather":
            y = torch.gather(x.flatten(), 0, i + x.numel())
        else:
            y = torch.nn.functional.embedding(i, x.reshape(x.shape[0], -1))
        (y + y).cpu()
    except Exception as error:
        return type(error).__name__
    return ""


def use_mode(device, mode):
    """Another default execution mode, until the end of the program."""
    if is_ours(device):
        torch.neuron.set_execution_mode(mode)


def upload_then_spoil(device, shape, dtype, seed):
    """A copy from the host takes the values that the source has at the call."""
    source = make(torch.device("cpu"), shape, dtype, seed)
    x = torch.empty(shape, dtype=dtype, device=device).copy_(source, non_blocking=True)
    source.zero_()
    return x


def download_then_write(x, value):
    """What was read stays what it was."""
    host = x.detach().to("cpu", copy=True)
    x.detach().fill_(value)
    return host.tolist()
