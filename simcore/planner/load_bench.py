"""One service at many loads under the same seeds: by how much it meets its SLO, and saturation."""

from collections.abc import Callable
from functools import partial

import numpy as np

from simcore.acceptance.trace import TraceSet
from simcore.errors import ScenarioError
from simcore.metrics.attainment import slo_margins
from simcore.metrics.replicated import ReplicatedSummary, replicate
from simcore.metrics.summary import Summary, summarise
from simcore.planner.break_even import at_rate
from simcore.planner.limit_search import FloatArray, Judgement, LimitSearch, judge, search_limit
from simcore.planner.saturation import saturation_of
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult, simulate

KEEPS_UP = "keeps_up"
START_SHARE, LIGHTEST_SHARE, HEAVIEST_SHARE = 0.85, 1e-3, 8.0  # of saturation
REQUESTS_PER_USER = 10
MOST_USERS_PER_SEAT = 64


class LoadBench:
    """Runs one service; every load meets the same requests with the same luck, seed by seed.

    The scenario's arrivals are run faster or slower; a closed loop is given more or fewer users.
    Only summaries are kept.
    """

    def __init__(
        self,
        scenario: Scenario,
        stored: StoredProfile,
        num_seeds: int,
        on_run: Callable[[], None] | None,
    ) -> None:
        self.scenario = scenario
        self._stored = stored
        self.num_seeds = num_seeds
        self._on_run = on_run
        self._traces: TraceSet | None = None
        self._saturation_per_s: dict[int, float] = {}
        self.is_closed_loop = scenario.workload.arrivals.kind == "closed_loop"
        # A bounded queue, or clients who leave, cannot fall behind: whoever is lost has missed.
        bounded = scenario.deployment.max_queue is not None
        bounded = bounded or scenario.workload.patience_s is not None
        self.must_keep_up = not self.is_closed_loop and not bounded

    def requirements(self) -> dict[str, float]:
        """Requirement -> the share that it asks for; keeping up asks for saturation / load of 1."""
        shares = self.scenario.slo.required_shares()
        return shares | {KEEPS_UP: 1.0} if self.must_keep_up else shares

    def search(self) -> LimitSearch:
        """The highest load that meets every requirement."""
        if self.is_closed_loop:
            deployment = self.scenario.deployment
            seats = deployment.replicas * deployment.max_num_seqs
            most = float(MOST_USERS_PER_SEAT * seats)
            return search_limit(self.judge, start=float(seats), least=1.0, most=most, is_whole=True)
        saturation = self.saturation_rate_per_s()
        return search_limit(
            self.judge,
            start=START_SHARE * saturation,
            least=LIGHTEST_SHARE * saturation,
            most=HEAVIEST_SHARE * saturation,
        )

    def judge(self, load: float) -> Judgement:
        """Whether the service bears this load."""
        return judge(load, partial(self._margins, load), self.num_seeds)

    def summary(self, load: float, num_seeds: int) -> ReplicatedSummary:
        """Every metric at this load, over so many seeds."""
        found: list[Summary] = [
            summarise(self._run(self.at(load), index)) for index in range(num_seeds)
        ]
        return replicate(found)

    def at(self, load: float) -> Scenario:
        """The scenario at this load."""
        if not self.is_closed_loop:
            return at_rate(self.scenario, load)
        users = round(load)
        count = self.scenario.workload.num_requests or 0
        return self.scenario.with_(
            **{
                "workload.arrivals.num_clients": users,
                "workload.num_requests": max(count, REQUESTS_PER_USER * users),
            }
        )

    def saturation_rate_per_s(self) -> float:
        """Requests a second that it finishes when never idle, mean over the first seeds."""
        return float(np.mean(self.saturations_per_s()))

    def saturations_per_s(self) -> list[float]:
        """The same by seed."""
        return [self._saturation(index) for index in range(self.num_seeds)]

    def _saturation(self, index: int) -> float:
        if index not in self._saturation_per_s:
            self._saturation_per_s[index] = saturation_of(
                self.scenario, lambda each: self._run(each, index).request_records
            )
        return self._saturation_per_s[index]

    def _margins(self, load: float, index: int) -> FloatArray:
        margins = list(slo_margins(self._run(self.at(load), index)).values())
        if self.must_keep_up:
            margins.append(self._saturation(index) / load - 1.0)
        return np.array(margins)

    def _run(self, scenario: Scenario, index: int) -> SimulationResult:
        seeded = scenario.with_(seed=self.scenario.seed + index)
        result = simulate(seeded, stored=self._stored, traces=self._traces, keep_steps=False)
        self._traces = result.model.traces  # read once; the same under every seed
        if self._on_run is not None:
            self._on_run()
        return result


def check_searchable(scenario: Scenario, num_seeds: int) -> None:
    """Raise ScenarioError where there is no load to search, or nothing that it must meet."""
    if num_seeds < 2:  # noqa: PLR2004  an interval needs two
        raise ScenarioError(f"{num_seeds} seeds; a capacity is judged from at least 2")
    if scenario.workload.arrivals.kind == "batch":
        raise ScenarioError(
            "'batch' arrivals come all at once, so there is no load to search; give the workload "
            "arrivals with a rate (poisson, gamma, recorded, ..) or a closed loop"
        )
    if not scenario.slo.limits():
        raise ScenarioError(
            f"scenario {scenario.name!r} has no SLO, so every load meets it; give slo.ttft_s, "
            "slo.tpot_s, slo.itl_s or slo.e2e_s"
        )
