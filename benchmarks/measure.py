"""How every timing here is taken: two sides in one process, interleaved, compared pair by pair.

A machine's speed drifts, so a ratio is taken within each pair and the median over the pairs reported. The order
within a pair alternates. A null run compares a side with itself: what it differs from 1 by is the noise.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Comparison:
    """Ratios are ours / reference: below 1 is faster (or less)."""

    ours: float
    reference: float
    ratio: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        spread = f"{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}]"
        return (
            f"{self.ours * 1e3:9.3f} ms vs {self.reference * 1e3:9.3f} ms, ratio {spread}, {self.pairs} pairs"
        )


def timed(step: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> float:
    begin = clock()
    step()
    return clock() - begin


def compare(
    ours: Callable[[], None],
    reference: Callable[[], None],
    pairs: int,
    clock: Callable[[], float] = time.perf_counter,
    between: Callable[[], None] = lambda: None,
) -> Comparison:
    """Unless `between`, which runs untimed after each step, synchronises, the steps must do so themselves. The
    spread is the middle half of the pairs' ratios."""
    if pairs < 2:
        raise ValueError("a median needs at least two pairs")
    times: list[tuple[float, float]] = []

    def run(step: Callable[[], None]) -> float:
        seconds = timed(step, clock)
        between()
        return seconds

    for i in range(pairs):
        if i % 2:
            second = run(reference)
            times.append((run(ours), second))
        else:
            first = run(ours)
            times.append((first, run(reference)))
    ratios = [a / b for a, b in times]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    return Comparison(
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
        ratio,
        low,
        high,
        pairs,
    )


def geomean(values: list[float]) -> float:
    return statistics.geometric_mean(values)
