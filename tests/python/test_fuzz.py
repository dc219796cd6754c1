"""Random programs, a fixed list of them (tests/fuzz; `make fuzz` runs ever new ones), and checks of that check."""

import dataclasses
import os

import pytest
import torch

from tests.fuzz import compare, hazards, reproducer
from tests.fuzz.__main__ import fuzz
from tests.fuzz.child import Configuration
from tests.fuzz.generate import Flavour, generate
from tests.fuzz.lockstep import Lockstep
from tests.fuzz.program import DEVICE, Each, Instr, Program, Var
from tests.fuzz.shrink import shrink

TARGET = os.environ.get("DENDRITE_TARGET", "embedded")
FIRST_SEED = 1_000_000
PROGRAMS = {  # by (mode, tier): about ten seconds each
    "embedded": {
        ("eager", "auto"): 300,
        ("adaptive", "auto"): 60,
        ("adaptive", "0"): 100,
        ("eager", "compiled"): 8,
        ("compiled", "auto"): 6,
    },
    "opaque": {
        ("eager", "auto"): 10,
        ("adaptive", "auto"): 10,
        ("adaptive", "compiled"): 5,
        ("compiled", "auto"): 3,
    },
}


@pytest.mark.parametrize("setting", PROGRAMS.get(TARGET, {}), ids="-".join)
def test_random_programs_do_what_they_do_on_cpu(setting, device):
    mode, tier = setting
    if device != "neuron":
        pytest.skip("compares the device with CPU")
    totals = fuzz(Configuration(mode, TARGET, tier), FIRST_SEED, 1500, PROGRAMS[TARGET][mode, tier], 5)
    assert not totals.failures, "\n".join(f"seed {f.seed}: {f.text}" for f in totals.failures)
    assert totals.programs >= PROGRAMS[TARGET][mode, tier]
    assert totals.steps > 5 * totals.programs


# --- the check itself


@pytest.mark.host_only
def test_a_seed_makes_one_program():
    for flavour in (Flavour("eager"), Flavour("adaptive")):
        for seed in range(5):
            first, second = (generate(seed, flavour) for _ in range(2))
            assert reproducer.text(first) == reproducer.text(second)
    assert reproducer.text(generate(1, flavour)) != reproducer.text(generate(2, flavour))


def chain(*calls):
    """t0 and what becomes of it."""
    make = Instr("helpers.make", (DEVICE, (4, 3), torch.float32, 1, False), {}, ("t0",))
    return Program([make], list(calls), 2)


class Wrong(Lockstep):
    """A device that gets one operator wrong."""

    def __init__(self, program, name, spoil):
        super().__init__(program, "cpu", exact=False)
        call = self.dev.call

        def wrong(instr, args, kwargs):
            result, error = call(instr, args, kwargs)
            if instr.call == name:
                result = spoil(result, args)
                if instr.out:
                    self.dev.env[instr.out[0]] = result
            return result, error

        self.dev.call = wrong


def add_one(result, args):
    with torch.no_grad():
        args[0].flatten()[0] += 1
    return result


SPOILS = {
    "a value": (lambda r, a: r + 0.01, "value"),
    "strides": (lambda r, a: r.t().contiguous().t(), "meta"),
    "a sign of zero": (lambda r, a: torch.where(r == 0, -0.0, r), "value"),
    "dtype": (lambda r, a: r.double(), "meta"),
    "an alias": (lambda r, a: a[0][:], "meta"),
}


@pytest.mark.host_only
@pytest.mark.parametrize("name", SPOILS)
def test_a_wrong_device_is_found_and_the_program_shrinks(name):
    spoil, kind = SPOILS[name]
    noise = [Instr("torch.add", (Var("t0"), k), {}, (f"n{k}",)) for k in range(6)]
    # Zeros, or there is no sign to be wrong; never rounded, or it would be excused.
    call = Instr("torch.mul", (Var("t0"), 0.0), {}, ("t1",))
    if name != "a sign of zero":
        call = Instr("torch.mul", (Var("t0"), Each((1.0, 2.0))), {}, ("t1",))
    program = chain(*noise, call, *[dataclasses.replace(i, out=(i.out[0] + "b",)) for i in noise])

    def fails(p):
        failure = Wrong(p, "torch.mul", spoil).run().failure
        return failure is not None and failure.kind == kind

    assert Lockstep(program, "cpu").run().failure is None
    assert fails(program)
    small = shrink(program, fails, 20)
    assert [i.call for i in small.body] == ["torch.mul"]
    assert "def run(device)" in reproducer.text(small)


@pytest.mark.host_only
def test_rounding_is_excused_and_no_more_than_rounding():
    third = Instr("torch.div", (Var("t0"), 3.3), {}, ("t1",))
    lost = Instr("torch.sub", (Var("t0"), Var("t1")), {"alpha": 3.3}, ("t2",))
    program = chain(third, lost)
    off = Wrong(program, "torch.div", lambda r, a: r * (1 + 1e-7)).run()
    assert off.failure is None
    assert off.noisy
    assert Wrong(program, "torch.div", lambda r, a: r * (1 + 1e-3)).run().failure.kind == "value"


@pytest.mark.host_only
def test_undefined_writes_are_left_out():
    x = torch.arange(8.0)
    add = Instr(".add_", (Var("a"), Var("b")))
    assert hazards.is_undefined(add, (x[1:], x[:-1]), {})
    assert not hazards.is_undefined(add, (x[4:], x[:4]), {})
    assert not hazards.is_undefined(add, (x, x), {})
    assert hazards.is_undefined(add, (x.as_strided((3, 3), (1, 1)), x.new_zeros(3, 3)), {})
    assert hazards.is_undefined(Instr(".copy_", ()), (torch.zeros(2, dtype=torch.int64), x[:2] / 0), {})


@pytest.mark.host_only
def test_nans_of_other_bits_are_the_same():
    a = torch.tensor([float("nan"), 1.0])
    b = a.clone()
    b.view(torch.int32)[0] ^= 1
    assert b[0].isnan()
    assert compare.differing(a, b, True) is None
    assert compare.differing(a.view(torch.int32), b.view(torch.int32), True) is None
    assert compare.differing(a, torch.tensor([0.0, 1.0]), False) is not None
