"""Processes: several devices, forks, exits, memory."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch

from tests.python.support import synchronize, target

pytestmark = pytest.mark.usefixtures("_needs_the_device")


@pytest.fixture
def _needs_the_device(device):
    if device != "neuron":
        pytest.skip("processes of the device")


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done


def test_several_devices():
    done = run(
        """
        import torch
        assert torch.neuron.device_count() == 2
        a = torch.arange(6.0, device="neuron:0").view(2, 3)
        b = a.to("neuron:1")
        assert b.device.index == 1
        b += 1
        c = b.t().to("neuron:0")
        assert c.device.index == 0 and c.stride() == (1, 3)
        assert torch.equal(c.cpu(), a.cpu().t() + 1)
        a[0].copy_(b[1])
        assert a.tolist() == [[4, 5, 6], [3, 4, 5]]
        try:
            a + b
        except RuntimeError as error:
            assert "same device" in str(error)
        else:
            raise SystemExit("mixed devices")
        with torch.neuron.device(1):
            assert torch.ones(1, device="neuron").device.index == 1
            event = torch.neuron.Event()
            x = torch.ones(64, 64, device="neuron") @ torch.ones(64, 64, device="neuron")
            event.record()
        event.wait()  # device 0 waits for device 1
        assert x.to("neuron:0").sum().item() == 64**3
        torch.manual_seed(1)
        u, v = torch.rand(3, device="neuron:0"), torch.rand(3, device="neuron:1")
        assert torch.equal(u.cpu(), v.cpu())
        assert torch.neuron.memory_allocated(1) > 0
        try:
            torch.ones(1, device="neuron:2")
        except RuntimeError as error:
            assert "neuron:2" in str(error) and "2 devices" in str(error), error
        else:
            raise SystemExit("a third device")
        print("done")
        """,
        DENDRITE_DEVICES="2",
    )
    assert done.stdout == "done\n"


def test_a_forked_child_that_uses_the_device_is_told_so():
    done = run(
        """
        import os, torch
        x = torch.ones(2, device="neuron") + 1
        torch.neuron.synchronize()
        child = os.fork()
        if child == 0:
            try:
                x + 1
            except RuntimeError as error:
                os._exit(0 if "forked subprocess" in str(error) and "spawn" in str(error) else 2)
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        child = os.fork()
        if child == 0:  # one that does not is fine, exit included
            raise SystemExit(int((torch.ones(2) + 1).sum()) - 4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert x.tolist() == [2, 2]
        """
    )
    assert done.stderr == ""


def test_a_child_forked_before_the_device_started_may_use_it():
    run(
        """
        import os, torch
        child = os.fork()
        if child == 0:
            code = 0 if (torch.ones(2, device="neuron") + 1).tolist() == [2, 2] else 4
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (torch.ones(2, device="neuron") + 1).tolist() == [2, 2]
        """
    )


EXITS = {
    "work in flight": """
        import torch
        x = torch.ones(300, 300, device="neuron")
        for _ in range(30): x = x @ x / 300
        """,
    "backward in flight": """
        import torch
        w = torch.ones(200, 200, device="neuron", requires_grad=True)
        for _ in range(5): (w @ w).relu().sum().backward()
        """,
    "sys.exit": """
        import sys, torch
        x = torch.ones(300, 300, device="neuron") @ torch.ones(300, 300, device="neuron")
        sys.exit(0)
        """,
}


@pytest.mark.parametrize("name", EXITS)
def test_exits_are_clean_with(name):
    for _ in range(5):
        assert run(EXITS[name]).stderr == ""


def test_first_tensors_do_not_stay_alive():
    """What is remembered of an operator's first call must not hold its tensors."""
    synchronize("neuron")
    before = torch.neuron.memory_allocated()
    shapes = [(1001, 257), (503, 511), (257, 1013)]
    for shape in shapes:
        x = torch.zeros(shape, device="neuron")
        y = (x * 3).relu_().t().contiguous().sum(0)
        del x, y
    synchronize("neuron")
    assert torch.neuron.memory_allocated() - before < 1 << 16


def test_pinned_memory():
    x = torch.arange(1000.0).pin_memory()
    assert x.is_pinned()
    assert not torch.arange(3.0).is_pinned()
    y = x.to("neuron", non_blocking=True)
    back = torch.empty(1000).pin_memory()
    back.copy_(y, non_blocking=True)
    synchronize("neuron")
    assert torch.equal(back, torch.arange(1000.0))
    again = torch.utils.data.DataLoader([1.0, 2.0], batch_size=2, pin_memory=True)
    assert next(iter(again)).is_pinned()


def test_a_tensor_over_the_devices_memory_shares_it():
    """DLPack makes a second storage over the same bytes; operators on both see one another's writes in order."""
    x = torch.zeros(4, 6, device="neuron")
    if target() == "opaque":
        with pytest.raises(BufferError, match="copy"):
            torch.from_dlpack(x)
        return
    y = torch.from_dlpack(x[1:, 2:])
    for i in range(1, 4):
        x.add_(1)
        y.mul_(2)
        x[2, 3] += i
    expected = torch.zeros(4, 6)
    for i in range(1, 4):
        expected.add_(1)
        expected[1:, 2:].mul_(2)
        expected[2, 3] += i
    assert torch.equal(x.cpu(), expected)
    assert torch.equal(y.cpu(), expected[1:, 2:])
    del x
    assert y.sum().item() == expected[1:, 2:].sum().item()
