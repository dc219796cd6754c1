"""Runs single ATen calls through the lowerings and compares every result with PyTorch's."""

import torch

from tests.lowering.harness import Recorder, get_library

# Sums of some hundred f32 products; half types round once at the end, as PyTorch's kernels do.
TOLERANCE = {
    torch.float32: (2e-5, 2e-5),
    torch.float64: (1e-10, 1e-10),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float16: (2e-3, 1e-3),
    torch.complex64: (2e-5, 2e-5),
    torch.complex128: (1e-10, 1e-10),
}


def flat(result):
    result = result if isinstance(result, (tuple, list)) else [result]
    return [x for r in result for x in (r if isinstance(r, (tuple, list)) else [r])]


def run(func, *args, lift=(), **kwargs):
    """One call, even of a composite operator, which a dispatch mode would never show: (recorder, results, error)."""
    recorder = Recorder(lift=lift)
    results = flat(recorder.__torch_dispatch__(func, (), args, kwargs))
    return recorder, results, recorder.run()


def check(func, *args, want=None, **kwargs):
    """Compares with what PyTorch computed, or with `want` where PyTorch has no CPU kernel of its own."""
    recorder, results, error = run(func, *args, **kwargs)
    assert error == -1
    written = [a for a, s in zip(args, func._schema.arguments) if s.alias_info and s.alias_info.is_write]
    for i, r in enumerate(results + written):
        if not isinstance(r, torch.Tensor):
            continue
        compare(f"{func} result {i}", recorder.value_of(r), r if want is None else want[i])


def compare(what, got, want):
    rtol, atol = TOLERANCE.get(want.dtype, (0, 0))
    try:
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as e:
        hlo = get_library().dendrite_harness_stablehlo().decode()
        raise AssertionError(f"{what}: {e}\ngot {got}\nwant {want}\n{hlo}") from None


def record(recorder, func, args, results):
    """Records a call that PyTorch's CPU refuses as if it had returned `results`; what stands for them."""

    class Stub:
        _schema = func._schema

        def __str__(self):
            return str(func)

        def __call__(self, *_args, **_kwargs):
            return tuple(None if r is None else torch.empty_like(r) for r in results)

    return flat(recorder.__torch_dispatch__(Stub(), (), args, {}))


def replay(func, args, results, error=-1):
    """A call that PyTorch's CPU refuses: records it as if it had returned `results`, and compares with those.

    error: the number of the record whose index check must fail (then there is nothing to compare).
    """
    recorder = Recorder()
    made = record(recorder, func, args, results)
    assert recorder.run() == error
    for i, (m, want) in enumerate(zip(made, results)):
        if want is not None and error < 0:
            compare(f"{func} result {i}", recorder.value_of(m), want)
