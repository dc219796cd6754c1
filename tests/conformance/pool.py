"""Runs a suite's cases in worker processes. A worker that dies or falls silent has failed the case that it was at, and
a fresh one goes on with the case after it."""

import json
import os
import pathlib
import queue
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS_TO_START = 300
SECONDS_PER_CASE = 120  # of a busy machine; the making of the sample included
MOST_BYTES = 4 << 30  # of a worker, which is then replaced: memos and executables stay for a process's life

CONFIGURATIONS = {
    "embedded_0": {"DENDRITE_TARGET": "embedded", "DENDRITE_TIER": "0", "DENDRITE_MODE": "eager"},
    "embedded_adaptive": {
        "DENDRITE_TARGET": "embedded",
        "DENDRITE_TIER": "auto",
        "DENDRITE_MODE": "adaptive",
    },
    "embedded_compiled": {
        "DENDRITE_TARGET": "embedded",
        "DENDRITE_TIER": "compiled",
        "DENDRITE_MODE": "eager",
    },
    "opaque_compiled": {"DENDRITE_TARGET": "opaque", "DENDRITE_TIER": "compiled", "DENDRITE_MODE": "eager"},
}


@dataclass
class Part:
    """Which cases of which kinds: a seeded share, and at most `limit` of a kind in an entry."""

    kinds: list[str]
    share: float = 1.0
    limit: int = 1 << 30
    seed: str = "0"


@dataclass
class Results:
    """cases[name][kind][index] = (letter, message); `broken` holds suites' own mistakes, `seconds` CPU time."""

    cases: dict = field(default_factory=dict)
    broken: dict = field(default_factory=dict)
    seconds: dict = field(default_factory=dict)

    def add(self, name, kind, index, letter, message):
        self.cases.setdefault(name, {}).setdefault(kind, {})[index] = (letter, message)


def device_of(configuration):
    return "cpu" if configuration == "cpu" else "neuron"


class Worker:
    def __init__(self, suite, configuration):
        self.log = tempfile.TemporaryFile(mode="w+", errors="replace")  # noqa: SIM115
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **CONFIGURATIONS.get(configuration, {})}
        environment.setdefault("OMP_NUM_THREADS", "1")
        # The package under test is the one that the path finds first, and this tree's otherwise.
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(ROOT)]))
        environment.pop("DENDRITE_OPAQUE", None)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.conformance.worker", suite, device_of(configuration)],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
        )  # fmt: skip
        self.pending = b""
        first = self.read(SECONDS_TO_START)
        if first is None:
            raise RuntimeError(f"no worker starts: {self.end()}")
        self.names = first[1]

    def read(self, seconds):
        """The next report, or None if the worker is dead or late. Seconds in which this process itself stood still
        do not count."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.pending:
                if not selector.select(1):
                    seconds -= 1
                    if seconds <= 0:
                        return None
                    continue
                got = os.read(self.process.stdout.fileno(), 1 << 16)
                if not got:
                    return None
                self.pending += got
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line)

    def ask(self, request):
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # reading says the same

    def is_large(self):
        try:
            with open(f"/proc/{self.process.pid}/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MOST_BYTES
        except OSError:
            return True

    def end(self):
        """Stops the worker. Letter and message for the case that it was at."""
        try:
            code = self.process.wait(timeout=0.5)
            letter, what = "C", f"the process died: {describe_exit(code)}"
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            letter, what = "H", f"no answer in {SECONDS_PER_CASE} s"
        self.log.seek(0)
        last = [line for line in self.log.read()[-2000:].splitlines() if line.strip()]
        return letter, f"{what}; {last[-1][:120]}" if last else what

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def describe_exit(code):
    return signal.Signals(-code).name if code < 0 else f"status {code}"


def run(suite, configuration, part, only=None, kinds_of=None, workers=2, progress=None):
    """Results of the suite's cases, or of those of the entries `only`; `kinds_of(name)` narrows the kinds further."""
    results, todo, lock, mistakes = Results(), queue.Queue(), threading.Lock(), []
    first = Worker(suite, configuration)
    for name in only if only is not None else first.names:
        kinds = [kind for kind in part.kinds if kinds_of is None or kind in kinds_of(name)]
        if kinds:
            todo.put((name, kinds))

    def work(worker):
        try:
            take_all(worker)
        except Exception as error:
            mistakes.append(error)

    def take_all(worker):
        while True:
            try:
                name, kinds = todo.get_nowait()
            except queue.Empty:
                break
            worker = one(worker, name, kinds)
            if progress:
                with lock:
                    progress(name, results)
        if worker is not None:
            worker.close()

    def one(worker, name, kinds):
        after = None
        while True:
            if worker is None or worker.is_large():
                if worker is not None:
                    worker.close()
                worker = Worker(suite, configuration)
            worker.ask({"name": name, "kinds": kinds, "share": part.share, "limit": part.limit,
                        "seed": part.seed, "after": after})  # fmt: skip
            at = None
            while True:
                line = worker.read(SECONDS_PER_CASE)
                if line is None:
                    break
                if line[0] == "begin":
                    at = line[1:]
                elif line[0] == "end":
                    _, kind, index, letter, message = line
                    at, after = None, [kind, index]
                    with lock:
                        results.add(name, kind, index, letter, message)
                elif line[0] == "broken":
                    results.broken[name] = line[1]
                else:
                    results.seconds[name] = line[1]
                    return worker
            letter, message = worker.end()
            worker = None
            if at is None:  # died while making samples: nothing is known of the rest
                results.broken[name] = message
                return None
            with lock:
                results.add(name, *at, letter, message)
            after = at

    threads = [threading.Thread(target=work, args=(first if k == 0 else None,)) for k in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if mistakes:  # what is left has not run: no results are better than some
        raise mistakes[0]
    return results
