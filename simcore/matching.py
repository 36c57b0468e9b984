"""What a scenario takes from its profile: identity check, records, acceptance model."""

import numpy as np

from simcore.acceptance.model import (
    AcceptanceModel,
    positional_from_traces,
    positional_model,
    stacked,
    trace_model,
    tree_model,
)
from simcore.acceptance.trace import TraceSet, trace_set_from_rows
from simcore.acceptance.tree import DraftTree
from simcore.errors import ScenarioError
from simcore.profile.schema import AcceptanceRecord, Contract, Sampling
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.speculation import DraftScheme


def matching_records(
    stored: StoredProfile, scenario: Scenario, proposer: str
) -> tuple[AcceptanceRecord, ...]:
    """The records of one proposer measured under the contract and sampling of their domain.

    Only the domains that the workload names, or all. Raises ScenarioError where there are none,
    unless the scenario allows a mismatch; then a domain's records under the first contract and
    sampling that it has.
    """
    profile = stored.profile
    if proposer not in profile.proposers:
        raise ScenarioError(
            f"profile {profile.name!r} has no proposer {proposer!r}; it has "
            f"{sorted(profile.proposers)}"
        )
    own = [record for record in profile.acceptance if record.proposer == proposer]
    fitting = [record for record in own if _measured_as(record) == _asked_for(scenario, record)]
    if scenario.allow_mismatch:
        fitting = _with_others(own, fitting, set(scenario.workload.domains))
    if not fitting:
        measured = sorted(
            {f"{r.contract.value} at temperature {r.sampling.temperature:g}" for r in own}
        )
        raise ScenarioError(
            f"profile {profile.name!r}, proposer {proposer!r}, was not measured under "
            f"{scenario.contract.value} with {scenario.sampling.model_dump()}; it holds "
            f"{measured or 'nothing'}: choose one of these, measure it, or set allow_mismatch"
        )
    domains = {record.domain for record in fitting}
    wanted = set(scenario.workload.domains) or domains
    if unknown := wanted - domains:
        raise ScenarioError(
            f"workload domains {sorted(unknown)}: profile {profile.name!r} measured {proposer!r} "
            f"under their contract and sampling on {sorted(domains)} only"
        )
    return tuple(record for record in fitting if record.domain in wanted)


def _with_others(
    own: list[AcceptanceRecord], fitting: list[AcceptanceRecord], wanted: set[str]
) -> list[AcceptanceRecord]:
    """The fitting records, and the first measured of every wanted domain that has none."""
    fitted = {record.domain for record in fitting}
    missing = (wanted or {record.domain for record in own if not fitting}) - fitted
    first = {r.domain: _measured_as(r) for r in reversed(own) if r.domain in missing}
    return [r for r in own if r in fitting or _measured_as(r) == first.get(r.domain)]


def _measured_as(record: AcceptanceRecord) -> tuple[Contract, Sampling]:
    return record.contract, record.sampling


def _asked_for(scenario: Scenario, record: AcceptanceRecord) -> tuple[Contract, Sampling]:
    """Contract and sampling of the record's domain; a domain may have its own."""
    own = scenario.workload.share(record.domain).sampling
    if own is None:
        return scenario.contract, scenario.sampling
    greedy = own.temperature == 0.0
    return (Contract.GREEDY_EQUALITY if greedy else Contract.EXACT_SAMPLING), own


def mismatches(stored: StoredProfile, scenario: Scenario) -> tuple[str, ...]:
    """What the scenario asks for and the profile is not; raises ScenarioError unless allowed."""
    found: list[str] = []
    target = stored.profile.identity.target
    if scenario.target is not None and scenario.target != target.name:
        found.append(f"scenario target {scenario.target!r}, profile target {target.name!r}")
    proposer = scenario.speculation.proposer
    if proposer is not None:
        for record in matching_records(stored, scenario, proposer):
            asked = _asked_for(scenario, record)
            if _measured_as(record) != asked:
                found.append(
                    f"domain {record.domain!r}: scenario {asked[0].value} "
                    f"{asked[1].model_dump()}, measured {record.contract.value} "
                    f"{record.sampling.model_dump()}"
                )
    if found and not scenario.allow_mismatch:
        raise ScenarioError(
            "; ".join(found) + "; use a profile of this target or set allow_mismatch"
        )
    return tuple(found)


def measured_gammas(records: tuple[AcceptanceRecord, ...]) -> tuple[int, ...]:
    """The draft lengths that every domain was measured at."""
    common = set(records[0].gammas())
    for record in records[1:]:
        common &= set(record.gammas())
    return tuple(sorted(common))


def load_traces(stored: StoredProfile, records: tuple[AcceptanceRecord, ...]) -> TraceSet | None:
    """The trace set of these records; None where they are survival figures."""
    traced = {record.key: record.domain for record in records if record.kind == "trace"}
    if not traced:
        return None
    longest = min(record.max_num_speculative_tokens for record in records)
    return trace_set_from_rows(stored.traces, traced, longest)


def acceptance_model(
    stored: StoredProfile,
    scenario: Scenario,
    proposer: str,
    gamma: int,
    *,
    traces: TraceSet | None = None,
) -> AcceptanceModel:
    """The model of `scenario.speculation` for one proposer and γ (0: off), every draft scheme.

    Raises ScenarioError where the profile did not measure this γ. `traces` avoids reading them
    again.
    """
    if gamma == 0:
        return _scheme_model(stored, scenario, DraftScheme(proposer, 0), traces)
    first, *others = scenario.speculation.schemes()
    own = _scheme_model(stored, scenario, DraftScheme(proposer, gamma, first.tree), traces)
    return stacked(
        [
            own,
            *(
                _scheme_model(stored, scenario, s, traces if s.proposer == proposer else None)
                for s in others
            ),
        ]
    )


def _scheme_model(
    stored: StoredProfile, scenario: Scenario, scheme: DraftScheme, traces: TraceSet | None
) -> AcceptanceModel:
    """The model of one proposer with one topology."""
    records = matching_records(stored, scenario, scheme.proposer)
    gammas = measured_gammas(records)
    if scheme.depth > 0 and scheme.depth not in gammas:
        raise ScenarioError(
            f"num_speculative_tokens {scheme.depth}: profile {stored.profile.name!r} measured "
            f"{scheme.proposer!r} at {list(gammas)} only; acceptance beyond that is not "
            "extrapolated"
        )
    traces = load_traces(stored, records) if traces is None else traces
    wanted = scenario.speculation.acceptance
    if scheme.tree is not None and wanted == "positional":
        raise ScenarioError("a draft tree is replayed by ranks; use acceptance 'trace' or 'auto'")
    if wanted == "trace" and traces is None:
        raise ScenarioError(
            f"acceptance 'trace': profile {stored.profile.name!r} holds survival figures for "
            f"{scheme.proposer!r}, no traces; use 'positional' or 'auto'"
        )
    if traces is not None:
        if scheme.tree is not None:
            return tree_model(traces, DraftTree(scheme.tree))
        replayed = wanted in ("auto", "trace") or scheme.depth == 0
        return trace_model(traces) if replayed else positional_from_traces(traces, scheme.depth)
    if scheme.tree is not None:
        raise ScenarioError(
            f"a draft tree needs the ranks of recorded tokens; profile {stored.profile.name!r} "
            f"holds survival figures for {scheme.proposer!r}"
        )
    used = scheme.depth or gammas[0]
    return positional_model(
        {r.domain: np.array(r.conditional_acceptance[used]) for r in records},
        {r.domain: r.match_probability for r in records},
    )
