"""Dendrite: the PyTorch device ``neuron``, on any accelerator with a PJRT plugin.

Importing this package registers the device; it starts no thread, loads no plugin and touches no hardware. PyTorch
imports it by itself (entry point group ``torch.backends``), so that existing programs need no new line.
"""

from __future__ import annotations

import os
import sys
import warnings

__version__ = "0.1.0"
__all__ = ["__version__"]

_registered = False


def _register() -> None:
    """Registers the device, once. Either all of it or an exception that says why not."""
    global _registered
    if _registered:
        return
    import torch

    if _registered:  # by `_autoload`, in that very import
        return
    other = torch._C._get_privateuse1_backend_name()
    if other not in ("privateuseone", "neuron"):
        raise RuntimeError(f"PyTorch has room for one device from outside, and {other!r} has taken it")
    from torch_dendrite import _C, _hooks, _plugins

    _registered = True
    _warn_about_unknown_variables(_C.unknown_knobs())
    torch.utils.rename_privateuse1_backend("neuron")
    _C.init(_plugins.embedded() or "", _plugins.trainium() or "", str(_plugins.worker()))
    from torch_dendrite import neuron

    # Before the first tensor: PyTorch asks the module when it initialises devices.
    torch._register_device_module("neuron", neuron)
    torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_storage=True)
    _hooks.install()


def _warn_about_unknown_variables(names: list[str]) -> None:
    if names:
        known = "docs/config.md lists those that there are"
        warnings.warn(f"unknown environment variables {', '.join(names)}: {known}", stacklevel=3)


def _autoload() -> None:
    """Called at the end of ``import torch``: registers the device unless another accelerator is the program's.

    Never raises, since that would break PyTorch for programs that do not want the device at all.
    """
    if _registered:
        return
    try:
        if not _is_wanted():
            # So that a later `import torch_dendrite` by the program's own hand runs this file again.
            sys.modules.pop(__name__, None)
            return
        _register()
    except Exception as error:
        sys.modules.pop(__name__, None)
        warnings.warn(
            f"the device neuron is not available: {error} (TORCH_DEVICE_BACKEND_AUTOLOAD=0 skips it)",
            stacklevel=2,
        )


def _is_wanted() -> bool:
    if os.environ.get("DENDRITE_TARGET") or os.environ.get("DENDRITE_OPAQUE"):
        return True
    from torch_dendrite import _plugins

    return bool(_plugins.trainium()) or not _other_accelerator()


def _other_accelerator() -> bool:
    import torch

    return any(
        (
            torch.backends.cuda.is_built() and torch.cuda.is_available(),
            hasattr(torch, "xpu") and torch.xpu.is_available(),
            torch.backends.mps.is_available(),
        )
    )


def _torch_is_being_imported() -> bool:
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


# While PyTorch is being imported it is its autoloading that imports this file, and `_autoload` decides. Any other
# import is the program's own and means yes. If PyTorch was not imported yet, `_autoload` runs inside of `_register`.
if not _torch_is_being_imported():
    _register()
