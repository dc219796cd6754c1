"""The demo's progress bars and its closing table, in plain text."""

import sys
import time

BAR_WIDTH = 28


def difference(run: dict, cpu: dict | None) -> str:
    """How far the final loss is from CPU's, relative to CPU's."""
    if run["mode"] == "cpu" or cpu is None or "error" in cpu:
        return ""
    if len(run["losses"]) != len(cpu["losses"]):
        return "other steps"
    return f"{abs(run['losses'][-1] - cpu['losses'][-1]) / abs(cpu['losses'][-1]):.1e}"


def tiers(stats: dict | None) -> str:
    if not stats:
        return ""
    counts = {str(key): n for key, n in stats["ops_by_tier"].items() if n}
    total = sum(counts.values())
    return ", ".join(f"{key}: {100 * n / total:.0f} %" for key, n in sorted(counts.items())) or "none"


# Titles and how a cell is made from a run; CPU has no statistics, so those cells stay empty there.
COLUMNS = [
    ("model", lambda r, cpu: r["workload"]),
    ("mode", lambda r, cpu: r["mode"] if r["mode"] == "cpu" else "neuron " + r["mode"]),
    ("final loss", lambda r, cpu: f"{r['losses'][-1]:.5f}"),
    ("vs CPU", difference),
    ("first step", lambda r, cpu: f"{r['first_step_seconds']:.2f} s"),
    ("step", lambda r, cpu: f"{r['steady_step_seconds'] * 1e3:.1f} ms"),
    ("operators by tier", lambda r, cpu: tiers(r["stats"])),
    ("compiles", lambda r, cpu: str(r["stats"]["compiles"]) if r["stats"] else ""),
    ("compiling", lambda r, cpu: f"{r['stats']['compile_seconds']:.1f} s" if r["stats"] else ""),
    ("waited", lambda r, cpu: f"{r['stats']['compile_wait_seconds']:.1f} s" if r["stats"] else ""),
    ("peak memory", lambda r, cpu: f"{r['peak_memory_bytes'] / 2**20:.0f} MiB"),
]


def table(runs: list[dict]) -> str:
    """One row per run, models set apart by a line; a failed run's row says what went wrong."""
    cpu = {r["workload"]: r for r in runs if r["mode"] == "cpu"}
    rows: list[list[str]] = []
    for run in runs:
        if "error" in run:
            rows.append([COLUMNS[0][1](run, None), COLUMNS[1][1](run, None), f"FAILED: {run['error']}"])
        else:
            rows.append([make(run, cpu.get(run["workload"])) for _, make in COLUMNS])
    titles = [title for title, _ in COLUMNS]
    # A failure's text runs over the other columns and sets no width.
    full = [row for row in rows if len(row) == len(titles)]
    widths = [max(len(row[i]) for row in [titles, *full]) for i in range(len(titles))]
    for row in rows:
        widths[:2] = [max(w, len(cell)) for w, cell in zip(widths[:2], row[:2], strict=True)]
    lines = ["  ".join(title.ljust(w) for title, w in zip(titles, widths, strict=True)).rstrip()]
    lines.append("  ".join("-" * w for w in widths))
    for previous, run, row in zip([None, *runs], runs, rows, strict=False):
        if previous and previous["workload"] != run["workload"]:
            lines.append("")
        lines.append("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=False)).rstrip())
    return "\n".join(lines)


class ProgressBar:
    """One line per run: redrawn in place on a terminal, printed once at the end elsewhere."""

    def __init__(self, label: str, total: int, stream=sys.stdout):
        self.label, self.total, self.stream = label, total, stream
        self.live = stream.isatty()
        self.begin = self.drawn = time.monotonic()
        self.text = "starting"
        self.step = 0
        if self.live:
            self._draw()

    def update(self, step: int, loss: float, seconds: float) -> None:
        self.step = step
        self.text = f"loss {loss:.4f}  {seconds * 1e3:6.1f} ms/step"
        if self.live and (time.monotonic() - self.drawn > 0.1 or step == self.total):
            self._draw()

    def close(self, error: str | None = None) -> None:
        if error:
            self.text = f"FAILED: {error}"
        self._draw(f"  {time.monotonic() - self.begin:.1f} s\n")
        self.stream.flush()

    def _draw(self, end: str = "") -> None:
        self.drawn = time.monotonic()
        filled = BAR_WIDTH * self.step // max(1, self.total)
        bar = "█" * filled + "░" * (BAR_WIDTH - filled)
        start = "\r\x1b[2K" if self.live else ""
        self.stream.write(f"{start}{self.label:24} {bar} {self.step:4}/{self.total}  {self.text}{end}")
        self.stream.flush()
