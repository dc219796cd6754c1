"""Conformance with PyTorch's own databases of operators, modules and optimizers: see README.md in this folder."""
