"""Streams, events and torch.accelerator."""

import time

import pytest
import torch

pytestmark = pytest.mark.usefixtures("_needs_the_device")


@pytest.fixture
def _needs_the_device(device):
    if device != "neuron":
        pytest.skip("streams are the device's own")


def work(n=400, times=20):
    x = torch.full((n, n), 1.0 / n, device="neuron")
    for _ in range(times):
        x = x @ x
    return x


@pytest.mark.smoke
def test_elapsed_time_is_the_devices_and_not_the_callers():
    work().sum().item()  # warm
    start, end = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
    begin = time.perf_counter()
    start.record()
    x = work()
    end.record()
    queued = (time.perf_counter() - begin) * 1e3
    end.synchronize()
    whole = (time.perf_counter() - begin) * 1e3
    elapsed = start.elapsed_time(end)
    assert 0 < elapsed <= whole
    assert elapsed > 0.5 * (whole - queued), "most of the waiting was for work between the events"
    assert end.query()
    assert x.shape == (400, 400)
    with pytest.raises((RuntimeError, ValueError)):
        torch.neuron.Event(enable_timing=True).elapsed_time(end)


@pytest.mark.smoke
def test_query_becomes_true_without_a_synchronisation():
    event = torch.neuron.Event()
    work()
    event.record()
    deadline = time.monotonic() + 60
    while not event.query():
        assert time.monotonic() < deadline, "recorded work never ran"
        time.sleep(0.001)
    stream = torch.neuron.current_stream()
    while not stream.query():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.smoke
def test_streams_wait_for_events_and_for_each_other():
    side = torch.neuron.Stream()
    main = torch.neuron.current_stream()
    assert side != main
    x = work()
    event = main.record_event()
    with torch.neuron.stream(side):
        assert torch.neuron.current_stream() == side
        side.wait_event(event)
        y = x + 1
        x.record_stream(side)
    main.wait_stream(side)
    z = y + 1
    assert torch.neuron.current_stream() == main
    side.synchronize()
    assert torch.allclose(z.cpu(), x.cpu() + 2)
    with torch.neuron.stream(None):
        assert torch.neuron.current_stream() == main


def test_memory_given_back_under_a_stream_is_not_overwritten_early():
    side = torch.neuron.Stream()
    for i in range(20):
        x = torch.full((1 << 14,), float(i), device="neuron")
        with torch.neuron.stream(side):
            side.wait_stream(torch.neuron.current_stream())
            y = x * 2
            x.record_stream(side)
        del x
        noise = torch.full((1 << 14,), -1.0, device="neuron")  # may take the memory of x
        assert y.sum().item() == 2.0 * i * (1 << 14)
        assert noise[0].item() == -1


@pytest.mark.smoke
def test_torch_accelerator():
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == torch.neuron.device_count()
    assert torch.accelerator.current_device_index() == torch.neuron.current_device()
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    stream = torch.accelerator.current_stream()
    assert stream.device.type == "neuron"
    other = torch.Stream(device="neuron")
    torch.accelerator.set_stream(other)
    try:
        assert torch.accelerator.current_stream() == other
        assert (torch.ones(2, device="neuron") + 1).tolist() == [2, 2]
    finally:
        torch.accelerator.set_stream(stream)
    torch.accelerator.set_device_index(0)
    torch.accelerator.synchronize()


def test_a_synchronised_stream_raises_what_went_wrong_on_it():
    bad = torch.ones(3, device="neuron")[torch.tensor([8], device="neuron")]
    with pytest.raises(IndexError):
        torch.neuron.current_stream().synchronize()
    torch.neuron.synchronize()
    with pytest.raises(IndexError):
        bad.tolist()
