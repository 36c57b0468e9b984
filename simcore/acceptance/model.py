"""Acceptance models behind one interface: arrays that the step kernel draws cycles from.

`trace` replays recorded requests; `positional` draws each depth from conditional acceptance
measured at cycle starts for exactly this γ. The result always names which one was used.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.counter_random import (
    STREAM_ACCEPTANCE,
    STREAM_MATCH,
    STREAM_STITCH,
    uniform,
)
from simcore.acceptance.survival import conditional_from_survival, survival_from_cycles
from simcore.acceptance.trace import TraceSet, walk
from simcore.by_pointer import by_pointer
from simcore.compiled import compiled, compiled_apart
from simcore.errors import ScenarioError

if TYPE_CHECKING:
    from simcore.acceptance.heterogeneous import Parameters


@by_pointer
class CycleTables(NamedTuple):
    """What the kernel reads; plain arrays, empty where the model does not use them.

    The first index of a table is the draft scheme: one proposer with one topology.
    """

    is_trace: bool
    accepted: NDArray[np.int8]  # [num_schemes, num_rows]
    proposed: NDArray[np.int8]  # [num_schemes, num_rows]
    ratio: NDArray[np.float64]  # [num_schemes, num_rows, depth or 0]
    confidence: NDArray[np.float32]  # [num_schemes, num_rows, depth or 0]
    offset: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    stratum_members: NDArray[np.int64]
    stratum_begin: NDArray[np.int64]
    stratum_end: NDArray[np.int64]
    conditional: NDArray[np.float64]  # [num_schemes, num_domains, γ], given a match
    match_probability: NDArray[np.float64]  # [num_schemes, num_domains]


@dataclass(frozen=True)
class AcceptanceModel:
    """One model for one proposer, sampling and contract, over some domains."""

    name: str
    domain_names: tuple[str, ...]
    max_gamma: int
    tables: CycleTables
    traces: TraceSet | None
    fitted: "dict[str, Parameters] | None" = None  # of `heterogeneous`, by domain
    fitted_gamma: int | None = None  # what a fitted model saw
    drafted_misses: dict[str, float] | None = None  # of `fitted`: misses that had a draft


def trace_model(traces: TraceSet) -> AcceptanceModel:
    """Replay of recorded requests; serves every γ up to `traces.max_gamma`."""
    strata = traces.strata
    confidence = traces.confidence
    if confidence is None:
        confidence = np.zeros((len(traces.accepted), 0), dtype=np.float32)
    tables = CycleTables(
        is_trace=True,
        accepted=traces.accepted[None],
        proposed=traces.proposed[None],
        ratio=traces.ratio[None],
        confidence=confidence[None],
        offset=traces.offset,
        output_tokens=traces.output_tokens,
        stratum_members=strata.members,
        stratum_begin=strata.begin,
        stratum_end=strata.end,
        conditional=np.zeros((1, len(traces.domain_names), 0)),
        match_probability=np.ones((1, len(traces.domain_names))),
    )
    return AcceptanceModel("trace", traces.domain_names, traces.max_gamma, tables, traces)


def tree_model(traces: TraceSet, accepted: NDArray[np.int8]) -> AcceptanceModel:
    """Replay of recorded requests on a tree that accepts so many drafts at each row [num_rows]."""
    chain = trace_model(traces)
    found = traces.proposed > 0  # a proposer that found nothing proposes no tree
    accepted = np.where(found, accepted, 0).astype(np.int8)
    ratio = traces.ratio
    if ratio.shape[1] > 0:
        ratio = (np.arange(traces.max_gamma) < accepted[:, None]).astype(np.float64)
    whole = np.where(found, traces.max_gamma, 0).astype(np.int8)
    tables = chain.tables._replace(accepted=accepted[None], proposed=whole[None], ratio=ratio[None])
    return replace(chain, tables=tables)


def stacked(models: list[AcceptanceModel]) -> AcceptanceModel:
    """Several draft schemes for the same requests, the first one the scenario's own.

    Raises ScenarioError where recordings are not of the same outputs, so that a request cannot
    change its proposer midway, where one is replayed and another drawn, and for `heterogeneous`.
    """
    first = models[0]
    if len(models) == 1:
        return first
    if first.fitted is not None:
        raise ScenarioError(
            "acceptance 'heterogeneous' draws each request's cycles for one proposer; a ladder to "
            "another needs acceptance 'trace', 'positional' or 'iid'"
        )
    for other in models[1:]:
        if (other.name, other.domain_names) != (first.name, first.domain_names) or not (
            np.array_equal(other.tables.output_tokens, first.tables.output_tokens)
            and np.array_equal(other.tables.offset, first.tables.offset)
        ):
            raise ScenarioError(
                "a ladder to another proposer needs both measured on the same outputs, or both by "
                "position: greedy recordings of the same prompts, of the same domains"
            )
    if any(model.tables.ratio.shape[2] for model in models):
        models = [_with_ratio(model) for model in models]
    tables: dict[str, Any] = {
        name: _stack([getattr(model.tables, name) for model in models])
        for name in (
            "accepted",
            "proposed",
            "ratio",
            "confidence",
            "conditional",
            "match_probability",
        )
    }
    return replace(first, tables=first.tables._replace(**tables))


def _with_ratio(model: AcceptanceModel) -> AcceptanceModel:
    """A deterministic proposer's recording as ratios: 1 up to what was accepted, then 0."""
    tables = model.tables
    if tables.ratio.shape[2] > 0:
        return model
    ratio = (np.arange(model.max_gamma) < tables.accepted[:, :, None]).astype(np.float64)
    return replace(model, tables=tables._replace(ratio=ratio))


