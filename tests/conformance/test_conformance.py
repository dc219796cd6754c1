"""A seeded part of the conformance suites agrees with the lists: a case that got worse fails here, and so does one that
got better (`python -m tests.conformance update` then rewrites the lists)."""

import importlib

import pytest

from tests.conformance import pool
from tests.conformance.__main__ import SUITES
from tests.conformance.status import Table
from tests.conformance.worker import chosen

# Entries of kernels that exist on other devices only.
WITHOUT_SAMPLES = {
    "nn.functional.batch_norm.without_cudnn",
    "torch._scaled_mm",
    "torch._scaled_mm_v2",
    "torch.ops.aten._efficient_attention_forward",
    "torch.ops.aten._flash_attention_forward",
}

ROWS = [(suite, configuration) for suite in SUITES for configuration in pool.CONFIGURATIONS]


def part_of(suite, configuration, config, table):
    """The cases to run: a function from an entry to its kinds, and the limits. A kind whose first cases the list does
    not know yet is left to the next `update`."""
    kinds = importlib.import_module(f"tests.conformance.{suite}").KINDS
    share, seed = config.getoption("part_share"), config.getoption("part_seed")
    share, limit = min(1, share * (1 if suite == "operators" else 4)), config.getoption("part_limit")

    def is_known(name, kind):
        letters = table.rows.get(name, {}).get(kind, {}).get(configuration, "")
        return letters and "?" not in letters[:limit]

    def kinds_of(name):
        taken = [kind for kind in kinds if chosen(f"{seed}/{configuration}", share, name, kind, "entry")]
        return [kind for kind in taken if is_known(name, kind)]

    return kinds_of, pool.Part(kinds, limit=limit, seed=seed)


@pytest.mark.parametrize(("suite", "configuration"), ROWS, ids=["-".join(row) for row in ROWS])
def test_part_is_as_the_list_says(suite, configuration, request):
    table = Table(suite)
    if not any(configuration in row for kinds in table.rows.values() for row in kinds.values()):
        pytest.skip("not measured yet: python -m tests.conformance update ends this")
    kinds_of, part = part_of(suite, configuration, request.config, table)
    results = pool.run(suite, configuration, part, kinds_of=kinds_of)
    assert results.cases, "the seeded part has no case"
    problems = [f"{name}: {what}" for name, what in results.broken.items()]
    for name, found in results.cases.items():
        problems += [f"{name}: {line}" for line in table.disagreements(configuration, name, found)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("suite", SUITES)
def test_list_names_every_entry_that_has_samples(suite):
    names = importlib.import_module(f"tests.conformance.{suite}").names()
    assert set(Table(suite).rows) == set(names) - WITHOUT_SAMPLES


def test_a_worse_and_a_better_case_are_seen(tmp_path, monkeypatch):
    """The comparison itself can fail, both ways."""
    monkeypatch.setattr("tests.conformance.status.FOLDER", tmp_path)
    table = Table("made_up")
    known = pool.Results()
    for index, letter in enumerate("nnV"):
        known.add("add", "float32", index, letter, "")
    table.merge("embedded_0", known)
    table.write()
    table = Table("made_up")
    assert table.disagreements("embedded_0", "add", known.cases["add"]) == []
    for index, letter in ((0, "V"), (0, "h"), (2, "n"), (3, "n")):
        found = table.disagreements("embedded_0", "add", {"float32": {index: (letter, "")}})
        assert len(found) == 1, (index, letter)
