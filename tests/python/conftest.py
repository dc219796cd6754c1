"""Options and fixtures. Target and tier come from the environment (DENDRITE_TARGET, DENDRITE_TIER); the mode is a
fixture, so that one run covers all three.

    pytest                            every mode on the target and tier of the environment
    pytest --modes=adaptive           one mode
    pytest --device=cpu               the tests against themselves: finds mistakes in tests, proves nothing else
    pytest --full                     the whole product of models, optimizers and modes
"""

import contextlib
import os

import pytest
import torch

from tests.python.support import Mode

ALL_MODES = ["eager", "adaptive", "compiled"]


def pytest_addoption(parser):
    parser.addoption("--device", default="neuron", help="device under test")
    parser.addoption("--modes", default=",".join(ALL_MODES), help="comma-separated: " + ", ".join(ALL_MODES))
    parser.addoption("--full", action="store_true", help="run the cases marked full, too")


def pytest_configure(config):
    unknown = set(config.getoption("modes").split(",")) - set(ALL_MODES)
    if unknown:
        raise pytest.UsageError(f"--modes: unknown {sorted(unknown)}; known are {ALL_MODES}")


def pytest_collection_modifyitems(config, items):
    if config.getoption("full"):
        return
    long = [item for item in items if item.get_closest_marker("full")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


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
