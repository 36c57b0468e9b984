"""Step samples from vLLM's --enable-logging-iteration-details.

A line times one whole engine step, drafting included. Steps that only decode, with the same
number of tokens for every request, become samples; their context follows from the share of the
KV cache in use, where the log says how large it is.
"""

import re
from typing import TYPE_CHECKING

from simcore.profile.importers.samples import Step, step_samples

if TYPE_CHECKING:
    import pandas as pd

ITERATION = re.compile(
    r"Iteration\(\d+\): (\d+) context requests, (\d+) context tokens, (\d+) generation requests, "
    r"(\d+) generation tokens, iteration elapsed time: ([\d.]+) ms"
    r"(?:, [A-Z]+ KV cache usage: ([\d.]+)%)?(.*)"
)
KV_SIZE = re.compile(r"KV cache size: ([\d,]+) tokens")
MAX_DIGITS = 12


def iteration_samples(
    lines: list[tuple[str, str]],
) -> tuple["pd.DataFrame | None", tuple[str, ...]]:
    """(samples, notes) of a log; None where it has no line that can be used."""
    size_tokens, steps, left_out = 0, list[Step](), 0
    for _, line in lines:
        if size := KV_SIZE.search(line):
            size_tokens = int(size[1].replace(",", "")[:MAX_DIGITS] or 0)
        found = ITERATION.search(line)
        if found is None or max(map(len, found.groups(default="")[:5])) > MAX_DIGITS:
            continue
        step = _step(found, size_tokens)
        if step is None:
            left_out += 1
        else:
            steps.append(step)
    if not steps:
        return None, ()
    notes = [
        f"{len(steps)} decode steps timed whole, drafting included; {left_out} with prefill, "
        "ragged drafts or no work were left out."
    ]
    if not size_tokens:
        notes.append(
            "The log has no 'KV cache size' line or no usage: context is not known and the cost "
            "of reading the KV cache cannot be told apart."
        )
    return step_samples(steps), tuple(notes)


def _step(found: re.Match[str], size_tokens: int) -> Step | None:
    """A step that decodes and nothing else; a dummy step keeps idle ranks in step."""
    contexts, _, requests, tokens = (int(found[group]) for group in range(1, 5))
    if contexts or not requests or tokens % requests or not tokens or "dummy" in found[7]:
        return None
    try:
        elapsed_ms, usage = float(found[5]), float(found[6] or 0.0)
    except ValueError:
        return None
    if not elapsed_ms > 0.0:
        return None
    context = round(usage / 100.0 * size_tokens / requests)
    return Step(requests, tokens // requests, context, elapsed_ms / 1e3)
