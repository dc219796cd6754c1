"""The suite of operators: which kinds of cases an entry of the operator database has, and how one runs.

float32, bfloat16, ...   values, dtypes, shapes and strides of the results, per dtype
grad                     gradients in float32 of every argument that takes one
inplace, out             the in-place form; out= with a strided tensor, and with an empty one that has to grow
layout                   the samples as strided, transposed, shifted, expanded, channels-last or conjugated views
errors                   what CPU refuses is refused, with the same class of error
"""

import itertools

import torch
from torch.utils import _pytree as pytree

from tests.conformance import database, judge
from tests.conformance.transform import LAYOUTS, apply_layout

KINDS = [*database.DTYPES, "grad", "inplace", "out", "layout", "errors"]
HOST_ARGUMENTS = {"tensor_split"}  # wants its tensor of indices on the CPU, on every device
ALL_LAYOUTS_BELOW = 24  # samples; an entry with more gets one layout for each of them


def names():
    return list(database.entries())


def leaves_of(tree):
    return pytree.tree_leaves(tree)


def plain(op):
    def run(arguments):
        first, args, kwargs = arguments
        return leaves_of(op(first, *args, **kwargs))

    return run


def inplace(op):
    function = op.get_inplace()

    def run(arguments):
        first, args, kwargs = arguments
        return [*leaves_of(function(first, *args, **kwargs)), *leaves_of(first)]

    return run


def with_out(op):
    def run(arguments):
        first, args, kwargs = arguments
        op(first, *args, **kwargs)
        return leaves_of(kwargs["out"])

    return run


def gradients(op, sample):
    def run(arguments):
        first, args, kwargs = arguments
        out = op(first, *args, **kwargs)
        inputs = [
            x for x in leaves_of(arguments) if isinstance(x, torch.Tensor) and x.requires_grad and x.is_leaf
        ]
        processed = sample.output_process_fn_grad(out) if sample.output_process_fn_grad else out
        outs = [x for x in leaves_of(processed) if isinstance(x, torch.Tensor) and x.requires_grad]
        if not inputs or not outs:
            raise ValueError("nothing to differentiate")
        generator = torch.Generator().manual_seed(7)
        weights = [
            torch.randn(x.shape, generator=generator, dtype=torch.float32).to(x.dtype).to(x.device)
            for x in outs
        ]
        return list(torch.autograd.grad(outs, inputs, weights, allow_unused=True))

    return run


def arguments_of(sample):
    return sample.input, tuple(sample.args), dict(sample.kwargs)


def outs_for(op, arguments, index):
    """out= tensors for the arguments: strided ones of the right sizes, or empty ones, by turns. None if CPU does not
    accept the arguments."""
    try:
        found = plain_tree(op, arguments)
    except Exception:
        return None

    def one(x):
        if not isinstance(x, torch.Tensor):
            return x
        if index % 2:
            return torch.empty(0, dtype=x.dtype)
        wide = (
            torch.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
            if x.dim()
            else torch.zeros(2, dtype=x.dtype)
        )
        return wide[..., ::2] if x.dim() else wide[1]

    outs = [one(x) for x in found] if isinstance(found, (tuple, list)) else one(found)
    return tuple(outs) if isinstance(outs, list) else outs


def plain_tree(op, arguments):
    first, args, kwargs = arguments
    return op(first, *args, **kwargs)


def layout_samples(op):
    """Every sample in float32, and some in complex64."""
    if torch.float32 in op.dtypes:
        yield from database.samples(op, torch.float32)
    if torch.complex64 in op.dtypes:
        yield from itertools.islice(database.samples(op, torch.complex64), ALL_LAYOUTS_BELOW // 3)


def layout_cases(op):
    samples = layout_samples(op)
    first = list(itertools.islice(samples, ALL_LAYOUTS_BELOW))
    every, index, order = len(first) < ALL_LAYOUTS_BELOW, 0, list(LAYOUTS)
    for turn, (_, sample) in enumerate(itertools.chain(first, samples)):
        taken = 0
        for k in range(len(order)):
            layout = order[(turn + k) % len(order)]
            arguments = None if taken and not every else apply_layout(layout, arguments_of(sample))
            if arguments is None:
                continue
            taken += 1
            yield index, layout, arguments
            index += 1


def cases(name, kinds, runner):
    """(kind, index, function that gives letter and message)."""
    op = database.entries()[name]
    meaningless = op.name in judge.MEANINGLESS
    keep = op.name in HOST_ARGUMENTS

    def values(function, arguments, **options):
        if keep:
            first, args, kwargs = arguments
            inner = function
            function, arguments = lambda moved: inner((moved, args, kwargs)), first
        return lambda: runner.values(op, function, arguments, meaningless=meaningless, **options)

    for kind in kinds:
        if kind in database.DTYPES:
            dtype = getattr(torch, kind)
            if dtype not in op.dtypes:
                continue
            for index, sample in database.samples(op, dtype):
                yield kind, index, values(plain(op), arguments_of(sample))
        elif kind == "grad" and op.supports_autograd and torch.float32 in op.dtypes:
            for index, sample in database.samples(op, torch.float32, grad=True):
                yield kind, index, values(gradients(op, sample), arguments_of(sample), layout=False)
        elif kind == "inplace" and op.get_inplace() is not None and torch.float32 in op.dtypes:
            for index, sample in database.samples(op, torch.float32):
                yield kind, index, values(inplace(op), arguments_of(sample))
        elif kind == "out" and op.supports_out and torch.float32 in op.dtypes:
            for index, sample in database.samples(op, torch.float32):
                first, args, kwargs = arguments_of(sample)
                outs = outs_for(op, (first, args, kwargs), index)
                if outs is not None:
                    yield kind, index, values(with_out(op), (first, args, {**kwargs, "out": outs}))
        elif kind == "layout":
            for index, layout, arguments in layout_cases(op):
                check = values(plain(op), arguments)
                yield kind, index, lambda check=check, layout=layout: labelled(check(), layout)
        elif kind == "errors" and op.error_inputs_func is not None:
            for index, wrong in database.error_samples(op):
                arguments = arguments_of(wrong.sample_input)
                yield kind, index, lambda arguments=arguments: runner.error(plain(op), arguments)


def labelled(verdict, label):
    letter, message = verdict
    return letter, f"{label}: {message}" if message else ""
