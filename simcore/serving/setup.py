"""From a scenario and its profile to a service that has not begun."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.model import AcceptanceModel, CycleTables, realised
from simcore.acceptance.trace import TraceSet, walk
from simcore.cost.price import LawTables, law_tables
from simcore.cost.regime import check_regimes
from simcore.engines import RULES, sglang_step_slots
from simcore.errors import InfeasibleError, ScenarioError
from simcore.matching import (
    acceptance_model,
    fitting_proposers,
    load_traces,
    matching_records,
    mismatches,
)
from simcore.profile.schema import OWN_MODEL_KINDS, Proposer
from simcore.profile.store import StoredProfile
from simcore.records import Record, Records, new_record
from simcore.scenario import Deployment, Scenario
from simcore.serving.memory import KVBudget, kv_budget
from simcore.serving.one_step import plan_fault
from simcore.serving.policy_tables import PolicyTables, policy_tables
from simcore.serving.prefix_cache import HEAD
from simcore.serving.service import new_step_records
from simcore.serving.state import (
    BY_LOAD,
    BY_SESSION,
    CHANGE_DTYPE,
    CURSOR_DTYPE,
    FAULT_DTYPE,
    IN_TURN,
    LIMITS_DTYPE,
    MODE_DTYPE,
    NONE,
    NUM_GAP_BINS,
    PENDING,
    PREFIX_DTYPE,
    QUEUE_DTYPE,
    REQUEST_DTYPE,
    State,
    new_replicas,
)
from simcore.speculation import DraftMode, Speculation
from simcore.workload.lengths import declared_max_tokens
from simcore.workload.prefixes import Prefixes, no_prefixes, shared_prefixes
from simcore.workload.sampling import Draw, IntArray, RequestBatch, sample_requests

CHANGES_PER_CHUNK = 1000
NO_LIMIT = 1 << 40
MAX_CACHE_BYTES = 4 << 30
ROUTING = {
    "round_robin": IN_TURN,
    "least_outstanding": BY_LOAD,
    "session_affinity": BY_SESSION,
}
PLAIN_STREAM = 5  # of the seed; the workload's own streams are SeedSequence children


@dataclass(frozen=True)
class Variation:
    """How one replication departs from the scenario, to carry the profile's own uncertainty."""

    pools: list[IntArray] | None = None  # recorded requests to draw from, per domain
    speculative_cost_factor: float = 1.0


@dataclass(frozen=True)
class Prepared:
    """A service that has not begun, and what it was made from."""

    state: State
    model: AcceptanceModel
    budget: KVBudget
    mismatches: tuple[str, ...]


@dataclass(frozen=True)
class Parts:
    """What a service is assembled from beside its scenario: requests, memory, modes, numbers."""

    batch: RequestBatch
    prefixes: Prefixes
    budget: KVBudget
    domain_names: tuple[str, ...]
    modes: Records  # MODE_DTYPE
    proposer_kind: str | None  # profile.schema.Proposer.kind of the loaded one; None: none
    cycles: CycleTables
    law: LawTables
    policy: PolicyTables


