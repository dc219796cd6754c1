"""What Dynamo and Inductor ask about the device. Imported only once Dynamo is."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device

from torch_dendrite import _C, neuron


class NeuronInterface(DeviceInterface):
    device = neuron.device
    Event = neuron.Event
    Stream = neuron.Stream

    class Worker:
        """Inductor's worker processes: there are none, since Inductor compiles nothing for the device."""

        @staticmethod
        def set_device(device: int) -> None:
            neuron.set_device(device)

        @staticmethod
        def current_device() -> int:
            return neuron.current_device()

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return neuron.get_device_properties(device)

    current_device = staticmethod(neuron.current_device)
    set_device = staticmethod(neuron.set_device)
    device_count = staticmethod(neuron.device_count)
    is_available = staticmethod(neuron.is_available)
    stream = staticmethod(neuron.stream)
    current_stream = staticmethod(neuron.current_stream)
    set_stream = staticmethod(neuron.set_stream)
    synchronize = staticmethod(neuron.synchronize)
    memory_allocated = staticmethod(neuron.memory_allocated)
    is_bf16_supported = staticmethod(neuron.is_bf16_supported)
    get_compute_capability = staticmethod(neuron.get_device_capability)

    @staticmethod
    def exchange_device(device: int) -> int:
        previous = _C.current_device()
        if device >= 0:
            _C.set_device(device)
        return previous

    maybe_exchange_device = exchange_device

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        neuron.set_stream(
            torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
        )

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return neuron.current_stream(device_idx).stream_id

    @staticmethod
    def is_dtype_supported(dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def is_triton_capable(device: Any = None) -> bool:
        return False

    @staticmethod
    def raise_if_triton_unavailable(device: Any = None) -> None:
        raise RuntimeError("there is no Triton for the device neuron")


def register() -> None:
    register_interface_for_device("neuron", NeuronInterface)
    for index in range(_C.device_count()):
        register_interface_for_device(f"neuron:{index}", NeuronInterface)
