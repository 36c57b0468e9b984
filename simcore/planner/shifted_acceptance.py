"""Acceptance moved up or down: every conditional rate by one shift of its logit.

    logit a'_k = logit a_k + δ,    k = 1 .. γ

The rates are those at the cycle starts of the draft length in force, given that anything was
proposed. Survival figures are replaced. Recordings keep their requests and the differences
between them: where a_k falls, what was accepted stays so with probability a'_k / a_k; where it
rises, what was rejected is accepted with probability (a'_k − a_k) / (1 − a_k); depths behind a
recorded rejection, which nobody saw, take a'_k.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.survival import mean_emitted_tokens, survival_from_conditional
from simcore.acceptance.trace import TraceSet, walk
from simcore.errors import ScenarioError
from simcore.matching import FITTED, matching_records
from simcore.planner.case import Case
from simcore.profile.conversions import conditional_acceptance, match_probability
from simcore.profile.schema import AcceptanceRecord
from simcore.profile.store import StoredProfile

FloatArray = NDArray[np.float64]

LEAST_RATE = 1e-4  # rates of 0 and 1 have no logit
MOST_SHIFT = 20.0
NUM_BISECTIONS = 50


def shifted(case: Case, gamma: int, shift: float) -> Case:
    """The case with acceptance at γ drafts moved by `shift`, in logits; 0 moves nothing.

    Raises ScenarioError for fitted acceptance models, which hold no rates by position.
    """
    _check(case)
    if shift == 0.0:
        return case
    if case.basis.traces is not None:
        traces = _shifted_traces(case.basis.traces, gamma, shift)
        return replace(case, basis=replace(case.basis, traces=traces, _laws={}))
    stored = _shifted_records(case, gamma, shift)
    return replace(case, basis=replace(case.basis, stored=stored, _laws={}))


def conditional_rates(case: Case, gamma: int) -> FloatArray:
    """[num_domains, γ] conditional acceptance at cycle starts, given a proposal."""
    _check(case)
    traces = case.basis.traces
    if traces is not None:
        return np.array([_rates(traces, gamma, own) for own in _members(traces)])
    return np.array([_given_match(each, gamma) for each in _records(case)])


def mean_rate(rates: FloatArray, shift: float = 0.0) -> float:
    """α of rates [num_domains, γ] after a shift: accepted / tested drafts, mean over domains."""
    survival = np.cumprod(_moved(rates, shift), axis=1)
    tested = 1.0 + survival[:, :-1].sum(axis=1)
    return float((survival.sum(axis=1) / tested).mean())


def shift_to(rates: FloatArray, wanted: float) -> float:
    """The shift under which `mean_rate` is `wanted`, between 0 and 1 exclusive."""
    low, high = -MOST_SHIFT, MOST_SHIFT
    for _ in range(NUM_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if mean_rate(rates, middle) < wanted else (low, middle)
    return (low + high) / 2.0


def emitted_tokens(rates: FloatArray, shift: float = 0.0) -> float:
    """E[Y] of a cycle with a proposal, mean over domains."""
    survivals = [survival_from_conditional(each) for each in _moved(rates, shift)]
    return float(np.mean([mean_emitted_tokens(each) for each in survivals]))


def _check(case: Case) -> None:
    if case.scenario.speculation.acceptance in FITTED:
        raise ScenarioError(
            f"acceptance {case.scenario.speculation.acceptance!r} is a fit without rates by "
            "position, so it cannot be moved; use acceptance 'auto'"
        )


def _moved(rates: FloatArray, shift: float) -> FloatArray:
    if shift == 0.0:
        return rates
    inside = np.clip(rates, LEAST_RATE, 1.0 - LEAST_RATE)
    return np.asarray(1.0 / (1.0 + (1.0 - inside) / inside * np.exp(-shift)))


# --- survival figures --------------------------------------------------------------------------


def _records(case: Case) -> tuple[AcceptanceRecord, ...]:
    return matching_records(case.stored, case.scenario, case.proposer)


def _given_match(record: AcceptanceRecord, gamma: int) -> FloatArray:
    rates = conditional_acceptance(record, gamma).copy()
    rates[0] /= match_probability(record, gamma)
    return rates


def _shifted_records(case: Case, gamma: int, shift: float) -> StoredProfile:
    moved = {each.key: _moved_record(each, gamma, shift) for each in _records(case)}
    profile = case.stored.profile
    records = tuple(moved.get(each.key, each) for each in profile.acceptance)
    return replace(case.stored, profile=profile.model_copy(update={"acceptance": records}))


def _moved_record(record: AcceptanceRecord, gamma: int, shift: float) -> AcceptanceRecord:
    """The record as survival figures of this γ alone, whatever it was counted as."""
    matched = match_probability(record, gamma)
    rates = _moved(_given_match(record, gamma), shift)
    rates[0] *= matched
    return record.model_copy(
        update={
            "kind": "survival",
            "conditional_acceptance": {gamma: tuple(rates.tolist())},
            "match_probability": matched,
            "counts": {},
        }
    )


# --- recordings --------------------------------------------------------------------------------


def _members(traces: TraceSet) -> list[NDArray[np.int64]]:
    return [traces.requests_of(name) for name in traces.domain_names]


def _rates(traces: TraceSet, gamma: int, requests: NDArray[np.int64]) -> FloatArray:
    """(a_1 .. a_γ) at the cycle starts of a walk, of the depths that were proposed."""
    cycles = walk(traces, gamma, requests=requests)
    depths = np.arange(1, gamma + 1)
    tested = (cycles.accepted[:, None] >= depths - 1) & (cycles.proposed[:, None] >= depths)
    kept = tested & (cycles.accepted[:, None] >= depths)
    rates = kept.sum(axis=0) / np.maximum(tested.sum(axis=0), 1)
    return np.asarray(rates, dtype=np.float64)


def _shifted_traces(traces: TraceSet, gamma: int, shift: float) -> TraceSet:
    chances = _recorded_chances(traces)
    bounds = np.append(traces.offset, len(traces.accepted))
    row_domain = np.repeat(traces.domain, np.diff(bounds))
    for index, own in enumerate(_members(traces)):
        rates = _rates(traces, gamma, own)
        rows = row_domain == index
        chances[rows, :gamma] = _recoupled(chances[rows, :gamma], rates, _moved(rates, shift))
    return replace(traces, ratio=np.nan_to_num(chances))


def _recorded_chances(traces: TraceSet) -> FloatArray:
    """[num_rows, max_gamma] chance that each depth is accepted; NaN behind a sure rejection."""
    if traces.ratio.shape[1] > 0:
        return np.minimum(traces.ratio, 1.0)
    depths = np.arange(1, traces.max_gamma + 1)
    accepted = traces.accepted[:, None].astype(np.int64)
    known = np.where(depths <= accepted, 1.0, 0.0)
    return np.where(depths <= accepted + 1, known, np.nan)


def _recoupled(chances: FloatArray, rates: FloatArray, wanted: FloatArray) -> FloatArray:
    """Chances [num_rows, γ] with mean rates `wanted` where they had `rates`, requests in order."""
    keep = np.minimum(wanted / np.maximum(rates, LEAST_RATE), 1.0)
    turn = np.maximum(wanted - rates, 0.0) / np.maximum(1.0 - rates, LEAST_RATE)
    chances = np.where(np.isnan(chances), rates, chances)
    return np.asarray(np.clip(chances * keep + (1.0 - chances) * turn, 0.0, 1.0))
