"""What a scenario takes from its profile: identity check, records, acceptance model."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.model import (
    AcceptanceModel,
    heterogeneous_model,
    iid_model,
    positional_from_traces,
    positional_model,
    stacked,
    trace_model,
    tree_model,
)
from simcore.acceptance.topology.dynamic_tree import DynamicShape, depths_from_orders
from simcore.acceptance.trace import TraceSet, trace_set_from_rows
from simcore.acceptance.tree import DraftTree, accepted_depth
from simcore.errors import ScenarioError, TreeError
from simcore.profile.conversions import (
    conditional_acceptance,
    convertible_gammas,
    match_probability,
    refusal,
)
from simcore.profile.schema import AcceptanceRecord, Contract, Sampling
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.speculation import DraftScheme
from simcore.tree_recording import TreeRecording

FITTED = ("iid", "heterogeneous")  # acceptance models that carry over to other draft lengths


def matching_records(
    stored: StoredProfile, scenario: Scenario, proposer: str
) -> tuple[AcceptanceRecord, ...]:
    """The records of one proposer measured under the contract and sampling of their domain.

    Only the domains that the workload names, or all. Raises ScenarioError where there are none,
    unless the scenario allows a mismatch; then a domain's records under the first contract and
    sampling that it has.
    """
    fitting = _fitting_records(stored, scenario, proposer)
    domains = {record.domain for record in fitting}
    wanted = set(scenario.workload.domains) or domains
    if unknown := wanted - domains:
        raise ScenarioError(
            f"workload domains {sorted(unknown)}: profile {stored.profile.name!r} measured "
            f"{proposer!r} under the contract and sampling asked for on {sorted(domains)} only; "
            "choose one of these, another sampling, measure it, or set allow_mismatch"
        )
    chosen = tuple(record for record in fitting if record.domain in wanted)
    _check_usable(stored, proposer, chosen)
    return chosen


def domains_by_sort(
    stored: StoredProfile, scenario: Scenario, proposer: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The domains with traces and those with counts: a workload names of one sort only.

    Raises ScenarioError where nothing was measured under its contract and sampling.
    """
    fitting = _fitting_records(stored, scenario, proposer)
    traced = tuple(sorted({r.domain for r in fitting if r.kind == "trace"}))
    return traced, tuple(sorted({r.domain for r in fitting} - set(traced)))


def _fitting_records(
    stored: StoredProfile, scenario: Scenario, proposer: str
) -> list[AcceptanceRecord]:
    """Of every domain, in the order of the profile."""
    profile = stored.profile
    if proposer not in profile.proposers:
        raise ScenarioError(
            f"profile {profile.name!r} has no proposer {proposer!r}; it has "
            f"{sorted(profile.proposers)}"
        )
    own = [record for record in profile.acceptance if record.proposer == proposer]
    fitting = [record for record in own if measured_as(record) == asked_for(scenario, record)]
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
    return fitting


def fitting_proposers(stored: StoredProfile, scenario: Scenario) -> tuple[str, ...]:
    """Those measured under the scenario's contract and sampling on its domains, in their order.

    Raises ScenarioError where there are none: what is wrong with the first.
    """
    found = []
    for name in stored.profile.proposers:
        try:
            matching_records(stored, scenario, name)
        except ScenarioError:
            continue
        found.append(name)
    if not found:
        matching_records(stored, scenario, next(iter(stored.profile.proposers)))
    return tuple(found)


def _check_usable(
    stored: StoredProfile, proposer: str, records: tuple[AcceptanceRecord, ...]
) -> None:
    """Refuse records that nothing can be planned with, and traces mixed with counts."""
    for record in records:
        if not convertible_gammas(record):
            reason = refusal(record, record.gammas()[-1])
            raise ScenarioError(
                f"profile {stored.profile.name!r}, proposer {proposer!r}, domain "
                f"{record.domain!r}: {reason}"
            )
    traced = sorted(record.domain for record in records if record.kind == "trace")
    counted = sorted(record.domain for record in records if record.kind != "trace")
    if traced and counted:
        raise ScenarioError(
            f"profile {stored.profile.name!r}, proposer {proposer!r}: domains {traced} are traces "
            f"and {counted} counts; expected one sort: name the domains in workload.domains"
        )


def _with_others(
    own: list[AcceptanceRecord], fitting: list[AcceptanceRecord], wanted: set[str]
) -> list[AcceptanceRecord]:
    """The fitting records, and the first measured of every wanted domain that has none."""
    fitted = {record.domain for record in fitting}
    missing = (wanted or {record.domain for record in own if not fitting}) - fitted
    first = {r.domain: measured_as(r) for r in reversed(own) if r.domain in missing}
    return [r for r in own if r in fitting or measured_as(r) == first.get(r.domain)]


def measured_as(record: AcceptanceRecord) -> tuple[Contract, Sampling]:
    return record.contract, record.sampling


def asked_for(scenario: Scenario, record: AcceptanceRecord) -> tuple[Contract, Sampling]:
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
            asked = asked_for(scenario, record)
            if measured_as(record) != asked:
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
    common = set(convertible_gammas(records[0]))
    for record in records[1:]:
        common &= set(convertible_gammas(record))
    return tuple(sorted(common))


