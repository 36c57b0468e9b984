"""From a scenario and its profile to a service that has not begun."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.model import AcceptanceModel
from simcore.acceptance.trace import TraceSet, walk
from simcore.cost.price import law_tables
from simcore.cost.regime import check_regimes
from simcore.engines import RULES, sglang_step_slots
from simcore.errors import InfeasibleError, ScenarioError
from simcore.matching import acceptance_model, load_traces, matching_records, mismatches
from simcore.profile.store import StoredProfile
from simcore.records import Record, Records, new_record
from simcore.scenario import Scenario
from simcore.serving.memory import KVBudget, kv_budget
from simcore.serving.policy_tables import policy_tables
from simcore.serving.service import new_step_records
from simcore.serving.state import (
    CHANGE_DTYPE,
    CURSOR_DTYPE,
    LIMITS_DTYPE,
    NONE,
    NUM_GAP_BINS,
    PENDING,
    REQUEST_DTYPE,
    State,
    new_replicas,
)
from simcore.workload.lengths import declared_max_tokens
from simcore.workload.sampling import IntArray, RequestBatch, sample_requests

CHANGES_PER_CHUNK = 1000
NO_LIMIT = 1 << 40
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


def new_state(
    scenario: Scenario,
    stored: StoredProfile,
    *,
    traces: TraceSet | None = None,
    variation: Variation | None = None,
) -> Prepared:
    """Check the scenario against its profile, draw its requests, set up its service.

    With γ = 0 no proposer is loaded: its weights, KV and cost are those of plain decoding. The
    proposer named, or the first, still says which recorded requests the workload follows.
    """
    found = mismatches(stored, scenario)
    _check_limits(scenario)
    variation = variation or Variation()
    deployment, gamma = scenario.deployment, scenario.speculation.num_speculative_tokens
    check_regimes(
        stored.profile.cost,
        max_num_seqs=deployment.max_num_seqs,
        max_num_batched_tokens=deployment.max_num_batched_tokens,
    )
    reference = scenario.speculation.proposer or _first_fitting(stored, scenario)
    if traces is None:
        traces = load_traces(stored, matching_records(stored, scenario, reference))
    model = acceptance_model(stored, scenario, reference, gamma, traces=traces)
    _check_policy(scenario, model)
    loaded = reference if gamma > 0 else None
    budget = kv_budget(stored.profile, deployment, loaded)
    batch = sample_requests(
        scenario.workload, model.domain_names, model.traces, scenario.seed, pools=variation.pools
    )
    policy = policy_tables(scenario.speculation, *_expectations(scenario, model))
    window_steps = int(policy.rule.window_steps)
    state = State(
        requests=_request_records(batch, scenario),
        replicas=new_replicas(
            deployment.replicas, budget.total_blocks, max(scenario.speculation.draft_lengths())
        ),
        running=np.zeros((deployment.replicas, deployment.max_num_seqs), dtype=np.int64),
        steps=new_step_records(deployment.replicas),
        changes=np.zeros(CHANGES_PER_CHUNK + deployment.replicas, dtype=CHANGE_DTYPE),
        gate_window=np.zeros((deployment.replicas, window_steps, 2), dtype=np.int64),
        gap_counts=np.zeros(NUM_GAP_BINS, dtype=np.int64),
        accepted_counts=np.zeros(gamma + 1, dtype=np.int64),
        cursor=new_record(CURSOR_DTYPE),
        limits=_limits(scenario, stored, budget.total_blocks, len(batch.arrival_s)),
        law=law_tables(
            stored.profile.cost, loaded, speculative_factor=variation.speculative_cost_factor
        ),
        cycles=model.tables,
        policy=policy,
        seed=np.uint64(scenario.seed),
    )
    return Prepared(state, model, budget, found)


def _first_fitting(stored: StoredProfile, scenario: Scenario) -> str:
    """The first proposer measured under the scenario's contract and sampling, else the first."""
    for record in stored.profile.acceptance:
        if (record.contract, record.sampling) == (scenario.contract, scenario.sampling):
            return record.proposer
    return next(iter(stored.profile.proposers))


def _check_limits(scenario: Scenario) -> None:
    deployment = scenario.deployment
    widest = deployment.max_num_seqs * (1 + scenario.speculation.num_draft_tokens)
    if widest > deployment.max_num_batched_tokens:
        raise ScenarioError(
            f"max_num_seqs {deployment.max_num_seqs} x (1 + "
            f"{scenario.speculation.num_draft_tokens} drafts) = {widest} tokens a step, but "
            f"max_num_batched_tokens is {deployment.max_num_batched_tokens}; raise it, or lower "
            "max_num_seqs or num_speculative_tokens"
        )


