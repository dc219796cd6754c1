"""What capture remembers of a call, and what it must not mix up: settings, names, write sets, sizes, source lines."""

import copy
import re
import sys
import warnings

import pytest
import torch
from torch import nn

from tests.python.support import assert_same


@pytest.fixture
def default_dtype():
    before = torch.get_default_dtype()
    yield torch.set_default_dtype
    torch.set_default_dtype(before)


def test_the_default_dtype_decides_anew_at_each_call(default_dtype, device):
    x = torch.arange(4)
    there = x.to(device)
    for dtype in (torch.float32, torch.float64, torch.float32, torch.float64):
        default_dtype(dtype)
        for call in (lambda t: t / 3, lambda t: t.sqrt(), lambda t: t.float() * 2.5):
            assert_same(call(there), call(x))


@pytest.mark.smoke
def test_calls_that_differ_in_a_name_only_are_two(mode):
    x, y = torch.tensor([7.0, -7.0, 6.5]), torch.tensor([2.0, 2.0, -2.0])
    for _ in range(3):
        for rounding in ("floor", "trunc", None):
            mode.same(lambda a, b, r=rounding: torch.div(a, b, rounding_mode=r), x, y, repeats=1)


@pytest.mark.smoke
def test_lists_of_different_lengths_and_sizes_are_different_calls(mode):
    parts = [torch.arange(6.0).view(2, 3) + i for i in range(3)]
    for _ in range(2):
        for count in (1, 3, 2):
            for dim in (0, 1, -1):
                mode.same(lambda *t, d=dim: torch.cat(t, d), *parts[:count], repeats=1)


@pytest.mark.smoke
def test_running_statistics_are_written_though_no_schema_says_so(device, mode):
    torch.manual_seed(0)
    on_cpu = nn.BatchNorm2d(3)
    there = copy.deepcopy(on_cpu).to(device)
    run = mode.wrap(there)
    for step in range(4):
        x = torch.randn(2, 3, 4, 4) + step
        assert_same(run(x.to(device)), on_cpu(x), rtol=1e-4, atol=1e-5)
        assert_same(there.running_mean, on_cpu.running_mean, rtol=1e-4, atol=1e-5)
        assert_same(there.running_var, on_cpu.running_var, rtol=1e-4, atol=1e-5)
    there.eval()
    on_cpu.eval()
    assert_same(run(x.to(device)), on_cpu(x), rtol=1e-4, atol=1e-5)


@pytest.mark.smoke
def test_out_takes_the_results_size_first(device, mode):
    if mode.compiled:
        pytest.skip("AOTAutograd resizes out= tensors itself")
    x = torch.arange(12.0).view(3, 4)

    def run(where):
        source, results = x.to(where), []
        for shape in ((0,), (2, 2), (3, 4), (5, 5)):
            out = torch.empty(shape, device=where)
            alias = out.detach()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "An output with one or more elements was resized"
                torch.mul(source, 2, out=out)
                torch.add(out, source, out=out)
            results += [out.clone(), alias.untyped_storage().nbytes() == out.untyped_storage().nbytes()]
        return results

    for _ in range(3):
        assert_same(run(device), run("cpu"))


def test_the_source_of_a_copy_may_change_at_once(device):
    busy = torch.rand(384, 384, device=device)
    there = torch.zeros(1 << 12, device=device)
    for _ in range(3):
        for _ in range(20):
            busy = (busy @ busy).clamp(0, 1)
        there.add_(1)  # recorded work knows the storage: the copy has to queue
        source = torch.arange(float(1 << 12))
        there.copy_(source, non_blocking=True)
        source.fill_(-1)
        assert there.tolist() == list(range(1 << 12))


def test_an_error_found_late_names_the_very_line(device):
    if device != "neuron":
        pytest.skip("CPU raises at the call")
    table = torch.ones(3, 2, device=device)
    for _ in range(2):
        line = sys._getframe().f_lineno + 1
        bad = table[torch.tensor([7], device=device)]
        with pytest.raises(IndexError, match=rf"called at {re.escape(__file__)}:{line} "):
            bad.tolist()
    torch.neuron.synchronize()
