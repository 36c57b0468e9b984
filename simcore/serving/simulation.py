"""simulate(scenario): from a scenario and its profile to request and step records."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.model import AcceptanceModel
from simcore.acceptance.trace import TraceSet
from simcore.errors import ScenarioError
from simcore.profile.store import StoredProfile, load_profile
from simcore.records import Records
from simcore.scenario import Scenario, dump_scenario
from simcore.serving.caller_policy import CallerPolicy, between_off_and_full
from simcore.serving.memory import KVBudget
from simcore.serving.policy import REASONS
from simcore.serving.service import Progress, Service
from simcore.serving.state import (
    REASON_NAMES,
    STATE_NAMES,
)
from simcore.serving.step_totals import StepTotals
from simcore.version import specplan_version
from simcore.workload.sampling import Draw, IntArray, sample_requests

if TYPE_CHECKING:
    import pandas as pd
from simcore.serving.setup import Variation, new_state


@dataclass(frozen=True)
class SimulationResult:
    """What a run left behind, and where every number of it comes from."""

    scenario: Scenario
    stored: StoredProfile
    model: AcceptanceModel
    budget: KVBudget
    request_records: Records  # REQUEST_DTYPE, in order of arrival
    step_records: Records  # STEP_DTYPE, in order of begin
    replica_records: Records
    change_records: Records  # CHANGE_DTYPE: draft lengths that the policy put in force
    dropped_totals: StepTotals  # over the steps that were not kept
    gap_counts: IntArray  # emissions by gap, bins of state.gap_bin_edges_s()
    accepted_histogram: NDArray[np.int32]  # [num_requests, γ + 1] cycles by accepted drafts, uncut
    cycle_records: Records | None  # CYCLE_DTYPE, where they were asked for
    mismatches: tuple[str, ...]

    @cached_property
    def requests(self) -> "pd.DataFrame":
        """One row a request; columns are those of REQUEST_DTYPE that mean something outside."""
        import pandas as pd  # noqa: PLC0415 - kept out of the start-up of runs without frames

        frame = pd.DataFrame(self.request_records).drop(columns=list(INTERNAL_COLUMNS))
        frame["state"] = np.array(STATE_NAMES)[self.request_records["state"]]
        frame["reason"] = np.array(REASON_NAMES)[self.request_records["reason"]]
        frame["domain"] = np.array(self.model.domain_names)[self.request_records["domain"]]
        frame.insert(0, "request", np.arange(len(frame)))
        never = self.request_records["first_token_s"] < 0.0
        frame.loc[never, ["first_token_s", "last_emission_s"]] = np.nan
        frame.loc[self.request_records["scheduled_s"] < 0.0, "scheduled_s"] = np.nan
        return frame

    @cached_property
    def step_totals(self) -> StepTotals:
        """Sums over all steps, kept or not."""
        return self.dropped_totals.with_steps(self.step_records)

    @cached_property
    def steps(self) -> "pd.DataFrame":
        """One row an engine step."""
        import pandas as pd  # noqa: PLC0415 - as above

        return pd.DataFrame(self.step_records)

    @cached_property
    def policy_changes(self) -> "pd.DataFrame":
        """One row for each change of the draft mode in force: when, from, to, why.

        `from_tokens` and `to_tokens` are the candidates m that a request has verified.
        """
        import pandas as pd  # noqa: PLC0415 - as above

        frame = pd.DataFrame(self.change_records).drop(columns=["from_mode", "to_mode"])
        speculation = self.scenario.speculation
        proposers = np.array([scheme.proposer for scheme in speculation.schemes()])
        for place, name in enumerate(("from", "to")):
            modes = [speculation.modes()[mode] for mode in self.change_records[f"{name}_mode"]]
            tokens = np.array([mode.verified_tokens for mode in modes], dtype=np.int64)
            frame.insert(2 + 2 * place, f"{name}_tokens", tokens)
            schemes = np.array([mode.scheme for mode in modes], dtype=np.int64)
            frame.insert(3 + 2 * place, f"{name}_proposer", proposers[schemes])
        frame["reason"] = np.array(REASONS)[self.change_records["reason"]]
        return frame

    @cached_property
    def cycles(self) -> "pd.DataFrame":
        """One row for each cycle; needs simulate(record_cycles=True)."""
        import pandas as pd  # noqa: PLC0415 - as above

        if self.cycle_records is None:
            raise ScenarioError("no single cycles were kept; call simulate(record_cycles=True)")
        return pd.DataFrame(self.cycle_records)

    @property
    def origin(self) -> dict[str, Any]:
        """What reproduces this run: versions, profile, seed, model, contract."""
        return origin(self.scenario, self.stored) | {
            "acceptance_model": self.model.name,
            "acceptance_fitted_at": self.model.fitted_gamma,
            "mismatches": list(self.mismatches),
        }


INTERNAL_COLUMNS = (
    "held_blocks",
    "shared_blocks",
    "prefill_left_tokens",
    "committed_tokens",
    "draft_committed_tokens",
    "draft_held_blocks",
    "prefix_begin",
    "prefix_end",
    "is_cancelled",
    "segment_start",
    "segment",
    "draft_lag_tokens",
    "step_tokens",
    "step_mode",
    "step_most",
    "step_proposed",
    "step_verified",
    "step_accepted",
    "confidence_row",
    "next_waiting",
)


def origin(scenario: Scenario, stored: StoredProfile) -> dict[str, Any]:
    """Version, profile, scenario and seed that a result carries."""
    return {
        "specplan_version": specplan_version(),
        "profile": stored.profile.name,
        "profile_source": stored.profile.source.value,
        "profile_sha256": stored.content_hash,
        "scenario": scenario.name,
        "scenario_sha256": hashlib.sha256(dump_scenario(scenario).encode()).hexdigest(),
        "contract": scenario.contract.value,
        "sampling": scenario.sampling.model_dump(),
        "sampling_of_domains": {
            name: own.model_dump()
            for name in scenario.workload.domains
            if (own := scenario.workload.share(name).sampling) is not None
        },
        "seed": scenario.seed,
    }


def simulate(
    scenario: Scenario,
    *,
    stored: StoredProfile | None = None,
    traces: TraceSet | None = None,
    variation: Variation | None = None,
    progress: Progress | None = None,
    stepwise: bool = False,
    policy: CallerPolicy | None = None,
    keep_steps: bool = True,
    record_cycles: bool = False,
    draw: Draw = sample_requests,
) -> SimulationResult:
    """Run one scenario to the end of its last request.

    `stored` and `traces` avoid reading the profile again. `stepwise` runs one event at a time,
    with the same records. `policy` is asked for the draft length before every step (and needs
    that mode); it takes the place of the scenario's own. `keep_steps=False` keeps their sums
    alone, for long runs; `record_cycles` keeps every single cycle (and needs the stepwise mode).
    `draw` draws the requests; sampling.RememberedDraws draws those of many runs once.
    Raises ScenarioError, ProfileError or InfeasibleError before any of it.
    """
    stored = stored or load_profile(scenario.profile)
    prepared = new_state(scenario, stored, traces=traces, variation=variation, draw=draw)
    if policy is not None:
        policy = _caller_policy(policy, scenario, prepared.model)
    service = Service(
        prepared.state,
        progress=progress,
        policy=policy,
        keeps_steps=keep_steps,
        records_cycles=record_cycles,
    )
    if stepwise or policy is not None or record_cycles:
        service.run_stepwise()
    else:
        service.run()
    return SimulationResult(
        scenario=scenario,
        stored=stored,
        model=prepared.model,
        budget=prepared.budget,
        request_records=prepared.state.requests,
        step_records=service.steps,
        replica_records=prepared.state.replicas,
        dropped_totals=service.totals,
        gap_counts=prepared.state.gap_counts,
        accepted_histogram=prepared.state.accepted_histogram,
        cycle_records=service.cycles,
        change_records=service.changes,
        mismatches=prepared.mismatches,
    )


def _caller_policy(
    policy: CallerPolicy, scenario: Scenario, model: AcceptanceModel
) -> CallerPolicy:
    if scenario.speculation.policy.kind != "fixed":
        raise ScenarioError(
            f"a policy in Python and the scenario's {scenario.speculation.policy.kind!r} exclude "
            "each other; leave the scenario's at 'fixed'"
        )
    return between_off_and_full(policy) if model.name == "positional" else policy
