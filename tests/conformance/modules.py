"""The suite of modules: PyTorch's module database.

eval, train    forward in either mode, and the buffers afterwards
backward       gradients of parameters and inputs, in training mode
state_dict     saved from the device, loaded into a module of other weights there and into one on the CPU
bfloat16       forward in bfloat16, in evaluation mode
"""

import copy
import functools
import io

import torch
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

from tests.conformance.database import seeded
from tests.conformance.transform import move

KINDS = ["eval", "train", "backward", "state_dict", "bfloat16"]
TABLE = {info.name: info for info in module_db}


def names():
    return sorted(TABLE)


def inputs(info, dtype, training, grad):
    return seeded(
        lambda: info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=grad, training=training
        )
    )


def build(info, given, seed, device, dtype, rounded, training):
    """The module with weights that depend on the seed alone, of the dtype named `rounded`, held as `dtype`. A lazy one
    gets them from a forward pass on the CPU."""
    torch.manual_seed(seed)
    args, kwargs = copy.deepcopy((given.constructor_input.args, given.constructor_input.kwargs))
    module = info.module_cls(*args, **kwargs)
    if info.is_lazy:
        module.eval()
        first, named = move((given.forward_input.args, given.forward_input.kwargs), "cpu")
        module(*first, **named)
    module.to(device)
    held = torch.float32
    for wanted in (getattr(torch, rounded), dtype):
        if wanted != held:
            held = wanted
            module.to(wanted)
    torch.manual_seed(seed + 1)
    return module.train(training)


def leaves_of(tree):
    return pytree.tree_leaves(tree)


def forward(info, given, training):
    def run(arguments):
        device, dtype, rounded, args, kwargs = arguments
        module = build(info, given, 3, device, dtype, rounded, training)
        return [*leaves_of(module(*args, **kwargs)), *module.buffers()]

    return run


def backward(info, given):
    def run(arguments):
        device, dtype, rounded, args, kwargs = arguments
        module = build(info, given, 3, device, dtype, rounded, True)
        out = [
            x for x in leaves_of(module(*args, **kwargs)) if isinstance(x, torch.Tensor) and x.requires_grad
        ]
        leaves = [x for x in leaves_of((args, kwargs)) if isinstance(x, torch.Tensor) and x.requires_grad]
        leaves += [p for p in module.parameters() if p.requires_grad]
        if not out or not leaves:
            raise ValueError("nothing to differentiate")
        generator = torch.Generator().manual_seed(7)
        weights = [torch.randn(x.shape, generator=generator).to(x.dtype).to(x.device) for x in out]
        return list(torch.autograd.grad(out, leaves, weights, allow_unused=True))

    return run


def state_dict(info, given):
    def run(arguments):
        device, dtype, rounded, args, kwargs = arguments
        module = build(info, given, 3, device, dtype, rounded, False)
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        saved = torch.load(file, map_location=device)
        other = build(info, given, 5, device, dtype, rounded, False)
        other.load_state_dict(saved)
        at_home = build(info, given, 5, "cpu", dtype, rounded, False)
        at_home.load_state_dict(saved)
        here = [x for x in saved.values() if isinstance(x, torch.Tensor)]
        return [*leaves_of(other(*args, **kwargs)), *here, *at_home.state_dict().values()]

    return run


def function_of(info, given, kind):
    if kind == "backward":
        return backward(info, given)
    if kind == "state_dict":
        return state_dict(info, given)
    return forward(info, given, kind == "train")


def cases(name, kinds, runner):
    """(kind, index, function that gives letter and message)."""
    info = TABLE[name]
    for kind in kinds:
        dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
        grad = kind == "backward"
        for index, given in inputs(info, dtype, grad or kind == "train", grad):
            form = ("cpu", dtype, str(dtype).removeprefix("torch."))
            arguments = (*form, tuple(given.forward_input.args), dict(given.forward_input.kwargs))
            yield (
                kind,
                index,
                functools.partial(
                    runner.values,
                    info,
                    function_of(info, given, kind),
                    arguments,
                    layout=not grad,
                    composed=True,
                ),
            )
