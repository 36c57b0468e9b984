"""Acceptance models that a profile's records are fitted with: `iid` and `heterogeneous`.

They carry over to draft lengths that were not measured, `heterogeneous` with the selection effect
and the spread between requests (docs/background/acceptance.md), `iid` as the assumption that
everybody makes.
"""

from typing import TYPE_CHECKING

import numpy as np

from simcore.acceptance.evidence import (
    Evidence,
    evidence_from_counters,
    evidence_from_cycles,
    evidence_from_histograms,
)
from simcore.acceptance.heterogeneous import Parameters
from simcore.acceptance.heterogeneous_fit import fit_heterogeneous
from simcore.acceptance.lists import RUNAWAY_TOKENS, AcceptanceLists, CycleSample, IntArray
from simcore.acceptance.prediction import fit_iid
from simcore.acceptance.survival import survival_from_conditional
from simcore.acceptance.trace import trace_set_from_rows
from simcore.errors import ScenarioError
from simcore.profile.conversions import (
    conditional_acceptance,
    convertible_gammas,
    match_probability,
)
from simcore.profile.schema import AcceptanceRecord
from simcore.profile.store import StoredProfile

if TYPE_CHECKING:
    import pandas as pd

FURTHEST = (
    3  # times the γ of the fit; the fit is checked from 3 to 7 (docs/background/acceptance.md)
)
GAMMA_OF_FIT = 3  # where any may be chosen
FIRST_START = 1  # prefill emits position 0

_fits: dict[tuple[str, int, int], Parameters] = {}


def gamma_of_fit(record: AcceptanceRecord, depth: int) -> int:
    """The recorded draft length that a model for drafts of `depth` is fitted at.

    Raises ScenarioError where it lies too far away.
    """
    known = convertible_gammas(record)
    if record.kind == "trace":
        chosen = min(GAMMA_OF_FIT, max(known))
    else:
        chosen = depth if depth in known else max(known)
    furthest = furthest_gamma(record)
    if depth > furthest:
        raise ScenarioError(
            f"num_speculative_tokens {depth}: acceptance on {record.domain!r} is fitted at "
            f"{chosen}, and the model is not trusted beyond {furthest}; measure longer drafts"
        )
    return chosen


def furthest_gamma(record: AcceptanceRecord) -> int:
    """The longest draft that a model fitted to the record is trusted for."""
    known = convertible_gammas(record)
    fitted = min(GAMMA_OF_FIT, max(known)) if record.kind == "trace" else max(known)
    return max(FURTHEST * fitted, *known)


def fitted_parameters(stored: StoredProfile, record: AcceptanceRecord, gamma: int) -> Parameters:
    """`heterogeneous`, fitted to one record at one γ; fitted once in a process.

    Raises ScenarioError where the record holds too little.
    """
    key = (stored.content_hash, record.key, gamma)
    if key not in _fits:
        _fits[key] = fit_heterogeneous(evidence_of(stored, record, gamma)).parameters
    return _fits[key]


def iid_rate(stored: StoredProfile, record: AcceptanceRecord, gamma: int) -> float:
    """α = accepted / tested at the cycle starts of one γ."""
    if record.kind == "trace":
        return float(fit_iid(_walked(stored, record, gamma)).conditional[0])
    reached = survival_from_conditional(conditional_acceptance(record, gamma))
    tested = 1.0 + float(reached[:-1].sum())
    return float(reached.sum()) / tested


def drafted_misses(stored: StoredProfile, record: AcceptanceRecord, gamma: int) -> float:
    """Of the cycles at γ that accepted nothing, the share that had a draft; the rest found none."""
    if record.kind == "trace":
        sample = _walked(stored, record, gamma)
        missed = (sample.accepted == 0) & (sample.testable > 0)
        return float(np.mean(sample.offered[missed] > 0)) if missed.any() else 1.0
    first = float(conditional_acceptance(record, gamma)[0])
    if first >= 1.0:
        return 1.0
    return (match_probability(record, gamma) - first) / (1.0 - first)