def _limits(
    scenario: Scenario, stored: StoredProfile, total_blocks: int, num_requests: int
) -> Record:
    """The deployment's limits, and its engine's rules as numbers for this speculation."""
    deployment, speculation = scenario.deployment, scenario.speculation
    rules, gamma = RULES[deployment.preset], speculation.num_speculative_tokens
    drafts_with_kv = False
    if gamma > 0 and speculation.proposer is not None:
        drafts_with_kv = stored.profile.proposers[speculation.proposer].kind != "ngram"
    headroom = 0
    if rules.holds_double_buffer and gamma > 0:
        topk = speculation.tree.count(-1) if speculation.tree is not None else 1
        slots = sglang_step_slots(
            gamma, topk, 1 + speculation.num_draft_tokens, deployment.block_size
        )
        headroom = 2 * slots
    keeps = rules.keeps_rejected_blocks or rules.has_fixed_slots
    if rules.has_fixed_slots and total_blocks < deployment.max_num_seqs:
        raise InfeasibleError(
            f"{total_blocks} KV blocks for {deployment.max_num_seqs} seats of their own; expected "
            "at least a block a seat: lower max_num_seqs or raise kv_cache_tokens"
        )
    return new_record(
        LIMITS_DTYPE,
        block_size=deployment.block_size,
        max_num_seqs=deployment.max_num_seqs,
        max_num_batched_tokens=deployment.max_num_batched_tokens,
        gamma=gamma,
        num_draft_tokens=speculation.num_draft_tokens,
        max_queue=NO_LIMIT if deployment.max_queue is None else deployment.max_queue,
        lookahead_tokens=gamma if rules.reserves_lookahead and drafts_with_kv else 0,
        headroom_tokens=headroom,
        kept_tokens=NO_LIMIT if keeps else headroom,
        slot_blocks=total_blocks // deployment.max_num_seqs if rules.has_fixed_slots else 0,
        prefills_apart=rules.prefills_apart,
        retracts_youngest=rules.retracts_youngest,
        admits_whole_life=rules.admits_whole_life,
        pads_drafts=rules.pads_drafts,
        routes_by_load=deployment.routing == "least_outstanding",
        first_counted=int(scenario.warmup_fraction * num_requests),
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

    Only the goodput policy expects anything; for the others the recordings are not walked.
    """
    longest = scenario.speculation.num_speculative_tokens
    tokens, drafts = np.ones(longest + 1), np.zeros(longest + 1)
    if scenario.speculation.policy.kind != "goodput":
        return tokens, drafts
    for gamma in range(1, longest + 1):
        if model.traces is not None:
            cycles = walk(model.traces, gamma)
            if len(cycles.accepted):
                tokens[gamma] += cycles.accepted.mean()
                drafts[gamma] = cycles.proposed.mean()
        elif gamma == model.max_gamma:
            match = model.tables.match_probability
            survival = np.cumprod(model.tables.conditional, axis=1).sum(axis=1) * match
            tokens[gamma] += survival.mean()
            drafts[gamma] = gamma * match.mean()
    return tokens, drafts


def _request_records(batch: RequestBatch, scenario: Scenario) -> Records:
    requests = np.zeros(len(batch.arrival_s), dtype=REQUEST_DTYPE)
    for name in ("arrival_s", "prompt_tokens", "output_tokens", "domain", "trace"):
        requests[name] = getattr(batch, name)
    requests["max_tokens"] = declared_max_tokens(scenario.workload, batch.output_tokens)
    for name in ("scheduled_s", "first_token_s", "last_emission_s", "finish_s"):
        requests[name] = -1.0
    requests["state"] = PENDING
    requests["replica"] = NONE
    patience_s = scenario.workload.patience_s
    requests["gives_up_s"] = np.inf if patience_s is None else batch.arrival_s + patience_s
    requests["can_speculate"] = 1
    if scenario.speculation.plain_fraction > 0.0:
        luck = np.random.default_rng([scenario.seed, PLAIN_STREAM]).random(len(requests))
        requests["can_speculate"] = luck >= scenario.speculation.plain_fraction
    requests["next_waiting"] = NONE
    return requests
