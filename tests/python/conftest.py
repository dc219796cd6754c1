"""Options and fixtures. Target and tier come from the environment (DENDRITE_TARGET, DENDRITE_TIER); the mode is a
fixture, so that one run covers all three.

    pytest                            every mode on the target and tier of the environment
    pytest --modes=adaptive           one mode
    pytest --device=cpu               the tests against themselves: finds mistakes in tests, proves nothing else
    pytest --full                     the whole product of models, optimizers and modes
    pytest --share=0.3                of each test's parameter sets that share, and one at least; the same ones each
                                      time, others with another --share-seed
"""

import contextlib
import hashlib
import math
import os

import pytest
import torch

from tests.python.support import Mode

ALL_MODES = ["eager", "adaptive", "compiled"]


def pytest_addoption(parser):
    parser.addoption("--device", default="neuron", help="device under test")
    parser.addoption("--modes", default=",".join(ALL_MODES), help="comma-separated: " + ", ".join(ALL_MODES))
    parser.addoption("--full", action="store_true", help="run the cases marked full, too")
    parser.addoption("--share", type=float, default=1.0, help="of each test's parameter sets, 0 to 1")
    parser.addoption("--share-seed", default="", help="chooses other ones")


def pytest_configure(config):
    unknown = set(config.getoption("modes").split(",")) - set(ALL_MODES)
    if unknown:
        raise pytest.UsageError(f"--modes: unknown {sorted(unknown)}; known are {ALL_MODES}")


def chosen(items, share, seed):
    """Of each test function's items the given share, rounded up: those whose names hash lowest. Smoke tests stay."""
    functions = {}
    for item in items:
        functions.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = set()
    for group in functions.values():
        ranked = sorted(group, key=lambda item: hashlib.sha256(f"{seed}{item.nodeid}".encode()).digest())
        kept.update(ranked[: math.ceil(share * len(group))])
    return [item for item in items if item in kept or item.get_closest_marker("smoke")]


def pytest_collection_modifyitems(config, items):
    left = items
    if not config.getoption("full"):
        left = [item for item in items if not item.get_closest_marker("full")]
    if config.getoption("share") < 1:
        left = chosen(left, config.getoption("share"), config.getoption("share_seed"))
    kept = set(left)
    dropped = [item for item in items if item not in kept]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = left


def pytest_generate_tests(metafunc):
    if "mode" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("modes").split(",")
        metafunc.parametrize("mode", [m for m in ALL_MODES if m in chosen], indirect=True)


def pytest_report_header(config):
    setting = {name: value for name, value in sorted(os.environ.items()) if name.startswith("DENDRITE_")}
    return f"device {config.getoption('device')}, {setting or 'no DENDRITE_ settings'}"


@pytest.fixture(scope="session")
def device(request):
    """The device's name. On neuron, a missing backend fails every test that asks: absence is no reason to skip."""
    name = request.config.getoption("device")
    if name == "neuron" and not hasattr(torch, "neuron"):
        pytest.fail("import torch did not load torch_dendrite: run `make build`")
    return name


@pytest.fixture
def mode(request, device):
    """The execution mode under test, active for the whole test (see support.Mode)."""
    mode = Mode(request.param, device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mode.active())
        yield mode
        if device == "neuron":
            torch.neuron.synchronize()
    if mode.compiled:
        torch._dynamo.reset()


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
