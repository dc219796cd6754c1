"""Draws traces: what the calling thread, the stream and each compile worker did when. One HTML file that needs
nothing else, and one PNG.

A trace is what torch.neuron.trace_stop() returns: events with lane, name, begin, end (seconds), site, tier.
"""

import json
import pathlib

HTML = pathlib.Path(__file__).with_name("timeline.html")
MAX_EVENTS = 8000
COLOURS = {0: "#9aa5b1", 1: "#3d7ea6", 2: "#2a9d6f", 3: "#c77d2e"}
CALLER, WAITING, COMPILE = "#d9a441", "#b8ab8d", "#7b5ea7"
LABELS_ACROSS = 90  # a block at least this part of the picture's width gets its source lines, upright
LABELS_ALONG = 9  # and one of this part its whole name, along


def lanes(events: list[dict]) -> list[str]:
    """Calling thread first, then the stream, then compile workers by number, then anything else."""
    order = {"caller": (0, ""), "stream": (1, "")}
    return sorted({e["lane"] for e in events}, key=lambda n: order.get(n, (2 if "compile" in n else 3, n)))


def colour(event: dict) -> str:
    if event["lane"].startswith("compile"):
        return COMPILE
    if event["lane"] == "caller":
        return WAITING if event["name"].startswith("waiting") else CALLER
    return COLOURS.get(event.get("tier"), COLOURS[0])


def simplify(events: list[dict], limit: int = MAX_EVENTS) -> list[dict]:
    """Joins short neighbours on a lane until `limit` events are left; joined ones say how many they were."""
    width = 1e-6
    while len(events) > limit:
        width *= 2
        joined: list[dict] = []
        last: dict[str, dict] = {}
        for event in sorted(events, key=lambda e: e["begin"]):
            before = last.get(event["lane"])
            if (
                before
                and event["lane"] != "caller"
                and before.get("tier") == event.get("tier")
                and event["begin"] - before["end"] < width
                and max(event["end"] - event["begin"], before["end"] - before["begin"]) < 16 * width
            ):
                before["count"] = before.get("count", 1) + event.get("count", 1)
                before["end"] = max(before["end"], event["end"])
                before["name"] = f"{before['count']} operators"
            else:
                last[event["lane"]] = dict(event)
                joined.append(last[event["lane"]])
        events = joined
    return events


def short(site: str | None) -> str:
    """Of a source line its file's name, without the folders."""
    return (site or "").rsplit("/", 1)[-1]


def from_zero(events: list[dict]) -> list[dict]:
    if not events:
        return []
    start = min(e["begin"] for e in events)
    return [e | {"begin": e["begin"] - start, "end": e["end"] - start} for e in events]


def collect(runs: list[dict]) -> list[dict]:
    """The traces of all runs that have one, with a title each."""
    found = []
    for run in runs:
        for part, events in (run.get("traces") or {}).items():
            if events:
                title = (
                    f"{run['workload']}, neuron {run['mode']}: {'first' if part == 'start' else 'last'} steps"
                )
                events = [e | {"site": short(e.get("site"))} for e in simplify(from_zero(events))]
                found.append(
                    {"title": title, "part": part, "lanes": lanes(events), "events": events}
                    | {"key": (run["workload"], run["mode"])}
                )
    return found


def write_html(traces: list[dict], path: pathlib.Path) -> None:
    pages = [
        {
            "title": trace["title"],
            "lanes": trace["lanes"],
            "events": [
                [
                    trace["lanes"].index(e["lane"]),
                    e["begin"],
                    e["end"],
                    e["name"],
                    e.get("site") or "",
                    colour(e),
                ]
                for e in trace["events"]
            ],
        }
        for trace in traces
    ]
    # "</" would end the script element if a name held it.
    data = json.dumps(pages).replace("</", "<\\/")
    path.write_text(HTML.read_text().replace("/*TRACES*/ []", data))


def draw(axes, trace: dict) -> None:
    names = trace["lanes"]
    whole = max(e["end"] for e in trace["events"])
    wide = [e for e in trace["events"] if e["end"] - e["begin"] >= whole / LABELS_ACROSS]
    for row, lane in enumerate(names):
        events = [e for e in trace["events"] if e["lane"] == lane]
        spans = [(e["begin"] * 1e3, max(e["end"] - e["begin"], 1e-6) * 1e3) for e in events]
        axes.broken_barh(spans, (row - 0.4, 0.8), facecolors=[colour(e) for e in events])
    for event in wide:
        middle = (event["begin"] + event["end"]) * 500
        row = names.index(event["lane"])
        across = event["end"] - event["begin"] >= whole / LABELS_ALONG
        # A snippet's name begins with the source lines that it came from.
        text = event["name"] if across else event["name"].split(",")[0]
        rotation = 0 if across else 90
        axes.text(middle, row, text, fontsize=6, rotation=rotation, ha="center", va="center", clip_on=True)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    axes.set_title(trace["title"], loc="left", fontsize=10)


def write_png(traces: list[dict], path: pathlib.Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    heights = [1 + 0.9 * len(trace["lanes"]) for trace in traces]
    figure, all_axes = pyplot.subplots(
        len(traces),
        1,
        figsize=(14, sum(heights) + 1),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axes, trace in zip(all_axes[:, 0], traces, strict=True):
        draw(axes, trace)
    labels = [(COLOURS[0], "tier 0"), (COLOURS[1], "tier 1"), (COLOURS[2], "tier 2"), (COLOURS[3], "tier 3")]
    labels += [(COMPILE, "compiling"), (CALLER, "calling thread"), (WAITING, "waiting")]
    handles = [Patch(color=c, label=text) for c, text in labels]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(labels))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def write(runs: list[dict], folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes both files and returns their paths; nothing if no run has a trace (CPU alone has none)."""
    traces = collect(runs)
    if not traces:
        return []
    write_html(traces, folder / "timeline.html")
    # The picture shows one run: adaptive if there is one, for it has all the lanes.
    keys = sorted({t["key"] for t in traces}, key=lambda k: (k[1] != "adaptive", k[0] != "gpt"))
    write_png([t for t in traces if t["key"] == keys[0]], folder / "timeline.png")
    return [folder / "timeline.html", folder / "timeline.png"]
