"""Prompt and output lengths of every kind."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.trace import TraceSet
from simcore.errors import ScenarioError
from simcore.workload.files import read_lengths
from simcore.workload.recorded import recorded_column, recorded_requests
from simcore.workload_kinds import (
    EmpiricalLengths,
    FileRowsLengths,
    FixedLengths,
    LognormalLengths,
    LognormalTokens,
    RecordedLengths,
    Workload,
)

IntArray = NDArray[np.int64]
LengthPair = tuple[IntArray, IntArray]  # prompt, output tokens [num_requests]


def sample_lengths(
    workload: Workload, traces: TraceSet | None, trace: IntArray, rng: np.random.Generator
) -> LengthPair:
    """Lengths of as many requests as `trace` has. Raises ScenarioError.

    `trace` is the recorded acceptance request that each of them replays.
    """
    lengths, count = workload.lengths, len(trace)
    match lengths:
        case LognormalLengths():
            return _lognormal(lengths.prompt, count, rng), _lognormal(lengths.output, count, rng)
        case FixedLengths():
            return np.full(count, lengths.prompt_tokens), np.full(count, lengths.output_tokens)
        case EmpiricalLengths():
            return _empirical(lengths, count, rng)
        case FileRowsLengths():
            return _file_rows(workload, count)
        case RecordedLengths():
            return _of_traces(traces, trace)
    raise AssertionError(f"no sampler for lengths {lengths!r}")


def declared_max_tokens(workload: Workload, output_tokens: IntArray) -> int:
    """The longest output that a request declares (max_tokens of the API), in tokens.

    The law's own limit where it has one; else the longest of the recorded ones.
    """
    lengths = workload.lengths
    if isinstance(lengths, LognormalLengths):
        return lengths.output.max_tokens
    return int(output_tokens.max())


def _lognormal(law: LognormalTokens, count: int, rng: np.random.Generator) -> IntArray:
    """Rounded to whole tokens, at least 1, at most max_tokens (the engine's own cut)."""
    sigma_squared = np.log1p(law.cv**2)
    location = np.log(law.mean_tokens) - sigma_squared / 2
    draws = rng.lognormal(location, np.sqrt(sigma_squared), size=count)
    return np.clip(np.rint(draws), 1, law.max_tokens).astype(np.int64)


def _empirical(lengths: EmpiricalLengths, count: int, rng: np.random.Generator) -> LengthPair:
    prompt, output = read_lengths(Path(lengths.path), lengths.prompt_column, lengths.output_column)
    row = (rng.random(count) * len(prompt)).astype(np.int64)
    return prompt[row], output[row]


def _file_rows(workload: Workload, count: int) -> LengthPair:
    recording = workload.recording
    assert recording is not None
    table = recorded_requests(recording).slice(0, count)
    prompt, output = (
        recorded_column(table, name, recording).astype(np.int64)
        for name in ("prompt_tokens", "output_tokens")
    )
    return prompt, output


def _of_traces(traces: TraceSet | None, trace: IntArray) -> LengthPair:
    if traces is None:
        raise ScenarioError(
            "workload.lengths is 'recorded' but this profile holds no acceptance traces; use "
            "'lognormal' lengths"
        )
    return traces.prompt_tokens[trace], traces.output_tokens[trace]