def _stack(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """One behind the other along the first axis; shorter last axes are filled with zeros."""
    longest = max(part.shape[-1] for part in parts)
    padded = [
        np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, longest - part.shape[-1])]) for part in parts
    ]
    return np.concatenate(padded)


def iid_model(rates: dict[str, float], gamma: int, fitted_gamma: int) -> AcceptanceModel:
    """One α a domain for every draft, at every depth: what everybody assumes."""
    conditional = {name: np.full(gamma, rate) for name, rate in rates.items()}
    model = positional_model(conditional, dict.fromkeys(rates, 1.0))
    return replace(model, name="iid", fitted_gamma=fitted_gamma)


def heterogeneous_model(
    fitted: "dict[str, Parameters]",
    drafted_misses: dict[str, float],
    gamma: int,
    fitted_gamma: int,
) -> AcceptanceModel:
    """The latent chain of each domain; `realised` turns it into recordings of a run's requests."""
    return AcceptanceModel(
        "heterogeneous",
        tuple(fitted),
        gamma,
        trace_free_tables(),
        None,
        fitted=fitted,
        fitted_gamma=fitted_gamma,
        drafted_misses=drafted_misses,
    )


def realised(
    model: AcceptanceModel, domain: NDArray[np.int64], output_tokens: NDArray[np.int64], seed: int
) -> AcceptanceModel:
    """`heterogeneous` for these very requests: request i follows recording i."""
    from simcore.acceptance.synthetic import synthetic_traces  # noqa: PLC0415 - scipy stays out of runs that fit nothing

    assert model.fitted is not None
    assert model.drafted_misses is not None
    depth = max(model.max_gamma, 1)
    traces = synthetic_traces(
        model.fitted, model.drafted_misses, domain, output_tokens, depth, seed
    )
    drawn = trace_model(traces)
    return replace(model, tables=drawn.tables)


