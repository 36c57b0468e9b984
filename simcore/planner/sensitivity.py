"""Which input, moved by how much, flips the decision between speculating and off.

One input at a time by the closed form; where the gain crosses 1 within its range the crossing is
found by bisection and checked by simulation, off and on under the same requests.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simcore.errors import ScenarioError, SpecplanError
from simcore.planner.case import Case, case_of, chosen_gamma, mean_seconds
from simcore.planner.load.accuracy import load_accuracy, regime_of
from simcore.planner.load_estimate import LoadEstimate
from simcore.planner.replication import Progress, ratio_interval
from simcore.planner.sensitivity_document import End, Flip, Grows, InputEffect, Sensitivity
from simcore.planner.sensitivity_inputs import Input, Pair, inputs_of
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario
from simcore.serving.simulation import origin

NUM_GRID = 13
NUM_BISECTIONS = 14
DEFAULT_SEEDS = 5
MAX_REQUESTS = 1000


def sensitivity(
    scenario: Scenario,
    *,
    stored: StoredProfile | None = None,
    proposer: str | None = None,
    gamma: int | None = None,
    num_seeds: int = DEFAULT_SEEDS,
    progress: Progress | None = None,
) -> Sensitivity:
    """The gain of one draft length (the scenario's own, or the fastest) with each input moved.

    `num_seeds` simulations of off and of on at every flip; 0: none. Raises ScenarioError where
    the scenario does not fit its profile or neither service carries its load.
    """
    stored = stored or load_profile(scenario.profile)
    case = case_of(stored, scenario, proposer)
    chosen = chosen_gamma(case) if gamma is None else gamma
    base = _gain((case.at_gamma(0), case.at_gamma(chosen)))
    if base.grows == "both" or base.reason:
        raise ScenarioError(
            base.reason
            or "neither off nor speculation carries this load; lower it, or add "
            "replicas, and ask again"
        )
    inputs, left_out = inputs_of(case, chosen)
    effects = []
    for done, each in enumerate(inputs, start=1):
        effects.append(_effect(each, base, num_seeds))
        if progress is not None:
            progress(done, len(inputs))
    effects.sort(key=lambda each: np.inf if each.swing is None else each.swing, reverse=True)
    return Sensitivity(
        origin=origin(case.scenario, stored),
        proposer=case.proposer,
        num_speculative_tokens=chosen,
        base=base.end(0.0),
        decision="speculate" if base.log > 0.0 else "off",
        effects=tuple(effects),
        left_out=left_out,
        notes=(
            "one input at a time, everything else held; gains by the closed form, means over "
            "requests long after the start",
            "a gain above 1 speculates; flips are the crossings of 1, not of an interval",
        ),
    )


@dataclass(frozen=True)
class _Gain:
    """log of off / on; infinite where only one carries the load, NaN where neither does."""

    log: float
    grows: Grows | None = None
    reason: str = ""
    estimate: LoadEstimate | None = None

    def end(self, value: float) -> End:
        known = np.isfinite(self.log)
        return End(
            value=value,
            speedup=float(np.exp(self.log)) if known else None,
            grows=self.grows,
            reason=self.reason or _growing(self.grows),
        )


def _growing(grows: Grows | None) -> str:
    if grows is None:
        return ""
    who = {"off": "without speculation", "on": "with speculation", "both": "either way"}[grows]
    return f"{who} the queue grows for ever"


def _gain(pair: Pair) -> _Gain:
    try:
        off, on = (case.estimate() for case in pair)
    except SpecplanError as error:
        return _Gain(np.nan, reason=str(error))
    if off.e2e_s is not None and on.e2e_s is not None:
        return _Gain(float(np.log(off.e2e_s / on.e2e_s)), estimate=on)
    if off.e2e_s is None and on.e2e_s is None:
        return _Gain(np.nan, "both")
    return _Gain(np.inf, "off", estimate=on) if off.e2e_s is None else _Gain(-np.inf, "on")


def _effect(moved: Input, base: _Gain, num_seeds: int) -> InputEffect:
    values = moved.grid(NUM_GRID)
    gains = [base if value == moved.base else _at(moved, value) for value in values]
    logs = np.array([each.log for each in gains])
    at = dict(zip(values.tolist(), gains, strict=True))
    low, high = at[moved.low], at[moved.high]
    swing = abs(high.log - low.log)
    return InputEffect(
        name=moved.name,
        unit=moved.unit,
        base=moved.base,
        low=low.end(moved.low),
        high=high.end(moved.high),
        range_reason=moved.range_reason,
        swing=float(swing) if np.isfinite(swing) else None,
        flip=_flip(moved, values, logs, num_seeds),
        searched=moved.searched,
    )


def _at(moved: Input, value: float) -> _Gain:
    try:
        pair = moved.moved(float(value))
    except SpecplanError as error:
        return _Gain(np.nan, reason=str(error))
    return _gain(pair)


def _flip(moved: Input, values: np.ndarray, logs: np.ndarray, num_seeds: int) -> Flip | None:
    """The crossing of 0 nearest to the base, on either side."""
    start = int(np.searchsorted(values, moved.base))
    found = [
        value
        for path in (range(start, len(values) - 1), range(start - 1, -1, -1))
        if (value := _first_crossing(moved, values, logs, path)) is not None
    ]
    if not found:
        return None
    distance = _distance(moved)
    value = min(found, key=distance)
    return _checked(moved, value, num_seeds)


def _first_crossing(
    moved: Input, values: np.ndarray, logs: np.ndarray, path: range
) -> float | None:
    for left in path:
        pair = logs[left : left + 2]
        if np.isnan(pair).any():
            return None
        if (pair[0] > 0.0) != (pair[1] > 0.0):
            return bisected(
                lambda value: _at(moved, value).log,
                float(values[left]),
                float(values[left + 1]),
                rises=bool(pair[1] > 0.0),
                by_factors=moved.searched[0] > 0.0,
            )
    return None


def bisected(
    log_gain: Callable[[float], float], low: float, high: float, *, rises: bool, by_factors: bool
) -> float:
    """Where `log_gain` passes 0 between `low` and `high`, on whose sides it has either sign."""
    for _ in range(NUM_BISECTIONS):
        middle = float(np.sqrt(low * high)) if by_factors else (low + high) / 2.0
        low, high = (low, middle) if (log_gain(middle) > 0.0) == rises else (middle, high)
    return float(np.sqrt(low * high)) if by_factors else (low + high) / 2.0


def _distance(moved: Input) -> Callable[[float], float]:
    if moved.searched[0] > 0.0:
        return lambda value: abs(float(np.log(value / moved.base)))
    return lambda value: abs(value - moved.base)


def _checked(moved: Input, value: float, num_seeds: int) -> Flip:
    """The flip with what simulation says there."""
    within = moved.low <= value <= moved.high
    if num_seeds == 0 or not moved.is_simulated:
        why = "" if num_seeds == 0 else "recorded lengths cannot be stretched in a simulation"
        return Flip(
            value=value,
            is_within_range=within,
            simulated_speedup=None,
            simulated_interval=None,
            is_confirmed=None,
            reason=why,
        )
    try:
        off, on = (_shortened(case) for case in moved.moved(value))
        seeds = [off.scenario.seed + index for index in range(num_seeds)]
        seconds = [[mean_seconds(case.simulate(s), "e2e") for s in seeds] for case in (off, on)]
    except SpecplanError as error:
        return Flip(
            value=value,
            is_within_range=within,
            simulated_speedup=None,
            simulated_interval=None,
            is_confirmed=None,
            reason=str(error),
        )
    found = ratio_interval(np.array(seconds[0]) / np.array(seconds[1]))
    bound = _closed_form_error(on.estimate())
    near = abs(float(np.log(found.value))) <= bound or found.lower <= 1.0 <= found.upper
    return Flip(
        value=value,
        is_within_range=within,
        simulated_speedup=found.value,
        simulated_interval=(found.lower, found.upper),
        is_confirmed=near,
        reason=""
        if near
        else f"simulated, the speed-up is {found.value:.3f} where the closed form says 1: trust "
        "the place of this flip no further than that",
    )


def _shortened(case: Case) -> Case:
    count = case.scenario.workload.num_requests
    if count is None or count <= MAX_REQUESTS:
        return case
    return case.with_(**{"workload.num_requests": MAX_REQUESTS})


def _closed_form_error(estimate: LoadEstimate) -> float:
    """Median measured error of E2E in this regime, of each of the two services."""
    median = load_accuracy().regimes[regime_of(estimate)].e2e.median_rel
    return 2.0 * (median or 0.0)
