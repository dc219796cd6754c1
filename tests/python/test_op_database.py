"""PyTorch's operator database agrees with op_status.tsv: an operator that got worse fails here, and so does one that
got better (`python -m tests.python.op_database --update` then rewrites the list). Target and tier come from the
environment; without --full, two samples of each operator run forward and backward, one in other dtypes."""

import pytest

from tests.python import op_database

STATUS = op_database.read_status()


@pytest.fixture(scope="module")
def results(device, request):
    if device != "neuron":
        pytest.skip("compares the device with CPU: nothing to see on CPU itself")
    return op_database.run_all(full=request.config.getoption("full"))


def test_the_list_names_every_operator(results):
    assert sorted(results) == sorted(STATUS)


@pytest.mark.parametrize("name", sorted(STATUS))
def test_operator_is_as_the_list_says(name, results, request):
    full = request.config.getoption("full")
    expected, place = STATUS[name][op_database.configuration()]
    result = results[name]
    actual = op_database.status_of(result)
    problems = "; ".join(result.get("short", []) + result.get("long", []))
    if not full and expected == "fail_full":
        expected = "pass"
    assert actual == expected, f"{actual} instead of {expected}: {problems}"
    now = op_database.place_of(result)
    # A short run calls less, so that it may miss the part that runs on the host.
    assert now == place or (not full and place == "host"), f"{now} instead of {place}: {result.get('host')}"
