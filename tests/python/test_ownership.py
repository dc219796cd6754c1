"""Who owns each ATen operator on this device: docs/op_owners.tsv holds the table, so that a change shows in review.

python -m tests.python.test_ownership rewrites it."""

import pathlib

import pytest
import torch

TABLE = pathlib.Path(__file__).resolve().parents[2] / "docs/op_owners.tsv"


def has_kernel(name, key):
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


# Their results are no tensors: there is no gradient to lose.
NO_TENSORS = {"aten::_has_compatible_shallow_copy_type"}


def loses_gradient(name):
    """A kernel of ours in place of an implicit composite, where neither PyTorch nor we have a formula: autograd would
    only warn."""
    implicit = has_kernel(name, "CompositeImplicitAutograd") and name not in NO_TENSORS
    return implicit and not has_kernel(name, "Autograd") and not has_kernel(name, "AutogradPrivateUse1")


def owners():
    from torch_dendrite import _C

    return dict(_C.operator_owners())


def table_text():
    return "operator\towner\n" + "".join(f"{name}\t{owner}\n" for name, owner in sorted(owners().items()))


@pytest.fixture(autouse=True)
def _needs_the_device(device):
    if device != "neuron":
        pytest.skip("the table is the device's")


def test_the_table_is_the_checked_in_one():
    now = table_text().splitlines()
    then = TABLE.read_text().splitlines()
    changed = sorted(set(now) ^ set(then))
    assert not changed, f"run python -m tests.python.test_ownership: {changed[:20]}"


def test_no_composite_without_a_formula_has_a_kernel_of_ours():
    assert loses_gradient("aten::reshape"), "the question finds no operator"
    offenders = [
        name
        for name, owner in owners().items()
        if owner in ("captured", "native") and has_kernel(name, "PrivateUse1") and loses_gradient(name)
    ]
    assert offenders == []


def test_what_the_table_calls_ours_is_registered_and_nothing_else():
    table = owners()
    wrong = [
        name for name, owner in table.items() if owner == "captured" and not has_kernel(name, "PrivateUse1")
    ]
    wrong += [
        name
        for name, owner in table.items()
        if owner in ("composite", "fallback") and has_kernel(name, "PrivateUse1")
    ]
    assert wrong == []
    assert sum(owner == "captured" for owner in table.values()) > 1000


if __name__ == "__main__":
    TABLE.write_text(table_text())
    print(f"wrote {TABLE}")