def evidence_of(stored: StoredProfile, record: AcceptanceRecord, gamma: int) -> Evidence:
    """What a record says of acceptance at one γ, request by request where it knows them."""
    if record.kind == "trace":
        return evidence_from_cycles(_walked(stored, record, gamma))
    if record.kind == "request_counters":
        requests = _requests(stored, record, gamma)
        found = _in_order(requests, record, gamma) or _single_cycles(requests, record, gamma)
        if found is not None:
            return found
    cycles = _num_cycles(record, gamma)
    reached = survival_from_conditional(conditional_acceptance(record, gamma))
    return evidence_from_counters(cycles, np.rint(cycles * np.asarray(reached)).astype(np.int64))


def _walked(stored: StoredProfile, record: AcceptanceRecord, gamma: int) -> CycleSample:
    longest = record.max_num_speculative_tokens
    traces = trace_set_from_rows(stored.traces, {record.key: record.domain}, longest)
    return AcceptanceLists.of_traces(traces).cycles(gamma, start=FIRST_START)


def _requests(stored: StoredProfile, record: AcceptanceRecord, gamma: int) -> "pd.DataFrame":
    frame: pd.DataFrame = stored.requests.to_pandas()
    chosen = (frame["record"] == record.key) & (frame["num_speculative_tokens"] == gamma)
    return frame.loc[chosen]


def _in_order(requests: "pd.DataFrame", record: AcceptanceRecord, gamma: int) -> Evidence | None:
    """Where every cycle is listed; engines leave out those that drafted nothing."""
    listed = requests["cycle_accepted"]
    if listed.isna().any() or sum(map(len, listed)) != _num_cycles(record, gamma):
        return None
    accepted = tuple(np.asarray(each, dtype=np.int64) for each in listed)
    tokens = np.array([len(each) + int(each.sum()) for each in accepted])
    asked = np.full(len(accepted), gamma)
    return evidence_from_cycles(
        AcceptanceLists(accepted, "cycle", tokens, gamma=asked).cycles(gamma)
    )


def _single_cycles(
    requests: "pd.DataFrame", record: AcceptanceRecord, gamma: int
) -> Evidence | None:
    """From each request's histogram; None where one has none, or does not tell its cycles."""
    listed = requests["accepted_lengths"]
    if listed.isna().any() or any(len(each) != gamma + 1 for each in listed):
        return None
    histograms = np.array([np.asarray(each) for each in listed], dtype=np.int64)
    undrafted = _undrafted(requests, histograms.sum(axis=1), _num_cycles(record, gamma))
    if undrafted is None:
        return None
    histograms[:, 0] += undrafted  # a cycle that drafted nothing accepted nothing
    tokens = histograms @ np.arange(1, gamma + 2)
    return evidence_from_histograms(histograms, runaway=tokens >= RUNAWAY_TOKENS)


def _undrafted(requests: "pd.DataFrame", drafts: IntArray, num_cycles: int) -> IntArray | None:
    """[num_requests] cycles without a draft, which no histogram counts; they sum to the record's.

    An engine's output holds the token that prefill emits, lists of cycles do not.
    """
    if num_cycles == int(drafts.sum()):
        return np.zeros_like(drafts)
    if requests["output_tokens"].isna().any():
        return None
    tokens = (requests["output_tokens"] - requests["num_accepted_tokens"]).to_numpy(np.int64)
    for prefill_tokens in (1, 0):
        undrafted = np.maximum(tokens - prefill_tokens - drafts, 0)
        if int((drafts + undrafted).sum()) == num_cycles:
            return np.asarray(undrafted)
    return None


def _num_cycles(record: AcceptanceRecord, gamma: int) -> int:
    found = record.counts[gamma].num_cycles if record.counts else record.num_cycles.get(gamma)
    if found is None and record.counts:
        found = record.counts[gamma].num_drafts
    if not found:
        raise ScenarioError(
            f"acceptance 'heterogeneous': the record of {record.domain!r} states rates and no "
            "number of cycles, so nothing says how sure they are; use 'positional', or measure "
            "counts"
        )
    return int(found)