def positional_model(
    conditional: dict[str, NDArray[np.float64]], match_probability: dict[str, float]
) -> AcceptanceModel:
    """Independent draws by position, for exactly the γ that the rates were measured at.

    `conditional`: domain -> (a_1 .. a_γ) at cycle starts, all cycles counted, so that a_1
    includes the cycles without a match.
    """
    names = tuple(conditional)
    matrix = np.array([conditional[name] for name in names], dtype=np.float64)
    match = np.array([match_probability[name] for name in names], dtype=np.float64)
    given_match = matrix.copy()
    if matrix.shape[1]:
        given_match[:, 0] = matrix[:, 0] / match
    empty = trace_free_tables()
    tables = empty._replace(conditional=given_match[None], match_probability=match[None])
    return AcceptanceModel("positional", names, matrix.shape[1], tables, None)


def positional_from_traces(traces: TraceSet, gamma: int) -> AcceptanceModel:
    """Survival by position at the cycle starts of a walk at γ, per domain.

    A walk visits cycles that a match opened and cycles without one; the share that proposed
    anything is the match probability.
    """
    conditional: dict[str, NDArray[np.float64]] = {}
    match: dict[str, float] = {}
    for name in traces.domain_names:
        cycles = walk(traces, gamma, requests=traces.requests_of(name))
        survival = survival_from_cycles(cycles.accepted, gamma)
        conditional[name] = conditional_from_survival(survival)
        match[name] = max(float(np.mean(cycles.proposed > 0)), 1e-12)
    model = positional_model(conditional, match)
    return replace(model, traces=traces)


def trace_free_tables() -> CycleTables:
    """Tables without any trace."""
    none = np.zeros(0, dtype=np.int64)
    return CycleTables(
        is_trace=False,
        accepted=np.zeros((1, 0), dtype=np.int8),
        proposed=np.zeros((1, 0), dtype=np.int8),
        ratio=np.zeros((1, 0, 0), dtype=np.float64),
        confidence=np.zeros((1, 0, 0), dtype=np.float32),
        offset=none,
        output_tokens=none,
        stratum_members=none,
        stratum_begin=none,
        stratum_end=none,
        conditional=np.zeros((1, 0, 0)),
        match_probability=np.zeros((1, 0)),
    )


@compiled_apart
def next_trace(
    tables: CycleTables, seed: np.uint64, request: int, segment: int, current: int
) -> int:
    """Another recorded request of the same stratum, to continue a longer output with.

    Never the current one unless it stands alone in its stratum.
    """
    begin, end = tables.stratum_begin[current], tables.stratum_end[current]
    count = end - begin
    if count == 1:
        return current
    pick = int(uniform(seed, STREAM_STITCH, request, segment) * (count - 1))
    chosen = tables.stratum_members[begin + pick]
    if chosen == current:
        chosen = tables.stratum_members[end - 1]
    return int(chosen)


@compiled
def draw_cycle(
    tables: CycleTables,
    seed: np.uint64,
    request: int,
    domain: int,
    position: int,
    row: int,
    scheme: int,
    depth: int,
) -> tuple[int, int]:
    """(drafted, accepted) depths of the cycle that starts at output `position`.

    Every draft is tried under the random number of its own output position, so two γ see the
    same luck. Under sampling a recorded token v is accepted with min(1, q(v)/p(v)), which is
    P(accepted | v emitted) of token-wise rejection sampling.
    """
    if depth == 0:
        return 0, 0
    if tables.is_trace:
        drafted = min(int(tables.proposed[scheme, row]), depth)
        if tables.ratio.shape[2] == 0:
            return drafted, min(int(tables.accepted[scheme, row]), depth)
        return drafted, _num_heads(tables.ratio[scheme, row, :drafted], seed, request, position)
    if uniform(seed, STREAM_MATCH, request, position) >= tables.match_probability[scheme, domain]:
        return 0, 0
    rates = tables.conditional[scheme, domain, :depth]
    return depth, _num_heads(rates, seed, request, position)


@compiled
def _num_heads(rates: NDArray[np.float64], seed: np.uint64, request: int, position: int) -> int:
    """How many drafts pass before the first coin at or above its rate."""
    for depth in range(len(rates)):
        if uniform(seed, STREAM_ACCEPTANCE, request, position + depth) >= rates[depth]:
            return depth
    return len(rates)