def usable_gammas(stored: StoredProfile, scenario: Scenario, proposer: str) -> tuple[int, ...]:
    """The draft lengths that the scenario's acceptance model answers for, ascending.

    Those measured; under a fitted model also those as far from its fit as it is trusted.
    """
    records = matching_records(stored, scenario, proposer)
    if scenario.speculation.acceptance not in FITTED:
        return measured_gammas(records)
    from simcore.fitted_acceptance import (  # noqa: PLC0415 - scipy stays out of runs without a fit
        furthest_gamma,
    )

    return tuple(range(1, min(furthest_gamma(record) for record in records) + 1))


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
    own = _scheme_model(stored, scenario, first._replace(proposer=proposer, depth=gamma), traces)
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
    if scenario.speculation.acceptance in FITTED:
        model = _fitted_model(stored, scenario, scheme, records)
        # Recorded lengths are those of the recorded requests all the same.
        return replace(model, traces=load_traces(stored, records) if traces is None else traces)
    gammas = measured_gammas(records)
    if scheme.depth > 0 and scheme.depth not in gammas:
        raise ScenarioError(
            f"num_speculative_tokens {scheme.depth}: profile {stored.profile.name!r} measured "
            f"{scheme.proposer!r} at {list(gammas)} only; acceptance beyond that is not "
            "extrapolated"
        )
    traces = load_traces(stored, records) if traces is None else traces
    wanted = scenario.speculation.acceptance
    if scheme.is_tree and wanted == "positional":
        raise ScenarioError("a draft tree is replayed by ranks; use acceptance 'trace' or 'auto'")
    if wanted == "trace" and traces is None:
        raise ScenarioError(
            f"acceptance 'trace': profile {stored.profile.name!r} holds survival figures for "
            f"{scheme.proposer!r}, no traces; use 'positional' or 'auto'"
        )
    if traces is not None:
        if scheme.is_tree:
            return tree_model(traces, _accepted_on_tree(stored, scheme, records, traces))
        replayed = wanted in ("auto", "trace") or scheme.depth == 0
        return trace_model(traces) if replayed else positional_from_traces(traces, scheme.depth)
    if scheme.is_tree:
        raise ScenarioError(
            f"a draft tree needs the ranks of recorded tokens; profile {stored.profile.name!r} "
            f"holds survival figures for {scheme.proposer!r}"
        )
    used = scheme.depth or gammas[0]
    return positional_model(
        {r.domain: np.array(conditional_acceptance(r, used)) for r in records},
        {r.domain: match_probability(r, used) for r in records},
    )


def _accepted_on_tree(
    stored: StoredProfile,
    scheme: DraftScheme,
    records: tuple[AcceptanceRecord, ...],
    traces: TraceSet,
) -> NDArray[np.int8]:
    """[num_rows] drafts that the scheme's tree accepts of each recorded cycle start.

    Raises TreeError, with the reason, where the recording does not decide it.
    """
    recording = TreeRecording(stored, scheme.proposer, records, traces)
    recording.check_depth(scheme.depth)
    if scheme.dynamic is not None:
        shape = DynamicShape(scheme.dynamic.topk, scheme.depth, scheme.dynamic.num_draft_tokens)
        order = recording.dynamic_order(shape.topk, shape.depth)
        if order is None:
            raise TreeError(
                f"a dynamic tree of topk {shape.topk} and depth {shape.depth} is decided by the "
                "order of all proposed nodes (column 'dynamic_order'), which profile "
                f"{stored.profile.name!r} does not hold for that shape; use a static tree, or "
                "`specplan tree dynamic` for bounds"
            )
        return depths_from_orders(order[:, : shape.depth], shape.num_nodes).astype(np.int8)
    assert scheme.tree is not None
    tree = DraftTree(scheme.tree)
    children = recording.children(scheme.rule, tree.width)
    return accepted_depth(tree.children(), children[:, : tree.depth])


def _fitted_model(
    stored: StoredProfile,
    scenario: Scenario,
    scheme: DraftScheme,
    records: tuple[AcceptanceRecord, ...],
) -> AcceptanceModel:
    """`iid` or `heterogeneous`, at draft lengths that need not have been measured."""
    from simcore.fitted_acceptance import (  # noqa: PLC0415 - scipy stays out of runs without a fit
        drafted_misses,
        fitted_parameters,
        gamma_of_fit,
        iid_rate,
    )

    wanted = scenario.speculation.acceptance
    if scheme.is_tree:
        raise ScenarioError(
            f"acceptance {wanted!r} knows chains only; use 'trace' or 'auto' for a draft tree"
        )
    fit_gamma = {record.domain: gamma_of_fit(record, scheme.depth) for record in records}
    lowest = min(fit_gamma.values())
    if wanted == "iid":
        rates = {r.domain: iid_rate(stored, r, fit_gamma[r.domain]) for r in records}
        return iid_model(rates, max(scheme.depth, 1), lowest)
    fitted = {r.domain: fitted_parameters(stored, r, fit_gamma[r.domain]) for r in records}
    misses = {r.domain: drafted_misses(stored, r, fit_gamma[r.domain]) for r in records}
    return heterogeneous_model(fitted, misses, scheme.depth, lowest)
