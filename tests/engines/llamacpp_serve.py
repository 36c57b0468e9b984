"""The engine's side: run by the engine's own Python, with nothing of this project beside it.

    python llamacpp_serve.py SETTINGS.json

Serves llama.cpp over HTTP, prints its address as one line of stdout, and ends when stdin does: a
server cannot outlive whoever started it. `params` are llama.cpp's own settings by dotted name;
`loop_core` and `other_cores` keep the engine's loop apart from its HTTP threads, so that
answering does not slow the steps, and have these answer at once whatever else the machine does.
"""

import json
import os
import sys
from pathlib import Path

import xllamacpp

WARM_UP = {"prompt": [1] * 16, "n_predict": 64, "ignore_eos": True, "temperature": 0}


def main() -> None:
    """Serve until stdin ends."""
    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    server = xllamacpp.Server(_params(settings["params"]))
    before = _cpu_ticks()
    server.handle_completions(WARM_UP)
    if settings.get("loop_core") is not None:
        after = _cpu_ticks()
        loop = max(after, key=lambda thread: after[thread] - before.get(thread, 0))
        for thread in after:
            cores = [settings["loop_core"]] if thread == loop else settings["other_cores"]
            os.sched_setaffinity(thread, cores)
            if thread != loop:
                os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))
    sys.stdout.write(server.listening_address + "\n")
    sys.stdout.flush()
    sys.stdin.read()


def _params(settings: dict) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    for dotted, value in settings.items():
        *path, name = dotted.split(".")
        holder = params
        for each in path:
            holder = getattr(holder, each)
        if not hasattr(holder, name):
            sys.exit(f"this llama.cpp has no setting {dotted!r}")
        is_types = dotted == "speculative.types"
        setattr(holder, name, [_type(each) for each in value] if is_types else value)
    return params


def _type(name: str) -> object:
    return getattr(xllamacpp.common_speculative_type, name)


def _cpu_ticks() -> dict[int, int]:
    """Clock ticks by thread of this process."""
    ticks = {}
    for task in Path("/proc/self/task").iterdir():
        fields = (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks[int(task.name)] = int(fields[11]) + int(fields[12])
    return ticks


if __name__ == "__main__":
    main()
