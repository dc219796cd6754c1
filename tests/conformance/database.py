"""What PyTorch's operator database has to offer: entries, samples, and tolerances, the same in every process."""

import functools
import random

import numpy
import torch
from torch.testing._internal import common_methods_invocations as cmi
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo

# The dtypes whose values are compared; each is a kind of case of its own.
DTYPES = [
    "float32", "bfloat16", "float16", "float64", "int64", "int32", "int8", "uint8", "bool", "complex64",
]  # fmt: skip
FOREACH = ["foreach_unary_op_db", "foreach_binary_op_db", "foreach_pointwise_op_db", "foreach_reduce_op_db",
           "foreach_other_op_db"]  # fmt: skip

# torch.testing.assert_close's own.
DEFAULT_TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


def name_of(op):
    variant = getattr(op, "variant_test_name", "")
    return op.name + ("." + variant if variant else "")


@functools.cache
def entries():
    """{name: entry}. The database seeds random operators the same on every call, which would hide that they are
    random: that is taken out."""
    cmi.wrapper_set_seed.__code__ = (lambda op, *args, **kwargs: op(*args, **kwargs)).__code__
    table = {name_of(op): op for op in cmi.op_db}
    for group in FOREACH:
        table.update({name_of(op): op for op in getattr(cmi, group)})
    return dict(sorted(table.items()))


def seeded(iterate):
    """(index, item) of the iterator that `iterate()` makes. Seeds are set before each item, since samples are made
    lazily, between the runs of others."""

    def seed(index):
        torch.default_generator.manual_seed(index)  # torch.manual_seed writes stack traces for other devices
        random.seed(index)
        numpy.random.seed(index)

    seed(0)
    iterator, index = iter(iterate()), 0
    while True:
        seed(index)
        try:
            item = next(iterator)
        except StopIteration:
            return
        yield index, item
        index += 1


def samples(op, dtype, grad=False):
    """(index, sample) on the CPU."""
    return seeded(lambda: op.sample_inputs("cpu", dtype, requires_grad=grad, set_seed=False))


def error_samples(op):
    return seeded(lambda: op.error_inputs("cpu", set_seed=False))


_OVERRIDES = {}


def _overrides(entry):
    """{dtype: (rtol, atol)}: the widest tolerances that the entry itself declares for the CPU or for every device."""
    if id(entry) in _OVERRIDES:
        return _OVERRIDES[id(entry)]
    found = _OVERRIDES[id(entry)] = {}
    for decorator in entry.decorators:
        group = [decorator]
        if isinstance(decorator, DecorateInfo):
            if decorator.device_type not in (None, "cpu"):
                continue
            group = decorator.decorators
        for one in group:
            if isinstance(one, toleranceOverride):
                for dtype, tol in one.d.items():
                    known = found.get(dtype, (0, 0))
                    found[dtype] = (max(known[0], tol.rtol), max(known[1], tol.atol))
    return found


def tolerance(entry, dtype):
    """(rtol, atol) for results of `dtype`: exact for integers, else what assert_close takes, or the entry's own."""
    default = DEFAULT_TOLERANCES.get(dtype, (0, 0))
    own = _overrides(entry).get(dtype, (0, 0))
    return max(default[0], own[0]), max(default[1], own[1])
