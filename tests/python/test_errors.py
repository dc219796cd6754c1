"""What users read when something goes wrong: the words, the class, the line, and when."""

import re
import subprocess
import sys

import pytest
import torch

from tests.python.support import outcome


@pytest.fixture(autouse=True)
def _clean(device):
    yield
    if device == "neuron":
        torch.neuron.synchronize()  # a test must not leave an error to the next one


def both(function, device):
    """The error of the CPU and of the device, as (class, text)."""
    found = []
    for where in ("cpu", device):
        try:
            result = function(where)
        except Exception as error:
            found.append((type(error), str(error).splitlines()[0]))
        else:
            pytest.fail(f"no error on {where}: {result}")
    return found


WRONG_CALLS = {
    "broadcast": lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d),
    "product": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "cat": lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 4, device=d)]),
    "dim": lambda d: torch.ones(2, device=d).sum(3),
    "softmax dim": lambda d: torch.ones(2, device=d).softmax(5),
    "dtype": lambda d: torch.ones(2, dtype=torch.bool, device=d) - torch.ones(2, dtype=torch.bool, device=d),
    "integer mean": lambda d: torch.ones(2, dtype=torch.int64, device=d).mean(),
    "in-place type": lambda d: torch.ones(2, dtype=torch.int64, device=d).add_(0.5),
    "in-place shape": lambda d: torch.ones(2, device=d).add_(torch.ones(3, 2, device=d)),
    "product's dtypes": lambda d: torch.ones(2, 2, device=d).double() @ torch.ones(2, 2, device=d),
    "added product's dtypes": lambda d: torch.addmm(
        torch.ones(2, 2, device=d), torch.ones(2, 2, device=d).double(), torch.ones(2, 2, device=d)
    ),
    "linear": lambda d: torch.nn.functional.linear(torch.ones(2, 3, device=d), torch.ones(4, 5, device=d)),
    "conv": lambda d: torch.nn.functional.conv2d(
        torch.ones(1, 2, 4, 4, device=d), torch.ones(1, 3, 2, 2, device=d)
    ),
    "view": lambda d: torch.ones(2, 3, device=d).t().view(6),
    "gather": lambda d: torch.ones(2, device=d).gather(0, torch.zeros(2, device=d)),
    "index_select": lambda d: torch.ones(2, 2, device=d).index_select(
        5, torch.zeros(1, dtype=torch.int64, device=d)
    ),
    "item": lambda d: torch.ones(2, device=d).item(),
    "multinomial": lambda d: torch.zeros(3, device=d).multinomial(2),
    "singular": lambda d: torch.linalg.inv(torch.zeros(2, 2, device=d)),
    "not positive": lambda d: torch.linalg.cholesky(-torch.ones(2, 2, device=d)),
}


@pytest.mark.smoke
@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_call_raises_at_once_in_pytorchs_words(name, device):
    expected, actual = both(WRONG_CALLS[name], device)
    assert actual == expected
    assert (torch.ones(2, device=device) + 1).tolist() == [2, 2]


def bad_index(device, at=7):
    return torch.arange(6.0, device=device).view(3, 2)[torch.tensor([0, at], device=device)]


OUT_OF_RANGE = {
    "x[i]": bad_index,
    "embedding": lambda d: torch.nn.functional.embedding(
        torch.tensor([1, 9], device=d), torch.ones(3, 2, device=d)
    ),
    "gather": lambda d: torch.ones(3, 2, device=d).gather(0, torch.tensor([[5, 0]], device=d)),
    "index_select": lambda d: torch.ones(3, 2, device=d).index_select(0, torch.tensor([4], device=d)),
    "scatter_add": lambda d: torch.zeros(3, device=d).scatter_add(
        0, torch.tensor([5], device=d), torch.ones(1, device=d)
    ),
    "index_put": lambda d: torch.zeros(3, device=d).index_put(
        (torch.tensor([4], device=d),), torch.ones(1, device=d)
    ),
}


@pytest.mark.smoke
@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_index_out_of_range_raises_where_it_is_read_and_names_its_line(name, device, mode):
    if mode.compiled:
        pytest.skip("Dynamo's own checks raise first")
    call = OUT_OF_RANGE[name]
    assert outcome(lambda: call("cpu"))[0] == "error"
    for _ in range(3):  # the third is compiled, where compiling is allowed
        with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)") as info:
            call(device).tolist()
        if device == "neuron":
            text = str(info.value)
            assert re.search(r"in operator aten\.\w+", text), text
            assert "i64[" in text, "the shapes"
            assert f"called at {__file__}:" in text, "the line"


@pytest.mark.smoke
def test_a_poisoned_tensor_keeps_raising_and_others_work_on(device):
    if device != "neuron":
        pytest.skip("CPU raises at the call")
    good = torch.ones(2, device=device)
    bad = bad_index(device)
    worse = bad * 2 + 1
    better = good + 1
    for tensor in (bad, worse, bad):
        with pytest.raises(IndexError, match="out of"):
            tensor.tolist()
    assert better.tolist() == [2, 2]
    bad.fill_(3)  # a whole write makes its values anew
    assert bad.tolist() == [[3, 3], [3, 3]]
    with pytest.raises(IndexError):
        worse.sum().item()


@pytest.mark.smoke
def test_synchronize_raises_an_unread_error_once(device):
    if device != "neuron":
        pytest.skip("CPU raises at the call")
    bad = bad_index(device)
    with pytest.raises(IndexError, match="out of"):
        torch.neuron.synchronize()
    torch.neuron.synchronize()
    with pytest.raises(IndexError):
        bad.tolist()
    read = bad_index(device)
    with pytest.raises(IndexError):
        read.tolist()
    torch.neuron.synchronize()  # it was read


def run(code, **kwargs):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, **kwargs)


def test_exit_reports_what_nobody_read(device):
    if device != "neuron":
        pytest.skip("CPU raises at the call")
    code = """
import torch
x = torch.ones(3, 2, device="neuron")[torch.tensor([9], device="neuron")]
"""
    done = run(code)
    assert done.returncode == 0
    assert "nobody read before exit" in done.stderr
    assert "out of" in done.stderr
    assert "aten.index" in done.stderr
    quiet = run("import torch\nx = torch.ones(3, device='neuron') + 1")
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_tensors_on_two_devices_do_not_mix(device):
    if device == "cpu":
        pytest.skip("there is one device")
    x = torch.ones(2, 3, device=device)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + torch.ones(2, 3)
    assert (x + torch.tensor(2.0)).tolist() == [[3, 3, 3], [3, 3, 3]]  # 0-dim ones are numbers
    assert x[torch.tensor([1])].tolist() == [[1, 1, 1]]  # indices may be the host's
    x[torch.tensor([0])] = 5
    assert x.tolist() == [[5, 5, 5], [1, 1, 1]]


def test_layouts_that_the_device_has_not_say_so(device):
    if device == "cpu":
        pytest.skip("CPU has them")
    with pytest.raises(RuntimeError, match="strided and sparse tensors only, got layout Mkldnn"):
        torch.ones(2, 2, device=device).to_mkldnn()
    with pytest.raises(RuntimeError, match=r"strided and sparse tensors only, got .* quantized"):
        torch.quantize_per_tensor(torch.ones(2, device=device), 0.1, 0, torch.quint8)
