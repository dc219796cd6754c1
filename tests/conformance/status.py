"""The checked-in lists of what every case did: <suite>.tsv, and the messages of failures in <suite>_failures.tsv.

A line is an entry, its kinds with the number of their cases, and a cell per configuration: a letter for each case, in
their order, equal ones counted (`12n3h1V`), or a single letter if all are the same. Kinds with equal cells share a
line. Letters: n compiled, k PyTorch's CPU kernels on the device's memory, h on the host and counted so, a agrees with
CPU (where places depend on timing), . not accepted by CPU, ? not measured; capitals are failures: see judge.py.
"""

import itertools
import pathlib
import re

from tests.conformance.pool import CONFIGURATIONS

FOLDER = pathlib.Path(__file__).resolve().parent
TIMED = {"embedded_adaptive"}  # where a case runs depends on what the background had compiled by then
PASSED = set("nkha")


def failed(letter):
    return letter.isupper()


def normal(configuration, letter):
    return "a" if configuration in TIMED and letter in "nkh" else letter


def encode(letters):
    if len(set(letters)) == 1:
        return letters[0]
    return "".join(f"{len(list(group))}{letter}" for letter, group in itertools.groupby(letters)) or "?"


def decode(cell, count):
    if len(cell) == 1:
        return cell * count
    return "".join(int(n) * letter for n, letter in re.findall(r"(\d+)(\D)", cell))


def letters_of(cases, configuration):
    """{index: (letter, message)} as a string, unknown ones as '?'."""
    size = max(cases, default=-1) + 1
    return "".join(normal(configuration, cases[i][0]) if i in cases else "?" for i in range(size))


class Table:
    """rows[name][kind][configuration] = a string of letters; messages[(name, kind, configuration)] = {index: text}."""

    def __init__(self, suite):
        self.path = FOLDER / f"{suite}.tsv"
        self.failures = FOLDER / f"{suite}_failures.tsv"
        self.rows, self.messages = {}, {}
        if self.path.exists():
            self._read()

    def _read(self):
        lines = self.path.read_text().splitlines()
        columns = lines[0].split("\t")[2:]
        for line in lines[1:]:
            name, kinds, *cells = line.split("\t")
            for part in kinds.split(","):
                kind, count = part.split(":")
                row = self.rows.setdefault(name, {}).setdefault(kind, {})
                for column, cell in zip(columns, cells, strict=True):
                    letters = decode(cell, int(count))
                    if letters.strip("?"):
                        row[column] = letters
        if self.failures.exists():
            for line in self.failures.read_text().splitlines()[1:]:
                name, kind, configuration, index, message = line.split("\t")
                self.messages.setdefault((name, kind, configuration), {})[int(index)] = message

    def merge(self, configuration, results):
        """Takes over what was measured; what was not stays."""
        for name, kinds in results.cases.items():
            for kind, cases in kinds.items():
                row = self.rows.setdefault(name, {}).setdefault(kind, {})
                new, old = letters_of(cases, configuration), row.get(configuration, "")
                size = max(len(new), len(old))
                new, old = new.ljust(size, "?"), old.ljust(size, "?")
                row[configuration] = "".join(o if n == "?" else n for n, o in zip(new, old, strict=True))
                texts = self.messages.setdefault((name, kind, configuration), {})
                for index, (letter, message) in cases.items():
                    texts.pop(index, None)
                    if failed(letter):
                        texts[index] = " ".join(message.split())

    def write(self):
        lines = ["\t".join(["entry", "kinds", *CONFIGURATIONS])]
        for name in sorted(self.rows):
            groups = {}
            for kind, row in self.rows[name].items():
                count = max((len(letters) for letters in row.values()), default=0)
                cells = tuple(encode(row.get(c, "").ljust(count, "?")) for c in CONFIGURATIONS)
                groups.setdefault(cells, []).append(f"{kind}:{count}")
            lines += ["\t".join([name, ",".join(kinds), *cells]) for cells, kinds in groups.items()]
        self.path.write_text("\n".join(lines) + "\n")
        lines = ["\t".join(["entry", "kind", "configuration", "case", "message"])]
        for (name, kind, configuration), texts in sorted(self.messages.items()):
            seen = set()  # one case for each message
            for index, text in sorted(texts.items()):
                shape = re.sub(r"[\d.e+-]+", "#", text)
                if shape not in seen:
                    seen.add(shape)
                    lines.append("\t".join([name, kind, configuration, str(index), text]))
        self.failures.write_text("\n".join(lines) + "\n")

    def disagreements(self, configuration, name, kinds):
        """What an entry's results say and the list does not."""
        found = []
        for kind, cases in kinds.items():
            letters = self.rows.get(name, {}).get(kind, {}).get(configuration, "")
            for index, (letter, message) in sorted(cases.items()):
                letter = normal(configuration, letter)
                known = letters[index] if index < len(letters) else "?"
                if letter != known:
                    found.append(f"{kind} case {index}: {letter} instead of {known} {message}")
        return found

    def totals(self):
        """{(configuration, kind): {letter: number of samples}}, without what CPU does not accept."""
        counts = {}
        for kinds in self.rows.values():
            for kind, row in kinds.items():
                for configuration, letters in row.items():
                    total = counts.setdefault((configuration, kind), {})
                    for letter in letters:
                        if letter not in ".?":
                            total[letter] = total.get(letter, 0) + 1
        return counts
