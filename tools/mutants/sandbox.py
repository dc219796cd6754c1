"""A tree with its build folder, in which files are broken, built and tested.

As a rule it is a copy of the working tree in build/mutants, built once and then incrementally; nothing of the working
tree, its build or the user's caches is touched. A tree that is a throw-away copy already (a fresh checkout on a build
machine) may be used itself, with the build that it has. Every file that changes gets the time of the change: an
object that was built from a broken file never looks up to date.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from tools.mutants.faults import Fault, NamedTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PASSED = re.compile(r"\[  PASSED  \] [1-9]")  # googletest; zero tests are no success


class Broken(Exception):
    """The copy does not configure or build; the text says where."""


class Sandbox:
    def __init__(self, ninja: list[str], limit_seconds: float, in_place: bool = False):
        self.in_place = in_place
        if in_place:
            self.tree, self.build = ROOT, ROOT / "build" / "release"
        else:
            self.tree, self.build = (
                ROOT / "build" / "mutants" / "tree",
                ROOT / "build" / "mutants" / "objects",
            )
        self.ninja, self.limit = ninja, limit_seconds

    def prepare(self) -> None:
        if self.in_place:
            return
        self.sync()
        self.configure()

    def sync(self) -> None:
        """Makes the copy equal to the working tree (tracked files and new ones, but not ignored ones)."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout.decode()
        wanted = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
        for path in self.tree.rglob("*"):
            name = str(path.relative_to(self.tree))
            built = path.suffix == ".so" or path.name == "dendrite-compile-worker"
            if path.is_file() and name not in wanted and not built:
                path.unlink()
        for name in sorted(wanted):
            write_if_changed(self.tree / name, (ROOT / name).read_bytes())

    def configure(self) -> None:
        command = ["cmake", "-S", str(self.tree), "-B", str(self.build), "-G", "Ninja"]
        # Not optimised: compiling is what takes the time here.
        command += ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DDENDRITE_TEST_PCH=ON"]
        command += [f"-DPython_EXECUTABLE={sys.executable}"]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            raise Broken(tail(run.stdout))

    def make(self, targets: list[str]) -> None:
        command = [*self.ninja, "-C", str(self.build), *targets]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            errors = [
                line
                for line in run.stdout.splitlines()
                if " error: " in line or "undefined reference" in line
            ]
            raise Broken("\n".join(errors[:3]) or tail(run.stdout))

    def passes(self, test: NamedTest, limit: float | None = None) -> tuple[bool, str]:
        """Whether the test ran and passed; what it wrote, if not. A test over the time limit has not passed."""
        with tempfile.TemporaryDirectory() as scratch:
            env = {**os.environ, **dict(test.env), "XDG_CACHE_HOME": scratch, "PYTHONPATH": str(self.tree)}
            if test.is_unit:
                program, case = test.command
                name = program.removeprefix("dendrite_").removesuffix("_test")
                # Through ctest, for the environment that the tests expect.
                command = ["ctest", "--test-dir", str(self.build), "-V", "-R", f"^{name}$"]
                env["GTEST_FILTER"] = case
            else:
                command = [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-q",
                    "-x",
                    "-p",
                    "no:cacheprovider",
                    *test.command,
                ]
                env["DENDRITE_LOWERING_HARNESS"] = str(self.build / "libdendrite_lowering_harness.so")
            code, output = run_limited(command, self.tree, env, limit or self.limit)
        ran = bool(PASSED.search(output)) if test.is_unit else True
        return code == 0 and ran, output

    @contextlib.contextmanager
    def broken_by(self, fault: Fault) -> Iterator[None]:
        path = self.tree / fault.file
        good = path.read_text()
        path.write_text(fault.apply(good))
        try:
            yield
        finally:
            path.write_text(good)

    def imports_itself(self) -> bool:
        """Whether Python finds the package in the copy, and not in the tree that it was copied from."""
        code = "import torch_dendrite; print(torch_dendrite.__file__)"
        env = {**os.environ, "PYTHONPATH": str(self.tree)}
        found = subprocess.run(
            [sys.executable, "-c", code], cwd=self.tree, env=env, stdout=subprocess.PIPE, text=True
        )
        return found.stdout.strip().startswith(str(self.tree))


def run_limited(command: list[str], cwd: pathlib.Path, env: dict[str, str], limit: float) -> tuple[int, str]:
    """Exit code and output; -9 and what there is of it if the time ran out. Kills what the command started."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = -signal.SIGKILL
        output.seek(0)
        return code, output.read()


def write_if_changed(path: pathlib.Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.rstrip().splitlines()[-lines:])