def new_state(
    scenario: Scenario,
    stored: StoredProfile,
    *,
    traces: TraceSet | None = None,
    variation: Variation | None = None,
    draw: Draw = sample_requests,
) -> Prepared:
    """Check the scenario against its profile, draw its requests, set up its service.

    With γ = 0 no proposer is loaded: its weights, KV and cost are those of plain decoding. The
    proposer named, or the first, still says which recorded requests the workload follows.
    """
    found = mismatches(stored, scenario)
    check_limits(scenario)
    variation = variation or Variation()
    deployment, gamma = scenario.deployment, scenario.speculation.num_speculative_tokens
    check_regimes(
        stored.profile.cost,
        max_num_seqs=deployment.max_num_seqs,
        max_num_batched_tokens=deployment.max_num_batched_tokens,
    )
    reference = scenario.speculation.proposer or first_fitting(stored, scenario)
    if traces is None:
        traces = load_traces(stored, matching_records(stored, scenario, reference))
    model = acceptance_model(stored, scenario, reference, gamma, traces=traces)
    _check_policy(scenario, model)
    loaded = reference if gamma > 0 else None
    budget = kv_budget(stored.profile, deployment, scenario.speculation)
    batch = draw(
        scenario.workload, model.domain_names, model.traces, scenario.seed, pools=variation.pools
    )
    if model.fitted is not None and gamma > 0:
        model = realised(model, batch.domain, batch.output_tokens, scenario.seed)
        batch = replace(batch, trace=np.arange(len(batch.trace)))
    drafts = stored.profile.proposers
    proposer = scenario.speculation.proposer
    kind = drafts[proposer].kind if gamma > 0 and proposer is not None else None
    parts = Parts(
        batch=batch,
        prefixes=_prefixes(scenario, batch, budget),
        budget=budget,
        domain_names=model.domain_names,
        modes=draft_modes(scenario.speculation, drafts),
        proposer_kind=kind,
        cycles=model.tables,
        law=law_tables(
            stored.profile.cost,
            loaded,
            speculative_factor=variation.speculative_cost_factor,
            others=tuple(s.proposer for s in scenario.speculation.schemes()[1:]),
        ),
        policy=policy_tables(scenario.speculation, *_expectations(scenario, model)),
    )
    return Prepared(assembled(scenario, parts), model, budget, found)


def assembled(scenario: Scenario, parts: Parts) -> State:
    """A service that has not begun; of the scenario's workload only its clients' manners count."""
    deployment, batch, modes = scenario.deployment, parts.batch, parts.modes
    deepest = int(modes["depth"].max())
    count, replicas, budget = len(batch.arrival_s), deployment.replicas, parts.budget
    state = State(
        requests=_request_records(batch, parts.prefixes, scenario, parts.domain_names),
        replicas=new_replicas(
            replicas, budget.total_blocks, budget.draft_blocks, _initial_mode(scenario)
        ),
        running=np.zeros((replicas, deployment.max_num_seqs), dtype=np.int64),
        queues=_empty_queues(scenario),
        arrived=np.zeros(count, dtype=np.int64),
        due=np.zeros(count - batch.turns.num_open, dtype=np.int64),
        steps=new_step_records(replicas),
        changes=np.zeros(CHANGES_PER_CHUNK + 2 * replicas, dtype=CHANGE_DTYPE),
        modes=modes,
        faults=_listed_faults(deployment),
        prefix_runs=parts.prefixes.runs,
        prefixes=_empty_cache(replicas, parts.prefixes, budget.total_blocks),
        gate_window=np.zeros((replicas, int(parts.policy.rule.window_steps), 2), dtype=np.int64),
        survivals=np.zeros(deployment.max_num_seqs * deepest),
        gap_counts=np.zeros(NUM_GAP_BINS, dtype=np.int64),
        accepted_histogram=np.zeros((count, deepest + 1), dtype=np.int32),
        cursor=np.zeros(1, dtype=CURSOR_DTYPE).view(np.recarray),
        limits=_limits(scenario, parts),
        law=parts.law,
        cycles=parts.cycles,
        policy=parts.policy,
        seed=np.uint64(scenario.seed),
    )
    if can_fail(deployment):
        for index in range(replicas):
            plan_fault(state, index, 0.0)
    return state


def can_fail(deployment: Deployment) -> bool:
    """Whether any replica ever fails."""
    failures = deployment.failures
    return bool(failures.outages) or failures.mean_time_between_s is not None


def draft_modes(speculation: Speculation, drafts: Mapping[str, Proposer]) -> Records:
    """The draft modes of a scenario as rows of MODE_DTYPE; `drafts` by name."""
    modes = speculation.modes()
    rows = np.zeros(len(modes), dtype=MODE_DTYPE)
    for name in DraftMode._fields:
        rows[name] = [getattr(mode, name) for mode in modes]
    proposers = [speculation.schemes()[mode.scheme].proposer for mode in modes]
    rows["is_own"] = [name == proposers[0] for name in proposers]
    rows["writes_kv"] = [n in drafts and drafts[n].kv_bytes_per_token > 0 for n in proposers]
    return rows


