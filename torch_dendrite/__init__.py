"""Dendrite: the PyTorch device ``neuron``, on any accelerator with a PJRT plugin.

Importing this package registers the device; it starts no thread, loads no plugin and touches no hardware. PyTorch
imports it by itself (entry point group ``torch.backends``), so that existing programs need no new line.
"""

from __future__ import annotations

import atexit
import os

import torch

from torch_dendrite import _plugins

__version__ = "0.1.0"
__all__ = ["__version__"]

_registered = False


def _register() -> None:
    global _registered
    if _registered:
        return
    _registered = True
    from torch_dendrite import _C

    torch.utils.rename_privateuse1_backend("neuron")
    _C.init(_plugins.embedded() or "", _plugins.trainium() or "", str(_plugins.worker()))
    from torch_dendrite import neuron

    # Before the first tensor: PyTorch asks the module when it initialises devices.
    torch._register_device_module("neuron", neuron)
    torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_storage=True)
    from torch_dendrite import _compile

    _compile.register()
    atexit.register(_C.shutdown)


def _autoload() -> None:
    """Called by ``import torch``: registers the device unless another accelerator is the program's."""
    if _registered:
        return
    wanted = os.environ.get("DENDRITE_TARGET") or os.environ.get("DENDRITE_OPAQUE")
    if wanted or _plugins.trainium() or not _other_accelerator():
        _register()


def _other_accelerator() -> bool:
    return any(
        (
            torch.backends.cuda.is_built() and torch.cuda.is_available(),
            hasattr(torch, "xpu") and torch.xpu.is_available(),
            torch.backends.mps.is_available(),
        )
    )


# While PyTorch itself is being imported, `_autoload` decides. An import by the program's own hand means yes.
if not getattr(torch, "_dendrite_autoloading", False) and hasattr(torch, "compile"):
    _register()
