"""simcore's State for real requests: the scenario's deployment, speculation and policy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.model.target import LoadedModel
from calibration.serve.proposing import Proposing
from calibration.serve.request import ServedRequest, check_requests
from calibration.serve.texts import empty_traces
from calibration.serve.topologies import full_topology
from simcore.acceptance.model import CycleTables, trace_model
from simcore.acceptance.trace import TraceSet
from simcore.cost.law import CostDomain, CostLaw, LinearLaw, TargetLaw
from simcore.cost.price import law_tables
from simcore.profile.schema import Hardware, Proposer
from simcore.scenario import Scenario
from simcore.serving.memory import KVBudget, split_memory
from simcore.serving.policy_tables import policy_tables
from simcore.serving.setup import Parts, assembled, check_limits, draft_modes
from simcore.serving.state import State
from simcore.workload.prefixes import no_prefixes
from simcore.workload.sampling import RequestBatch
from simcore.workload.turns import NONE, Turns
from simcore.workload_kinds import ClosedLoopArrivals

FloatArray = NDArray[np.float64]
UNBOUNDED = 1 << 30
FORESIGHT = ("oracle", "adaptive_verification")  # they read cycles or confidences beforehand


@dataclass(frozen=True)
class Expectations:
    """What the goodput policy expects, by draft length 0 .. γ."""

    tokens: FloatArray  # E[Y]
    drafts: FloatArray  # proposed drafts a cycle


@dataclass(frozen=True)
class Service:
    """Everything that fixes a run but for the models' answers."""

    scenario: Scenario
    requests: list[ServedRequest]
    target: LoadedModel
    proposing: Proposing | None
    law: CostLaw | None = None  # None: steps take the time that they take
    expected: Expectations | None = None

    def check(self) -> None:
        """Raise CalibrationError for what the loop cannot serve."""
        check_requests(self.requests, self.target.identity.vocab_size)
        check_limits(self.scenario)
        self._check_context()
        scenario, speculation = self.scenario, self.scenario.speculation
        deployment, workload = scenario.deployment, scenario.workload
        is_closed = isinstance(workload.arrivals, ClosedLoopArrivals)
        if deployment.replicas != 1 or deployment.kv_cache_tokens is None:
            raise CalibrationError(
                f"{deployment.replicas} replicas with kv_cache_tokens "
                f"{deployment.kv_cache_tokens}; expected one replica and a stated room for its KV"
            )
        if is_closed or workload.sessions is not None:
            raise CalibrationError(
                "a closed loop or sessions on a real target; expected requests that come by "
                "themselves, in order of arrival"
            )
        if (self.proposing is None) != (speculation.num_speculative_tokens == 0):
            raise CalibrationError(
                f"num_speculative_tokens is {speculation.num_speculative_tokens} with "
                f"{'no' if self.proposing is None else 'a'} proposer loaded; expected a proposer "
                "exactly where drafts are asked for"
            )
        self._check_policy()

    def _check_context(self) -> None:
        room = self.target.decoder.shape.max_context_tokens
        for index, request in enumerate(self.requests):
            tokens = len(request.prompt_ids) + request.max_tokens
            if tokens > room:
                raise CalibrationError(
                    f"request {index} may grow to {tokens} tokens, {len(request.prompt_ids)} of "
                    f"them its prompt's; the target was made for {room}; expected a shorter prompt "
                    "or fewer max_tokens"
                )

    def _check_policy(self) -> None:
        speculation = self.scenario.speculation
        kind = speculation.policy.kind
        if kind in FORESIGHT:
            raise CalibrationError(
                f"policy {kind!r} looks at recorded cycles before they run, and a real target has "
                "none; expected another policy"
            )
        if kind == "goodput" and (self.law is None or self.expected is None):
            raise CalibrationError(
                "policy 'goodput' compares expected tokens and times; expected a cost law and "
                "the profile's expectations with it"
            )
        if len(speculation.proposers()) > 1:
            raise CalibrationError(
                f"a ladder between proposers {list(speculation.proposers())}; expected one "
                "proposer: the loop loads one"
            )

    @property
    def _proposer_kind(self) -> str | None:
        if self.proposing is None:
            return None
        return "ngram" if self.proposing.draft is None else "draft_model"

    @property
    def budget(self) -> KVBudget:
        """Blocks of the target's pool and of the draft's."""
        speculation = self.scenario.speculation
        drafts = [_as_loaded(self.proposing)] if self.proposing is not None else []
        hardware = Hardware(device="cpu", name="as stated", memory_bytes=1)  # KV room is stated
        return split_memory(
            self.target.identity,
            hardware,
            self.scenario.deployment,
            drafts,
            1 + speculation.num_draft_tokens,
        )

    def new_traces(self) -> TraceSet:
        """Room for the acceptance of every cycle."""
        return empty_traces(
            [len(request.prompt_ids) for request in self.requests],
            [request.max_tokens for request in self.requests],
            self.scenario.speculation.num_speculative_tokens,
        )

    def new_state(self, traces: TraceSet) -> State:
        """A service that has not begun; its cycles, where they are drawn, replay `traces`."""
        speculation, budget = self.scenario.speculation, self.budget
        count = len(self.requests)
        modes = draft_modes(speculation, {speculation.proposer or "": _as_loaded(self.proposing)})
        names = tuple(dict.fromkeys(request.domain for request in self.requests))
        parts = Parts(
            batch=_batch(self.requests, names),
            prefixes=no_prefixes(count),
            budget=budget,
            domain_names=names,
            modes=modes,
            proposer_kind=self._proposer_kind,
            cycles=_cycle_tables(traces, len(speculation.schemes())),
            law=law_tables(
                self.law or _unpriced(speculation.proposer),
                speculation.proposer if self.proposing is not None else None,
                others=tuple(scheme.proposer for scheme in speculation.schemes()[1:]),
            ),
            policy=policy_tables(speculation, *self._expected_arrays()),
        )
        state = assembled(self.scenario, parts)
        state.requests["max_tokens"] = state.requests["output_tokens"]
        self._reserve_extra(state)
        return state

    def _expected_arrays(self) -> tuple[FloatArray, FloatArray]:
        if self.expected is not None:
            return self.expected.tokens, self.expected.drafts
        longest = self.scenario.speculation.num_speculative_tokens
        return np.ones(longest + 1), np.zeros(longest + 1)

    def _reserve_extra(self, state: State) -> None:
        if self.proposing is None:
            return
        shares_blocks = self.budget.draft_blocks == 0
        extra = self.proposing.extra_slots(
            full_topology(self.scenario.speculation), shares_blocks=shares_blocks
        )
        widest = 1 + self.scenario.speculation.num_draft_tokens + extra
        if 0 < state.limits.headroom_tokens < widest:
            raise CalibrationError(
                f"preset {self.scenario.deployment.preset!r} reserves "
                f"{state.limits.headroom_tokens} slots a cycle, this proposer writes to {widest}; "
                "use another preset"
            )
        state.limits.lookahead_tokens = max(int(state.limits.lookahead_tokens), extra)


