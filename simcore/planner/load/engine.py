"""One replica by the number of its running requests, whatever the load: speeds, limits, policy."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from simcore.engines import RULES
from simcore.errors import ScenarioError
from simcore.planner.load.basis import LoadBasis
from simcore.planner.load.cycles import CycleLaw
from simcore.planner.load.limits import BatchLimits, batch_limits, recomputed_tokens
from simcore.planner.load.queue import SPREADS, Occupancy, Service
from simcore.planner.load.steps import LifeTimes, Lives, life_times
from simcore.scenario import Scenario
from simcore.serving.memory import kv_budget
from simcore.speculation import BatchSizeTable, DraftMode, GoodputPolicy

FloatArray = NDArray[np.float64]

MOST_LEVELS = 512  # beyond, levels are spaced evenly in the logarithm
TAIL = 0.95
LEAST_SPREAD = 1e-3  # of requests all alike, whose number in memory does not vary


@dataclass(frozen=True)
class Engine:
    """A replica by running requests; arrays of [num_levels] at `levels`."""

    service: Service
    limits: BatchLimits
    levels: FloatArray
    times: LifeTimes
    cycles: FloatArray  # decode cycles of a request that lives at this level
    pace: FloatArray  # mean over requests of cycles / (tokens - 1)
    slow_pace: FloatArray  # its 95th percentile
    law: CycleLaw  # at the draft length of a full batch
    mode: DraftMode

    def seen(self, occupancy: Occupancy, values: FloatArray) -> float:
        """Mean of values by level as arriving requests meet them, counting themselves."""
        level = np.minimum(occupancy.levels + 1.0, self.service.most)
        return float(occupancy.shares @ np.interp(level, self.levels, values))

    def while_running(self, occupancy: Occupancy, values: FloatArray) -> float:
        """Mean of values by level over the time of running requests."""
        weights = occupancy.shares * occupancy.levels
        found = np.interp(occupancy.levels, self.levels, values)
        return float(weights @ found / max(weights.sum(), 1e-300))


def engine_of(scenario: Scenario, basis: LoadBasis) -> Engine:
    """The engine of the scenario's deployment and speculation.

    Raises ScenarioError for a policy without a closed form, InfeasibleError where no KV fits.
    """
    modes = _modes(scenario)
    limits = _limits(scenario, basis, modes)
    levels = _levels(max(each.running for each in limits))
    times = [_times(scenario, basis, mode, levels) for mode in modes]
    chosen = _chosen(scenario, levels, modes, times)
    top = _mode_when_full(levels, chosen, limits)
    laws = [basis.cycle_law(scenario, mode) for mode in modes]
    paces = np.array([_paces(law, basis.requests.output_tokens) for law in laws])
    merged = _merged(times, chosen)
    service = _service(scenario, basis, limits[top], modes[top], merged, levels)
    return Engine(
        service=service,
        limits=limits[top],
        levels=levels,
        times=merged,
        cycles=np.array([law.mean_cycles for law in laws])[chosen],
        pace=paces[chosen, 0],
        slow_pace=paces[chosen, 1],
        law=laws[top],
        mode=modes[top],
    )


def _service(
    scenario: Scenario,
    basis: LoadBasis,
    limits: BatchLimits,
    mode: DraftMode,
    times: LifeTimes,
    levels: FloatArray,
) -> Service:
    law = basis.cycle_law(scenario, mode)
    room, extra_s = np.inf, 0.0
    if limits.kv < limits.counted + SPREADS * limits.kv_deviation:
        room = limits.kv
        running = limits.running
        again = recomputed_tokens(scenario, basis.requests, law, mode, running)
        a_token_s = float(np.interp(running, levels, times.added_s))
        a_token_s /= float(basis.requests.prompt_tokens.mean())
        extra_s = running * again * a_token_s
    spread = max(limits.kv_deviation, LEAST_SPREAD)
    return Service(levels, times.life_s, limits.counted, room, spread, extra_s)


def _modes(scenario: Scenario) -> list[DraftMode]:
    """The draft modes that the policy may put in force, the longest last."""
    speculation, policy = scenario.speculation, scenario.speculation.policy
    if policy.kind == "oracle":
        raise ScenarioError(
            "policy 'oracle' has no closed form; use `specplan simulate`, or estimate a fixed "
            "draft length"
        )
    modes = speculation.modes()
    lengths: tuple[int, ...] = (speculation.num_speculative_tokens,)
    if isinstance(policy, BatchSizeTable | GoodputPolicy):
        lengths = speculation.draft_lengths()
    return [modes[length] for length in lengths]


def _has_draft(scenario: Scenario, basis: LoadBasis) -> bool:
    """Whether a proposer with KV slots of its own is loaded."""
    if scenario.speculation.num_speculative_tokens == 0:
        return False
    return basis.stored.profile.proposers[basis.proposer].kind != "ngram"


def _limits(scenario: Scenario, basis: LoadBasis, modes: list[DraftMode]) -> list[BatchLimits]:
    budget = kv_budget(basis.stored.profile, scenario.deployment, scenario.speculation)
    return [
        batch_limits(
            scenario,
            budget,
            basis.requests,
            basis.cycle_law(scenario, mode),
            mode,
            max_output_tokens=basis.max_output_tokens,
            has_draft=_has_draft(scenario, basis),
        )
        for mode in modes
    ]


def _levels(most: float) -> FloatArray:
    """Numbers of running requests at which times are priced."""
    last = max(int(np.ceil(most)), 1)
    if last <= MOST_LEVELS:
        return np.arange(1.0, last + 1.0)
    return np.unique(np.rint(np.geomspace(1.0, last, MOST_LEVELS)))


def _times(scenario: Scenario, basis: LoadBasis, mode: DraftMode, levels: FloatArray) -> LifeTimes:
    law, rules = basis.cycle_law(scenario, mode), RULES[scenario.deployment.preset]
    requests = basis.requests
    weights = law.cycles / max(law.cycles.sum(), 1e-300)
    held = requests.prompt_tokens + (requests.output_tokens - 1) / 2.0
    context = float((weights * held).sum())  # not by BLAS, which would wake all its threads
    lives = Lives(
        cycles=law,
        mode=mode,
        context_tokens=context,
        prompt_tokens=basis.prompt_tokens,
        may_speculate=1.0 - scenario.speculation.plain_fraction,
        is_padded=rules.pads_drafts,
    )
    return life_times(
        basis.law_tables(scenario),
        lives,
        levels,
        budget_tokens=float(scenario.deployment.max_num_batched_tokens),
        prefills_apart=rules.prefills_apart,
    )


def _chosen(
    scenario: Scenario, levels: FloatArray, modes: list[DraftMode], times: list[LifeTimes]
) -> NDArray[np.int64]:
    """[num_levels] which mode the policy puts in force."""
    policy = scenario.speculation.policy
    if isinstance(policy, BatchSizeTable):
        lengths = [mode.depth for mode in modes]
        chosen = np.full(len(levels), len(modes) - 1)
        for first, _, length in policy.table:
            chosen[levels >= first] = lengths.index(length)
        return chosen
    return np.asarray(np.argmin([each.life_s for each in times], axis=0), dtype=np.int64)


def _mode_when_full(
    levels: FloatArray, chosen: NDArray[np.int64], limits: list[BatchLimits]
) -> int:
    """The mode in force at the most requests that it lets run itself."""
    for place in range(len(levels) - 1, -1, -1):
        mode = int(chosen[place])
        if levels[place] <= np.ceil(limits[mode].running):
            return mode
    return int(chosen[0])


def _merged(times: list[LifeTimes], chosen: NDArray[np.int64]) -> LifeTimes:
    """Times under the mode chosen at each level."""
    place = np.arange(len(chosen))
    return LifeTimes(
        **{
            each.name: np.array([getattr(time, each.name) for time in times])[chosen, place]
            for each in fields(LifeTimes)
        }
    )


def _paces(law: CycleLaw, output_tokens: NDArray[np.int64]) -> tuple[float, float]:
    """Mean and 95th percentile over requests of cycles / (tokens - 1); those of one token apart."""
    several = output_tokens > 1
    if not several.any():
        return 1.0, 1.0
    left = output_tokens[several] - 1
    pace = law.cycles[several] / left
    # Beside the differences between requests, chance: the width of both together.
    spread = np.sqrt(law.variances[several]) / left
    width = float(np.sqrt(pace.var() + np.mean(spread**2)))
    tail = float(np.quantile(pace, TAIL))
    if pace.std() > 0.0:
        tail = float(pace.mean() + (tail - pace.mean()) * width / pace.std())
    elif width > 0.0:
        tail = float(pace.mean() + 1.645 * width)
    return float(pace.mean()), tail
