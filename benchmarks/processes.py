"""Four processes at once on one cold cache, the same program: how often each executable was compiled."""

import pathlib
import tempfile

from benchmarks.child import finish, plugin_environment, start

MODELS = ["conv"]
HELP = "processes: four at once on a cold cache; compiles counted by a shim plugin"
PROCESSES = 4


def run(options, out) -> None:
    for model in options.models or MODELS:
        for mode in options.modes:
            if mode == "eager":
                continue
            with tempfile.TemporaryDirectory() as folder:
                log = pathlib.Path(folder) / "compiles"
                more = plugin_environment(LOG=log) | {"DENDRITE_TARGET": "embedded"}
                more |= {"DENDRITE_CACHE_DIR": f"{folder}/cache"}
                steps, seconds = 30, options.warmup
                started = [
                    start(model, options.size, options.device, mode, steps, seconds, **more)
                    for _ in range(PROCESSES)
                ]
                done = [finish(process) for process in started]
                compiled = log.read_text().split() if log.exists() else []
            each = [run["stats"]["compiles"] for run in done]
            out(
                f"{model:12} {mode:10} {len(compiled)} compiles of {len(set(compiled))} programs, by process {each}"
            )