def _initial_mode(scenario: Scenario) -> int:
    """The longest draft that the policy may choose of the scenario's own."""
    return max(scenario.speculation.draft_lengths())


def _priorities(scenario: Scenario, domain_names: tuple[str, ...]) -> NDArray[np.int64]:
    """Class of each domain, the most urgent 0; one class for all under first come first served."""
    if scenario.deployment.scheduling == "fcfs":
        return np.zeros(len(domain_names), dtype=np.int64)
    asked = [scenario.workload.share(name).priority for name in domain_names]
    return np.unique(asked, return_inverse=True)[1].astype(np.int64)


def _empty_queues(scenario: Scenario) -> Records:
    names = tuple(scenario.workload.domains) or ("any",)
    num_levels = int(_priorities(scenario, names).max()) + 1
    queues = np.zeros((scenario.deployment.replicas, num_levels), dtype=QUEUE_DTYPE)
    queues["head"] = queues["tail"] = NONE
    return queues


def _listed_faults(deployment: Deployment) -> Records:
    outages = sorted(deployment.failures.outages, key=lambda outage: outage.at_s)
    rows = [(o.replica, o.at_s, o.at_s + o.for_s) for o in outages]
    return np.array(rows, dtype=FAULT_DTYPE)


def _empty_cache(num_replicas: int, prefixes: Prefixes, total_blocks: int) -> Records:
    num_entries = 1 + prefixes.num_contents
    if num_replicas * num_entries * PREFIX_DTYPE.itemsize > MAX_CACHE_BYTES:
        raise ScenarioError(
            f"the prefix cache would keep track of {num_entries} different blocks on each of "
            f"{num_replicas} replicas; use a larger block_size, fewer requests, or set "
            "prefix_caching to false"
        )
    entries = np.zeros((num_replicas, num_entries), dtype=PREFIX_DTYPE)
    entries["gap"][:, HEAD] = total_blocks
    return entries


def _prefixes(scenario: Scenario, batch: RequestBatch, budget: KVBudget) -> Prefixes:
    """What requests share, where this engine keeps it."""
    deployment = scenario.deployment
    # A seat of its own (llama.cpp) has its own KV: nothing of it is another's.
    if not deployment.prefix_caching or RULES[deployment.preset].has_fixed_slots:
        return no_prefixes(len(batch.arrival_s))
    prefixes = shared_prefixes(
        scenario.workload,
        deployment.block_size,
        prompt_tokens=batch.prompt_tokens,
        output_tokens=batch.output_tokens,
        session=batch.turns.session,
        group=batch.group,
        group_tokens=batch.group_tokens,
        most_blocks=budget.total_blocks,
    )
    if not prefixes.is_empty and budget.draft_blocks > 0 and not budget.pools_are_alike:
        raise ScenarioError(
            "a prefix is found again only in both pools, whose blocks must stand for the same "
            f"tokens: {budget.total_blocks} blocks of {budget.block_size} and "
            f"{budget.draft_blocks} of {budget.draft_block_size}; leave draft_kv_fraction and "
            "draft_block_size out, or set prefix_caching to false"
        )
    return prefixes


def first_fitting(stored: StoredProfile, scenario: Scenario) -> str:
    """The proposer of the first record of one that fits the scenario's contract and domains.

    Whose recordings plain decoding replays where no proposer is named. Where none fits, the first
    of the profile: reading its records says what is wrong.
    """
    try:
        fitting = fitting_proposers(stored, scenario)
    except ScenarioError:
        return next(iter(stored.profile.proposers))
    return next(each.proposer for each in stored.profile.acceptance if each.proposer in fitting)


