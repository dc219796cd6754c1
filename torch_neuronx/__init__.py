"""The name under which transformers, accelerate and diffusers look for the device ``neuron``."""

import torch_dendrite  # noqa: F401 - registers the device
from torch_dendrite import __version__

__all__ = ["__version__"]
