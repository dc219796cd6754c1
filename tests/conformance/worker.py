"""The child process of pool.py: takes requests, one JSON line each, runs their cases, and reports each case before it
begins and after it ends, so that a case which kills the process is known."""

import hashlib
import importlib
import json
import os
import sys
import time
import warnings


def chosen(seed, share, name, kind, index):
    """Whether the case belongs to the seeded share."""
    if share >= 1:
        return True
    digest = hashlib.sha256(f"{seed}/{name}/{kind}/{index}".encode()).digest()
    return int.from_bytes(digest[:4], "big") < share * 2**32


def serve(request, suite, runner, say):
    name, after = request["name"], request["after"]
    waiting, taken = after is not None, {}
    for kind, index, run in suite.cases(name, request["kinds"], runner):
        if taken.get(kind, 0) >= request["limit"]:
            if all(taken.get(k, 0) >= request["limit"] for k in request["kinds"]):
                break
            continue
        if not chosen(request["seed"], request["share"], name, kind, index):
            continue
        taken[kind] = taken.get(kind, 0) + 1
        if waiting:
            waiting = [kind, index] != after
            continue
        say(["begin", kind, index])
        letter, message = run()
        say(["end", kind, index, letter, message])


def main():
    warnings.simplefilter("ignore")
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what operators print is none of the report

    def say(what):
        report.write(json.dumps(what) + "\n")
        report.flush()

    from tests.conformance.runner import Runner

    if sys.argv[2] != "cpu":
        import torch

        torch.zeros(1, device=sys.argv[2])  # a device that is not there is no failure of every case
    suite = importlib.import_module(f"tests.conformance.{sys.argv[1]}")
    runner = Runner(sys.argv[2])
    say(["names", suite.names()])
    for line in sys.stdin:
        request = json.loads(line)
        begin = time.process_time()
        try:
            serve(request, suite, runner, say)
        except Exception as error:
            say(["broken", f"{type(error).__name__}: {error}"[:200]])
        say(["done", round(time.process_time() - begin, 2)])


if __name__ == "__main__":
    main()