def check_limits(scenario: Scenario) -> None:
    """Raise ScenarioError where a full batch does not fit a step."""
    deployment = scenario.deployment
    widest = deployment.max_num_seqs * (1 + scenario.speculation.num_draft_tokens)
    if widest > deployment.max_num_batched_tokens:
        raise ScenarioError(
            f"max_num_seqs {deployment.max_num_seqs} x (1 + "
            f"{scenario.speculation.num_draft_tokens} drafts) = {widest} tokens a step, but "
            f"max_num_batched_tokens is {deployment.max_num_batched_tokens}; raise it, or lower "
            "max_num_seqs or num_speculative_tokens"
        )


def _limits(scenario: Scenario, parts: Parts) -> Record:
    """The deployment's limits, and its engine's rules as numbers for this speculation."""
    deployment, speculation = scenario.deployment, scenario.speculation
    rules, gamma = RULES[deployment.preset], speculation.num_speculative_tokens
    batch, budget = parts.batch, parts.budget
    headroom = _headroom_tokens(scenario) if rules.holds_double_buffer and gamma > 0 else 0
    keeps = rules.keeps_rejected_blocks or rules.has_fixed_slots
    if rules.has_fixed_slots and budget.total_blocks < deployment.max_num_seqs:
        raise InfeasibleError(
            f"{budget.total_blocks} KV blocks for {deployment.max_num_seqs} seats of their own; "
            "expected at least a block a seat: lower max_num_seqs or raise kv_cache_tokens"
        )
    failures, workload = deployment.failures, scenario.workload
    has_draft = parts.proposer_kind in OWN_MODEL_KINDS
    slot_blocks = budget.total_blocks // deployment.max_num_seqs if rules.has_fixed_slots else 0
    return new_record(
        LIMITS_DTYPE,
        block_size=deployment.block_size,
        max_num_seqs=deployment.max_num_seqs,
        max_num_batched_tokens=deployment.max_num_batched_tokens,
        mode=gamma,
        initial_mode=_initial_mode(scenario),
        most_verified_tokens=speculation.num_draft_tokens,
        most_proposed_tokens=max(mode.proposed_tokens for mode in speculation.modes()),
        max_queue=NO_LIMIT if deployment.max_queue is None else deployment.max_queue,
        lookahead_tokens=gamma if rules.reserves_lookahead and has_draft else 0,
        charged_tokens=rules.charges_draft_slots and parts.proposer_kind == "draft_model",
        headroom_tokens=headroom,
        kept_tokens=NO_LIMIT if keeps else headroom,
        slot_blocks=slot_blocks,
        prefills_apart=rules.prefills_apart,
        retracts_youngest=rules.retracts_youngest,
        admits_whole_life=rules.admits_whole_life,
        pads_drafts=rules.pads_drafts,
        shortens_last_drafts=rules.shortens_last_drafts,
        routing=ROUTING[deployment.routing],
        num_uncounted=int(scenario.warmup_fraction * len(batch.arrival_s)),
        num_open=batch.turns.num_open,
        is_closed_loop=workload.arrivals.kind == "closed_loop",
        patience_s=np.inf if workload.patience_s is None else workload.patience_s,
        is_prioritised=deployment.scheduling == "priority",
        watermark_blocks=int(np.ceil(deployment.watermark * budget.total_blocks)),
        caches_prefixes=not parts.prefixes.is_empty,
        drops_last_hit=rules.drops_last_hit and parts.proposer_kind == "eagle",
        draft_block_size=budget.draft_block_size,
        mean_up_s=failures.mean_time_between_s or 0.0,
        mean_down_s=failures.mean_repair_s,
        most_restarts=failures.max_restarts if failures.requests == "retry" else 0,
    )


def _headroom_tokens(scenario: Scenario) -> int:
    """SGLang holds twice what a step takes."""
    speculation = scenario.speculation
    return 2 * sglang_step_slots(
        speculation.num_speculative_tokens,
        speculation.topk,
        1 + speculation.num_draft_tokens,
        scenario.deployment.block_size,
    )


