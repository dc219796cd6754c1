"""Streams and events. All streams of a device run in order on its one executor."""

from __future__ import annotations

from typing import Any

import torch

from torch_dendrite.neuron._index import index_of


class _OnDevice(type):
    """PyTorch's C++ takes its own stream and event classes only, not classes derived from them: ours make objects of
    the former and recognise those of this device."""

    def __instancecheck__(cls, instance: Any) -> bool:
        base = cls.__mro__[1]
        return isinstance(instance, base) and instance.device is not None and instance.device.type == "neuron"


class Stream(torch.Stream, metaclass=_OnDevice):
    """A stream of the device."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> torch.Stream:
        if kwargs:  # stream_id, device_index, device_type: an existing stream under another object
            return torch.Stream(priority=priority, **kwargs)
        return torch.Stream(torch.device("neuron", index_of(device)), priority=priority)


class Event(torch.Event, metaclass=_OnDevice):
    """A point in a stream; ``elapsed_time`` is in milliseconds of device time."""

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        if interprocess:
            raise NotImplementedError("events of the device neuron are not shared between processes")
        return torch.Event(device="neuron", enable_timing=enable_timing, blocking=blocking)


def current_stream(device: Any = None) -> torch.Stream:
    return torch.accelerator.current_stream(torch.device("neuron", index_of(device)))


def default_stream(device: Any = None) -> torch.Stream:
    index = index_of(device)
    return Stream(stream_id=0, device_index=index, device_type=current_stream(index).device_type)


def set_stream(stream: torch.Stream) -> None:
    torch.accelerator.set_stream(stream)


class StreamContext:
    """Makes a stream the current one, and its device the current device, within a ``with`` block."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(*error)


def stream(stream: torch.Stream | None) -> StreamContext:
    return StreamContext(stream)