def _as_loaded(proposing: Proposing | None) -> Proposer:
    """What the memory ledger needs to know of a proposer."""
    if proposing is None or proposing.draft is None:
        return Proposer(kind="ngram")  # nothing in memory
    identity = proposing.draft.identity
    return Proposer(
        kind="draft_model",
        weight_bytes=identity.weight_bytes,
        kv_bytes_per_token=identity.kv_bytes_per_token,
    )


def _batch(requests: Sequence[ServedRequest], domain_names: tuple[str, ...]) -> RequestBatch:
    count = len(requests)
    nobody = np.full(count, NONE, dtype=np.int64)
    return RequestBatch(
        arrival_s=np.array([request.arrival_s for request in requests]),
        prompt_tokens=np.array([len(r.prompt_ids) for r in requests], dtype=np.int64),
        output_tokens=np.array([request.max_tokens for request in requests], dtype=np.int64),
        domain=np.array([domain_names.index(r.domain) for r in requests], dtype=np.int64),
        trace=np.arange(count),
        turns=Turns(count, nobody, nobody, np.zeros(count)),
        group=nobody,
        group_tokens=np.zeros(0, dtype=np.int64),
    )


def _cycle_tables(traces: TraceSet, num_schemes: int) -> CycleTables:
    """Every scheme replays the same rows: a position's cycle was drafted by one of them."""
    tables = trace_model(traces).tables
    return tables._replace(
        accepted=np.repeat(tables.accepted, num_schemes, axis=0),
        proposed=np.repeat(tables.proposed, num_schemes, axis=0),
        ratio=np.repeat(tables.ratio, num_schemes, axis=0),
        confidence=np.repeat(tables.confidence, num_schemes, axis=0),
    )


def _unpriced(proposer: str | None) -> CostLaw:
    """A second a step, which the measured time takes the place of before anyone sees it."""
    return CostLaw(
        target=TargetLaw(
            knot_tokens=(1, 2),
            knot_s=(1.0, 1.0),
            per_kv_token_plain_s=0.0,
            per_kv_token_verify_s=0.0,
        ),
        propose={} if proposer is None else {proposer: LinearLaw()},
        domain=CostDomain(
            max_batch_size=UNBOUNDED,
            max_context_tokens=UNBOUNDED,
            max_query_tokens_per_request=UNBOUNDED,
            max_step_tokens=UNBOUNDED,
        ),
    )
