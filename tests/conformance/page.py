"""docs/conformance.md, from the lists."""

import pathlib

from tests.conformance.pool import CONFIGURATIONS
from tests.conformance.status import Table, failed

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/conformance.md"
HEAD = """# Conformance

Generated from the lists in `tests/conformance/` by `python -m tests.conformance update`: PyTorch's own databases of
operators, modules and optimizers, compared with PyTorch on CPU sample by sample, with the tolerances of the entries
themselves. Every sample that CPU accepts counts. *native*: all that it called ran as compiled code; *name*: in part on
PyTorch's CPU kernels over the device's memory (tier 0, or called by name from compiled code); *host*: in part on the
host, which `torch.neuron.stats()["fallback_ops"]` counts; *fail*: a value, shape, dtype or stride differs from CPU's, a
call raises where CPU's does not, or raises another class of error. What a list does not hold has not been measured yet.

| configuration | environment |
|---|---|"""


def percent(part, whole):
    if whole == 0:
        return "-"
    share = 100 * part / whole
    # 100 % is said of all, and of nothing less.
    return "100" if part == whole else "0" if part == 0 else f"{min(max(share, 0.01), 99.99):.2f}"


def summary(table, configuration, kinds):
    lines = [
        "| kind | samples | agree % | native % | name % | host % | fail % |",
        "|---|---|---|---|---|---|---|",
    ]
    totals = table.totals()
    for kind in kinds:
        counts = totals.get((configuration, kind), {})
        whole = sum(counts.values())
        if not whole:
            continue
        wrong = sum(n for letter, n in counts.items() if failed(letter))
        places = [counts.get(letter, 0) for letter in "nkh"]
        shares = [percent(n, whole) for n in places] if not counts.get("a") else ["by timing", "", ""]
        columns = [kind, str(whole), percent(whole - wrong, whole), *shares, percent(wrong, whole)]
        lines.append("| " + " | ".join(columns) + " |")
    return lines


def cell(letters):
    letters = [x for x in letters if x not in ".?"]
    if not letters:
        return "-"
    wrong = sum(map(failed, letters))
    if wrong:
        return f"**{wrong} of {len(letters)} fail**"
    parts = [
        (what, letters.count(x))
        for x, what in (("n", "native"), ("k", "name"), ("h", "host"), ("a", "agrees"))
    ]
    parts = [(what, n) for what, n in parts if n]
    if len(parts) == 1:
        return parts[0][0]
    return ", ".join(f"{what} {100 * n // len(letters)} %" for what, n in parts)


def entries(table):
    lines = [
        "| entry | samples | " + " | ".join(CONFIGURATIONS) + " |",
        "|---|---|" + "---|" * len(CONFIGURATIONS),
    ]
    for name, kinds in sorted(table.rows.items()):
        columns = ["".join(row.get(c, "") for row in kinds.values()) for c in CONFIGURATIONS]
        size = max(len(column) - column.count(".") for column in columns)
        lines.append(f"| {name} | {size} | " + " | ".join(map(cell, columns)) + " |")
    return lines


def write(suites):
    """`suites`: {name: kinds, in order}."""
    text = [HEAD]
    for c, environment in CONFIGURATIONS.items():
        text.append(f"| {c} | " + ", ".join(f"`{k}={v}`" for k, v in environment.items()) + " |")
    tables = {suite: Table(suite) for suite in suites}
    for suite, kinds in suites.items():
        for configuration in CONFIGURATIONS:
            lines = summary(tables[suite], configuration, kinds)
            if len(lines) > 2:
                text += ["", f"## {suite.capitalize()}: {configuration}", "", *lines]
    for suite in suites:
        text += ["", f"## {suite.capitalize()}, one by one", "", *entries(tables[suite])]
    PAGE.write_text("\n".join(text) + "\n")
