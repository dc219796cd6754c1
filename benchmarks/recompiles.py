"""Compiles that a program still causes after its warm-up, in patterns that break caches."""

import time

import torch

from benchmarks.child import share_compiled
from benchmarks.training import execution_mode, synchronize

HELP = "recompiles: new compiles after warm-up, 100 calls, with the share of operators in snippets"
QUIET_SECONDS, CALLS = 5.0, 100


def schedule(device: str):
    model = torch.nn.Sequential(torch.nn.Linear(32, 512), torch.nn.Tanh(), torch.nn.Linear(512, 8)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (1 + i / 100))
    x = torch.randn(64, 32).to(device)

    def step(i):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        rate.step()

    return step


def moving_write(device: str):
    cache, x = torch.zeros(8, 64, 8192, device=device), torch.randn(8, 8192).to(device)

    def step(i):
        cache[:, i % 64] = (x * 2 + 1).sigmoid() * x

    return step


def moving_read(device: str):
    x = torch.randn(64, 65536).to(device)

    def step(i):
        ((x[i % 64] * 2 + 1).relu() - 1).square()

    return step


def printing(device: str):
    x = torch.randn(65536).to(device)
    y = torch.zeros(65536, device=device)

    def step(i):
        y.mul_(0.9).add_(x, alpha=0.1)
        str(y.mean().item())

    return step


PATTERNS = [schedule, moving_write, moving_read, printing]


def pending() -> int:
    return torch.neuron.stats()["compiles_pending"]


def run(options, out) -> None:
    if options.device == "cpu":
        out("CPU compiles nothing")
        return
    quiet = min(QUIET_SECONDS, options.warmup)
    for pattern in PATTERNS:
        step = pattern(options.device)
        with execution_mode(options.device, "adaptive"):

            def call(i, step=step):
                step(i)
                synchronize(options.device)

            torch.neuron.reset_stats()
            last, seen, i = time.monotonic(), -1, 0
            while time.monotonic() - last < quiet:
                call(i)
                i += 1
                compiles = torch.neuron.stats()["compiles"]
                if compiles != seen or pending():
                    last, seen = time.monotonic(), compiles
            torch.neuron.reset_stats()
            for k in range(i, i + CALLS):
                call(k)
            while pending():
                time.sleep(0.01)
        stats = torch.neuron.stats()
        share = share_compiled(stats["ops_by_tier"])
        warm_up = f"{pattern.__name__:14} warm-up {seen} compiles in {i} calls"
        out(f"{warm_up}, then {stats['compiles']}; in snippets {share:.0%}")