def _check_policy(scenario: Scenario, model: AcceptanceModel) -> None:
    """Acceptance by position was measured for one draft length and says nothing of another."""
    speculation = scenario.speculation
    lengths = set(speculation.draft_lengths()) - {0}
    if model.name == "positional" and lengths - {speculation.num_speculative_tokens}:
        raise ScenarioError(
            f"policy {speculation.policy.kind!r} may choose draft lengths {sorted(lengths)}, but "
            f"acceptance by position holds for {speculation.num_speculative_tokens} only; use a "
            "profile with traces (acceptance 'trace'), or a policy between off and one length"
        )


def _expectations(
    scenario: Scenario, model: AcceptanceModel
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """E[Y] and proposed drafts a cycle by draft length 0 .. longest, pooled over the domains.

    Only two policies expect anything; for the others the recordings are not walked.
    """
    longest = scenario.speculation.num_speculative_tokens
    tokens, drafts = np.ones(longest + 1), np.zeros(longest + 1)
    if scenario.speculation.policy.kind not in ("goodput", "adaptive_verification"):
        return tokens, drafts
    for gamma in range(1, longest + 1):
        tokens[gamma], drafts[gamma] = _expected(model, gamma)
    return tokens, drafts


def _expected(model: AcceptanceModel, gamma: int) -> tuple[float, float]:
    """E[Y] and proposed drafts of a cycle at γ; plain where the model does not hold there."""
    if model.fitted is not None and model.drafted_misses is not None:
        from simcore.acceptance.heterogeneous import (  # noqa: PLC0415 - keeps scipy out of others
            Heterogeneous,
        )

        survival = [Heterogeneous(each, gamma).survival(gamma) for each in model.fitted.values()]
        first = np.array([each[0] for each in survival])
        drafted = first + (1.0 - first) * np.array(list(model.drafted_misses.values()))
        accepted = float(np.mean([each.sum() for each in survival]))
        return 1.0 + accepted, gamma * float(drafted.mean())
    if model.traces is not None and model.name != "iid":
        cycles = walk(model.traces, gamma)
        if not len(cycles.accepted):
            return 1.0, 0.0
        return 1.0 + float(cycles.accepted.mean()), float(cycles.proposed.mean())
    if gamma > model.max_gamma or (model.name != "iid" and gamma != model.max_gamma):
        return 1.0, 0.0
    match = model.tables.match_probability[0]
    survival = np.cumprod(model.tables.conditional[0, :, :gamma], axis=1).sum(axis=1) * match
    return 1.0 + float(survival.mean()), gamma * float(match.mean())


def _request_records(
    batch: RequestBatch, prefixes: Prefixes, scenario: Scenario, domain_names: tuple[str, ...]
) -> Records:
    requests = np.zeros(len(batch.arrival_s), dtype=REQUEST_DTYPE)
    for name in ("arrival_s", "prompt_tokens", "output_tokens", "domain", "trace"):
        requests[name] = getattr(batch, name)
    for name in ("session", "follower", "think_s"):
        requests[name] = getattr(batch.turns, name)
    requests["arrival_s"][batch.turns.num_open :] = np.inf  # until the turn before has ended
    requests["prefix_begin"], requests["prefix_end"] = prefixes.begin, prefixes.end
    requests["level"] = _priorities(scenario, domain_names)[batch.domain]
    requests["max_tokens"] = declared_max_tokens(scenario.workload, batch.output_tokens)
    for name in ("scheduled_s", "first_token_s", "last_emission_s", "finish_s"):
        requests[name] = -1.0
    requests["state"] = PENDING
    for name in ("replica", "confidence_row", "next_waiting"):
        requests[name] = NONE
    patience_s = scenario.workload.patience_s
    requests["gives_up_s"] = np.inf if patience_s is None else requests["arrival_s"] + patience_s
    requests["can_speculate"] = 1
    if scenario.speculation.plain_fraction > 0.0:
        luck = np.random.default_rng([scenario.seed, PLAIN_STREAM]).random(len(requests))
        requests["can_speculate"] = luck >= scenario.speculation.plain_fraction
    return requests
