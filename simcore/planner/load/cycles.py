"""How many decode cycles the requests of a workload take at one draft length.

A request is a renewal process over its output: with P_p(y) the chance that a cycle which starts
at output position p emits y tokens, position p starts a cycle with probability

    u(1) = 1,    u(p) = Σ_y u(p − y) · P_{p − y}(y),

and an output of L tokens takes Σ_{p = 1}^{L − 1} u(p) cycles on average (prefill emits token 0).
Recorded requests give P_p by position, so that a slow request keeps its own, larger number:
cycles are averaged over requests, never tokens a cycle. Where only survival by position is known P
is the same everywhere and the sum has a closed form: (L − 1 + E[Y(Y − 1)] / 2E[Y]) / E[Y].
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.model import CycleTables
from simcore.workload.sampling import IntArray, RequestBatch

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class CycleLaw:
    """Cycles of sampled requests at one draft length, and what a cycle drafts on average."""

    cycles: FloatArray  # [num_requests] expected decode cycles of each
    variances: FloatArray  # [num_requests] of that number, given the request
    drafted_depth: float  # drafts of a chain that a cycle proposes; less than γ where lookup fails
    drafting_share: float  # of cycles that propose anything

    @cached_property
    def mean_cycles(self) -> float:
        """E[C]: cycles of a request."""
        return float(self.cycles.mean())


def plain_cycles(output_tokens: IntArray) -> CycleLaw:
    """Without drafts every cycle emits one token."""
    cycles = np.maximum(output_tokens - 1, 0).astype(np.float64)
    return CycleLaw(cycles, np.zeros(len(cycles)), 0.0, 0.0)


def speculative_cycles(tables: CycleTables, depth: int, requests: RequestBatch) -> CycleLaw:
    """The law of drafts `depth` deep (at least 1), by replay or by position."""
    if tables.is_trace:
        return _replayed(tables, depth, requests)
    return _by_position(tables, depth, requests)


def mixed_with_plain(law: CycleLaw, output_tokens: IntArray, plain_fraction: float) -> CycleLaw:
    """The same requests, every so-manieth of which may not speculate."""
    if plain_fraction == 0.0:
        return law
    plain = plain_cycles(output_tokens)
    # A low-discrepancy choice: any share of any part of the sample, without noise.
    chosen = (np.arange(len(law.cycles)) * 0.6180339887498949) % 1.0 < plain_fraction
    cycles = np.where(chosen, plain.cycles, law.cycles)
    speculating = float(law.cycles[~chosen].sum() / max(cycles.sum(), 1e-300))
    return CycleLaw(
        cycles,
        np.where(chosen, 0.0, law.variances),
        law.drafted_depth * speculating,
        law.drafting_share * speculating,
    )


def _by_position(tables: CycleTables, depth: int, requests: RequestBatch) -> CycleLaw:
    """Every cycle of a domain alike: a renewal process with one law of gaps."""
    match = tables.match_probability[0]
    reach = np.cumprod(tables.conditional[0, :, :depth], axis=1) * match[:, None]
    survival = np.hstack([np.ones((len(reach), 1)), reach, np.zeros((len(reach), 1))])
    emitted = survival[:, :-1] - survival[:, 1:]  # [num_domains, γ + 1] P(Y = 1 + index)
    tokens = np.arange(1, depth + 2)
    mean = emitted @ tokens
    square = emitted @ tokens**2
    overshoot = (square - mean) / (2.0 * mean)
    left = np.maximum(requests.output_tokens - 1, 0).astype(np.float64)
    own = requests.domain
    cycles = np.where(left > 0, (left + overshoot[own]) / mean[own], 0.0)
    cycles = np.minimum(np.maximum(cycles, left / (depth + 1)), left)
    weights = np.bincount(own, weights=cycles, minlength=len(mean))
    share = float(weights @ match / max(weights.sum(), 1e-300))
    variances = left * ((square - mean**2) / mean**3)[own]
    return CycleLaw(cycles, variances, depth * share, share)


def _replayed(tables: CycleTables, depth: int, requests: RequestBatch) -> CycleLaw:
    """Every recorded request by its own starts; longer outputs go on at their stratum's rate."""
    drafted = np.minimum(tables.proposed[0], depth).astype(np.float64)
    emitted = _emission_law(tables, depth, drafted)
    counts = _cumulated(tables, emitted, drafted)  # [3, num_traces, longest + 1]
    length = tables.output_tokens
    whole = counts[:, np.arange(len(length)), length]
    in_stratum = np.cumsum(np.pad(whole[:, tables.stratum_members], ((0, 0), (1, 0))), axis=1)
    tokens = np.cumsum(np.pad(np.maximum(length[tables.stratum_members] - 1, 0), (1, 0)))
    begin, end = tables.stratum_begin, tables.stratum_end
    per_token = (in_stratum[:, end] - in_stratum[:, begin]) / np.maximum(
        tokens[end] - tokens[begin], 1
    )
    trace, wanted = requests.trace, requests.output_tokens
    inside = np.minimum(wanted, length[trace])
    found = counts[:, trace, inside] + per_token[:, trace] * (wanted - inside)
    cycles, drafts, drafting = found
    total = max(float(cycles.sum()), 1e-300)
    return CycleLaw(
        cycles,
        np.zeros(len(cycles)),
        float(drafts.sum()) / total,
        float(drafting.sum()) / total,
    )


def _emission_law(tables: CycleTables, depth: int, drafted: FloatArray) -> FloatArray:
    """[num_rows, depth + 1]: P(a cycle that starts at the row emits 1 + index tokens)."""
    depths = np.arange(1, depth + 1)
    if tables.ratio.shape[2] == 0:
        reach = (tables.accepted[0][:, None] >= depths).astype(np.float64)
    else:
        reach = np.cumprod(np.minimum(tables.ratio[0][:, :depth], 1.0), axis=1)
        reach = reach * (depths <= drafted[:, None])
    survival = np.hstack([np.ones((len(reach), 1)), reach, np.zeros((len(reach), 1))])
    return np.asarray(survival[:, :-1] - survival[:, 1:])


def _cumulated(tables: CycleTables, emitted: FloatArray, drafted: FloatArray) -> FloatArray:
    """[3, num_traces, longest + 1] expected cycles, drafts, drafting cycles before a position."""
    length, depth = tables.output_tokens, emitted.shape[1] - 1
    longest = int(length.max())
    trace = np.repeat(np.arange(len(length)), length)
    position = np.arange(len(trace)) - np.repeat(np.cumsum(length) - length, length)
    row = np.repeat(tables.offset, length) + position
    law = np.zeros((len(length), longest, depth + 1))
    law[trace, position] = emitted[row]
    drafts = np.zeros((len(length), longest))
    drafts[trace, position] = drafted[row]
    starts = np.zeros((len(length), longest + depth + 2))
    starts[:, 1] = 1.0
    for at in range(1, longest):
        starts[:, at + 1 : at + depth + 2] += starts[:, at, None] * law[:, at]
    starts = starts[:, :longest]
    counts = np.zeros((3, len(length), longest + 1))
    np.cumsum(starts, axis=1, out=counts[0, :, 1:])
    np.cumsum(starts * drafts, axis=1, out=counts[1, :, 1:])
    np.cumsum(starts * (drafts > 0.0), axis=1, out=counts[2, :, 1:])
    return counts
