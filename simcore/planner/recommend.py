"""recommend: from a plan's candidates to the way to serve, with its thresholds and its regret.

Draft lengths that the plan compared and policies made to measure meet the same requests at a light,
the planned and a heavy load. The closed form and the planned load say which draft lengths are worth
the last round; an oracle, which drafts exactly what will be accepted, is the bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcore.errors import InfeasibleError, ScenarioError, TreeError
from simcore.planner.batch_table import best_rows
from simcore.planner.break_even import BreakEven, find_break_even, point_scenario
from simcore.planner.choose import choose, expected_regrets
from simcore.planner.fallback import fallback_of, hysteresis_of
from simcore.planner.identity import identity_checks
from simcore.planner.load_estimate import LoadBasis, estimate_load, load_basis
from simcore.planner.pareto import Scores, dominators
from simcore.planner.recommendation import (
    LoadName,
    LoadResult,
    Objective,
    Pruned,
    Recommendation,
    Reference,
    Value,
    Way,
)
from simcore.planner.replication import Replication, Runner, at_fixed_length, ratio_interval
from simcore.planner.tree_choice import TreeLimits, choose_tree
from simcore.planner.tree_recording import tree_recording
from simcore.planner.way_runs import Latency, WayRuns, checked_summary, latency_of, way_runs
from simcore.planner.ways import (
    PolicyWays,
    WayToServe,
    fixed_way,
    oracle_way,
    own_way,
    served_by,
    tree_way,
    why_not,
)
from simcore.profile.schema import Contract
from simcore.scenario import Scenario
from simcore.workload.load import mean_rate_per_s

FloatArray = NDArray[np.float64]

LOADS: tuple[LoadName, ...] = ("light", "planned", "heavy")
NUM_LOAD_REPLICATIONS = 8  # at the light and the heavy load
MAX_TREE_NODES = 16
TREE_PRESETS = ("plain", "sglang")
USUAL_WAYS = 8  # in the last round, about; for the progress bar


@dataclass(frozen=True)
class Compared:
    """What a plan has simulated before it recommends: draft lengths at the planned load."""

    runs: Mapping[tuple[str, int], WayRuns]  # (proposer, draft length) -> numbers; 0 is off
    best: tuple[str, int]  # the fastest that keeps the SLO as off does
    edge: BreakEven
    truths: tuple[Replication, ...]
    edge_truths: tuple[Replication, ...]  # of the break-even
    known_off: dict[tuple[str, float, int], float]  # likewise


@dataclass
class _Tried:
    """One way with the numbers of its runs."""

    way: WayToServe
    planned: WayRuns
    off: WayRuns  # on the same recordings, at the planned load
    loads: dict[LoadName, tuple[WayRuns, WayRuns]] = field(default_factory=dict)  # own, off

    @property
    def scores(self) -> Scores:
        """Objectives at the planned load against off, less is better."""
        off = self.off
        return {
            "mean_e2e": self.planned.e2e_s / off.e2e_s,
            "latency": self.planned.latency_s / off.latency_s,
            "goodput": -self.planned.goodput_per_s / np.maximum(off.goodput_per_s, 1e-12),
            "device_time": self.planned.device_s / off.device_s,
        }

    def log_ratios(self, load: LoadName) -> FloatArray:
        """[num_replications] log of mean E2E of this over off."""
        own, off = self.loads[load]
        return np.asarray(np.log(own.e2e_s / off.e2e_s))


def usual_runs(num_replications: int) -> int:
    """Simulations of a recommendation, about, for a progress bar."""
    return USUAL_WAYS * (num_replications + 2 * NUM_LOAD_REPLICATIONS)


def recommend(runner: Runner, compared: Compared) -> tuple[Recommendation, BreakEven]:
    """The way to serve, of the plan's draft lengths and of policies made for this service.

    And where it stops paying; where off is shipped, of the plan's best length.

    Raises ScenarioError where the scenario does not fit its profile.
    """
    return _Recommender(runner, compared).run()


class _Recommender:
    def __init__(self, runner: Runner, compared: Compared) -> None:
        self.runner, self.compared = runner, compared
        self.scenario, self.stored = runner.scenario, runner.stored
        self.latency: Latency = latency_of(self.scenario.slo)
        proposer = compared.best[0]
        asked = self.scenario.with_(
            speculation=at_fixed_length(self.scenario, 0, proposer, 0).speculation.model_dump(
                mode="json"
            )
            | {"proposer": proposer}
        )
        self.basis: LoadBasis = load_basis(self.stored, asked)
        self.lengths = tuple(
            gamma for name, gamma in compared.runs if name == proposer and gamma > 0
        )
        self.policies = PolicyWays(self.scenario, self.basis, self.lengths)
        self.pruned: list[Pruned] = []
        self.load_scenarios = self._load_scenarios()
        self._off: dict[tuple[str, LoadName], WayRuns] = {}

    def run(self) -> tuple[Recommendation, BreakEven]:
        """Build, simulate, judge."""
        tried = self._tried()
        oracle = self._oracle()
        contenders = [each for each in tried if each.loads]
        references = self._references(contenders, oracle)
        regrets = expected_regrets(
            {
                each.way.label: {load: each.log_ratios(load) for load in LOADS}
                for each in contenders
            },
            {load: references[load][1] for load in LOADS},
        )
        marked = self._marked(tried)
        ways = tuple(self._way(each, references, regrets, marked) for each in tried)
        choice = choose(ways, regrets)
        shipped = next(each for each in tried if each.way.label == choice.label).way
        edge = self._edge(shipped)
        found = Recommendation(
            identity=identity_checks(self.stored, self.scenario, self._proposers()),
            objectives=self._objectives(),
            ways=ways,
            pruned=(*self.pruned, *self.policies.pruned),
            references=tuple(
                Reference(
                    load=load,
                    label=references[load][0],
                    oracle_mean_e2e_s=_mean_e2e_s(oracle, load),
                )
                for load in LOADS
            ),
            chosen=choice.label,
            reason=choice.reason,
            equals=choice.equals,
            hysteresis=hysteresis_of(shipped, edge),
            fallback=fallback_of(shipped, self.policies.times, edge, self.scenario, self.basis),
            measure_next=self._measure_next(shipped, choice.is_sure),
        )
        return found, edge

    def _edge(self, shipped: WayToServe) -> BreakEven:
        if shipped.label in ("off", self._plan_best()):
            return self.compared.edge
        return find_break_even(
            self.runner,
            shipped.proposer,
            shipped.speculation,
            self.compared.edge_truths,
            self.compared.known_off,
        )

    # --- what is simulated ------------------------------------------------------------------

    def _tried(self) -> list[_Tried]:
        self.policies.build(self.compared.best[1])
        extra = [*self.policies.ways, *self._trees()]
        own = own_way(self.scenario)
        extra += [own] if own is not None else []
        fixed = [self._fixed_tried(*key) for key in self.compared.runs if self._is_shown(key)]
        others = [each for way in extra if (each := self._extra_tried(way)) is not None]
        chosen = self._contending_lengths()
        for each in fixed:
            speculation = each.way.speculation
            key = (each.way.proposer, speculation.num_speculative_tokens)
            if key in chosen or each.way.kind == "off":
                self._add_loads(each)
        for each in others:
            self._add_loads(each)
        return sorted([*fixed, *others], key=lambda each: each.way.simplicity)

    def _is_shown(self, key: tuple[str, int]) -> bool:
        """Off once, on the best proposer's recordings."""
        return key[1] > 0 or key[0] == self.compared.best[0]

    def _fixed_tried(self, proposer: str, length: int) -> _Tried:
        runs = self.compared.runs
        return _Tried(
            fixed_way(self.scenario, proposer, length), runs[proposer, length], runs[proposer, 0]
        )

    def _extra_tried(self, way: WayToServe) -> _Tried | None:
        """At the planned load; None where the deployment has no room for it."""
        try:
            planned = self._runs(way, self.scenario, self.compared.truths)
        except (ScenarioError, InfeasibleError) as error:
            self.pruned.append(Pruned(label=way.label, reason=str(error)))
            return None
        return _Tried(way, planned, self.compared.runs[way.proposer, 0])

    def _contending_lengths(self) -> set[tuple[str, int]]:
        """Fixed lengths of the last round: the best, and those of the closed form's table."""
        proposer, best = self.compared.best
        rows = best_rows(self.policies.times, self.scenario.deployment.max_num_seqs)
        lengths = {best, *(row.num_speculative_tokens for row in rows)} - {0}
        found = {(proposer, length) for length in lengths}
        runs = self.compared.runs
        for other in {name for name, _ in runs} - {proposer}:
            key = min(
                (key for key in runs if key[0] == other and key[1] > 0),
                key=lambda key: float(np.mean(np.log(runs[key].e2e_s))),
                default=None,
            )
            if key is not None and np.mean(np.log(runs[key].e2e_s / runs[other, 0].e2e_s)) < 0.0:
                found.add(key)
        return found

    def _batch_at(self, load: LoadName) -> float:
        off = at_fixed_length(self.load_scenarios[load], 0, self.basis.proposer, 0)
        try:
            return estimate_load(self.stored, off, self.basis).batch_size
        except (ScenarioError, InfeasibleError):
            return float(self.scenario.deployment.max_num_seqs)

    def _load_scenarios(self) -> dict[LoadName, Scenario]:
        edge = self.compared.edge
        rates = [point.rate_per_s for point in edge.points]
        sustained = [rate for rate in rates if rate <= edge.saturation_rate_per_s]
        return {
            "light": point_scenario(self.scenario, rates[0]),
            "planned": self.scenario,
            "heavy": point_scenario(self.scenario, max(sustained, default=rates[0])),
        }

    def _add_loads(self, tried: _Tried) -> None:
        tried.loads = {
            "light": self._at_load(tried.way, "light"),
            "planned": (tried.planned, tried.off),
            "heavy": self._at_load(tried.way, "heavy"),
        }

    def _at_load(self, way: WayToServe, load: LoadName) -> tuple[WayRuns, WayRuns]:
        key = (way.proposer, load)
        scenario, truths = self.load_scenarios[load], self.compared.truths[:NUM_LOAD_REPLICATIONS]
        if key not in self._off:
            off = fixed_way(self.scenario, way.proposer, 0)
            self._off[key] = self._runs(off, scenario, truths)
        own = self._off[key] if way.kind == "off" else self._runs(way, scenario, truths)
        return own, self._off[key]

    def _runs(
        self, way: WayToServe, scenario: Scenario, truths: tuple[Replication, ...]
    ) -> WayRuns:
        results = (
            self.runner.run_way(each, way.proposer, way.speculation, scenario) for each in truths
        )
        return way_runs(results, self.latency)

    def _oracle(self) -> _Tried | None:
        """The bound; None where acceptance by position cannot tell what a draft would get."""
        proposer = self.compared.best[0]
        if not self.policies.is_recorded:
            return None
        way = oracle_way(self.scenario, proposer, max(self.lengths))
        found = self._extra_tried(way)
        if found is not None:
            self._add_loads(found)
        return found

    def _trees(self) -> list[WayToServe]:
        """The best static tree of every recorded draft model, at the planned batch."""
        scenario = self.scenario
        if scenario.contract is not Contract.GREEDY_EQUALITY or any(
            scenario.workload.share(name).sampling for name in scenario.workload.domains
        ):
            return []
        if (
            scenario.deployment.preset not in TREE_PRESETS
            or scenario.speculation.acceptance not in ("auto", "trace")
        ):
            return []
        found = []
        for proposer in self._proposers():
            if self.stored.profile.proposers[proposer].kind != "ngram":
                found += self._tree_of(proposer)
        return found

    def _tree_of(self, proposer: str) -> list[WayToServe]:
        batch = max(1, round(self._batch_at("planned")))
        label = f"{proposer}, tree"
        if self.runner.traces(proposer) is None:
            self.pruned.append(
                Pruned(label=label, reason="the profile holds no ranks of recorded tokens")
            )
            return []
        try:
            recording = tree_recording(
                self.stored, proposer, domains=tuple(self.scenario.workload.domains)
            )
            depth = min(recording.traces.max_gamma, MAX_TREE_NODES)
            best = choose_tree(recording, TreeLimits(MAX_TREE_NODES, depth), batch_size=batch).tree
        except (TreeError, ScenarioError) as error:
            self.pruned.append(Pruned(label=label, reason=str(error)))
            return []
        if best is None:
            reason = (
                f"no tree of up to {MAX_TREE_NODES} candidates emits faster than plain decoding at "
                f"batch {batch}, by the cost law"
            )
            self.pruned.append(Pruned(label=label, reason=reason))
            return []
        parents = tuple(best.parents)
        return [tree_way(self.scenario, proposer, parents, best.depth)]

    # --- how it is judged -------------------------------------------------------------------

    def _references(
        self, contenders: list[_Tried], oracle: _Tried | None
    ) -> dict[LoadName, tuple[str, FloatArray]]:
        """Load -> the fastest of all, with its log ratios to off."""
        every = contenders + ([oracle] if oracle is not None else [])
        found: dict[LoadName, tuple[str, FloatArray]] = {}
        for load in LOADS:
            best = min(every, key=lambda each: float(each.log_ratios(load).mean()))
            found[load] = (best.way.label, best.log_ratios(load))
        return found

    def _marked(self, tried: list[_Tried]) -> dict[str, str | None]:
        """Way -> what dominates it; nothing does but what may be recommended itself."""
        scores = {each.way.label: each.scores for each in tried}
        eligible = {each.way.label: each.scores for each in tried if not self._why_not(each)}
        marked = dominators(eligible)
        for label in scores.keys() - eligible.keys():
            marked[label] = dominators({**eligible, label: scores[label]})[label]
        return marked

    def _why_not(self, each: _Tried) -> str:
        reason = why_not(each.way, self.scenario, self._engines(each.way))
        if reason or each.loads:
            return reason
        return "not in the last round: others of its kind are faster by closed form or simulation"

    def _engines(self, way: WayToServe) -> tuple[str, ...]:
        return served_by(way, self.stored.profile.proposers[way.proposer].kind)

    def _way(
        self,
        each: _Tried,
        references: dict[LoadName, tuple[str, FloatArray]],
        regrets: Mapping[str, FloatArray],
        marked: Mapping[str, str | None],
    ) -> Way:
        way, reason = each.way, self._why_not(each)
        label = way.label
        needs_summary = way.kind not in ("off", "fixed")
        return Way(
            label=label,
            kind=way.kind,
            speculation=way.speculation,
            rows=way.rows,
            served_by=self._engines(way),
            is_eligible=not reason,
            why_not=reason,
            objectives=self._values(each),
            keeps_slo_as_off=each.planned.keeps_slo_as(each.off),
            dominated_by=marked[label],
            loads=tuple(
                self._load_result(each, load, references[load][1])
                for load in (LOADS if each.loads else ())
            ),
            expected_regret=float(np.expm1(regrets[label].mean())) if label in regrets else None,
            summary=checked_summary(self.runner.run_way_as_measured(way.proposer, way.speculation))
            if needs_summary
            else None,
        )

    def _values(self, each: _Tried) -> dict[str, Value]:
        found = {
            "mean_e2e": each.planned.e2e_s,
            "latency": each.planned.latency_s,
            "goodput": each.planned.goodput_per_s,
            "device_time": each.planned.device_s,
        }
        return {name: _value(values) for name, values in found.items()}

    def _load_result(self, each: _Tried, load: LoadName, reference: FloatArray) -> LoadResult:
        own, _ = each.loads[load]
        logs = each.log_ratios(load)
        speedup = ratio_interval(np.exp(-logs))
        regret = ratio_interval(np.exp(logs - reference))
        return LoadResult(
            load=load,
            rate_per_s=mean_rate_per_s(self.load_scenarios[load].workload),
            mean_e2e_s=float(own.e2e_s.mean()),
            speedup=speedup.value,
            speedup_interval=(speedup.lower, speedup.upper),
            regret=regret.value - 1.0,
            regret_interval=(regret.lower - 1.0, regret.upper - 1.0),
        )

    def _objectives(self) -> tuple[Objective, ...]:
        goodput = "goodput" if self.scenario.slo.model_dump(exclude_none=True) else "throughput"
        return (
            Objective(name="mean_e2e", label="mean E2E", unit="s", is_better="lower"),
            Objective(name="latency", label=self.latency.label, unit="s", is_better="lower"),
            Objective(name="goodput", label=goodput, unit="requests/s", is_better="higher"),
            Objective(
                name="device_time",
                label="busy device time",
                unit="device-s per million output tokens",
                is_better="lower",
            ),
        )

    def _plan_best(self) -> str:
        return fixed_way(self.scenario, *self.compared.best).label

    def _proposers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.compared.runs))

    def _measure_next(self, shipped: WayToServe, is_sure: bool) -> tuple[str, ...]:
        """What would narrow the answer, the profile's own uncertainty first."""
        if is_sure:
            return ()
        proposer, length = self.compared.best
        if shipped.kind != "off":
            proposer, length = shipped.proposer, shipped.speculation.num_speculative_tokens
        found = []
        batch = max(1, round(self._batch_at("planned")))
        error = self.stored.profile.cost.held_out_error.get("target")
        if error is not None:
            found.append(
                f"time more steps of {length + 1} tokens a request near batch {batch}: the cost "
                f"law is off by up to {100 * error.p90_rel:.1f} % at its 90th percentile"
            )
        traces = self.runner.traces(proposer)
        if traces is not None:
            found.append(
                f"record more than the {traces.num_requests} requests of {proposer}: their "
                "bootstrap is part of every interval"
            )
        else:
            found.append(
                f"record requests of {proposer} on your own prompts: the profile holds acceptance "
                "by position only, so the interval knows nothing of how requests differ"
            )
        return tuple(found)


def _mean_e2e_s(oracle: _Tried | None, load: LoadName) -> float | None:
    return None if oracle is None else float(oracle.loads[load][0].e2e_s.mean())


def _value(values: FloatArray) -> Value:
    """Mean with the interval for one more replication; without spread where there is only one."""
    mean = float(values.mean())
    if len(values) == 1 or not mean > 0.0:
        return Value(mean=mean, interval=(mean, mean))
    found = ratio_interval(np.maximum(values, 1e-12))
    return Value(mean=mean, interval=(min(found.lower, mean), max(found.upper, mean)))
