"""Workers as seen by their parent: started with a configuration, watched, ended."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import selectors
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from tests.fuzz.program import Program

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS = 600
SILENCE_SECONDS = 240  # between two lines; compiles on a busy machine included


@dataclass(frozen=True)
class Configuration:
    mode: str = "eager"
    target: str = "embedded"
    tier: str = "auto"

    def __str__(self) -> str:
        return f"{self.target}-{self.mode}-{self.tier}"

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DENDRITE_TARGET": self.target,
            "DENDRITE_TIER": self.tier,
            "DENDRITE_MODE": "adaptive" if self.mode == "adaptive" else "eager",
            "DENDRITE_CACHE_DIR": os.environ.get("DENDRITE_CACHE_DIR", "off"),
            "DENDRITE_LOG": os.environ.get("DENDRITE_LOG", "error"),
            "OMP_NUM_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }


class Child:
    def __init__(self, configuration: Configuration, *arguments: str):
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", "--mode", configuration.mode, *arguments],
            cwd=ROOT,
            env=configuration.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        self.buffer = b""

    def read(self, seconds: float) -> dict | None:
        """The next report; None when the child is dead or silent, and then `end` says which."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                if not selector.select(seconds):
                    return None
                got = os.read(self.process.stdout.fileno(), 1 << 16)
                if not got:
                    return None
                self.buffer += got
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def end(self) -> tuple[str, str]:
        """(kind, text) of a child that stopped to answer: a crash or a hang, with what it wrote last."""
        try:
            code = self.process.wait(1)
            kind, what = "crash", f"exit code {code}"
        except subprocess.TimeoutExpired:
            kind, what = "hang", "no answer"
            self.process.send_signal(signal.SIGUSR1)  # faulthandler writes where its threads are
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.errors.seek(0)
        return kind, f"{what}\n" + self.errors.read().decode(errors="replace")[-3000:]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Oracle:
    """Says what is wrong with a program, whatever that does to the process that runs it."""

    def __init__(self, configuration: Configuration, seconds: float = SILENCE_SECONDS):
        self.configuration, self.seconds = configuration, seconds
        self.child: Child | None = None

    def ask(self, programs: list[Program]) -> tuple[str, str]:
        """(kind, text), both empty if nothing is."""
        if self.child is None:
            self.child = Child(self.configuration, "--oracle")
            if self.child.read(START_SECONDS) is None:
                raise RuntimeError(f"the worker does not start: {self.child.end()}")
        data = pickle.dumps(programs)
        try:
            self.child.process.stdin.write(len(data).to_bytes(8, "little") + data)
            self.child.process.stdin.flush()
            answer = self.child.read(self.seconds)
        except BrokenPipeError:
            answer = None
        if answer is None:
            kind, text = self.child.end()
            self.child = None
            return kind, text
        return answer["kind"], answer["text"]

    def close(self) -> None:
        if self.child is not None:
            self.child.close()
            self.child = None
