"""The highest load that a service bears, by bracketing and bisection under noise.

A load is judged from independent seeds, the same at every load (common random numbers): it is met
or missed where the seeds leave no doubt, else undecided. The search closes in on the highest load
met and the lowest missed from both sides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from simcore.metrics.estimate import CONFIDENCE

RESOLUTION = 0.01  # relative, of a load
MAX_LOOKS = 3  # at a load, each with as many seeds more
FIRST_STEP = 1.15  # of the bracket upwards; squared each time
MAX_LOADS = 60

Verdict = Literal["met", "missed", "undecided"]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """One load: by how much every requirement was met under every seed."""

    load: float
    margins: FloatArray  # [num_seeds, num_requirements]; below 0: missed
    verdict: Verdict

    @property
    def mean_margin(self) -> float:
        """Of the requirement that is nearest to be missed, over the seeds."""
        return float(self.margins.mean(axis=0).min())

    @property
    def worst(self) -> int:
        """Index of that requirement."""
        return int(self.margins.mean(axis=0).argmin())


@dataclass(frozen=True)
class LimitSearch:
    """Where the load that is just borne lies."""

    met: Judgement | None  # the highest load that is met; None: not even the lightest is
    missed: Judgement | None  # the lowest that is missed; None: not even the heaviest is
    tried: tuple[Judgement, ...]  # ascending

    @property
    def best(self) -> float:
        """Where the mean margin crosses zero between the two ends, by interpolation."""
        assert self.met is not None
        most = np.inf if self.missed is None else self.missed.load
        inside = [each for each in self.tried if self.met.load <= each.load <= most]
        return _crossing(inside, [each.mean_margin for each in inside])

    def by_seed(self, num_seeds: int) -> tuple[float, ...]:
        """The same under each of the first seeds alone; an end where a seed does not cross."""
        worst = [each.margins.min(axis=1) for each in self.tried]
        return tuple(
            _crossing(self.tried, [float(margins[seed]) for margins in worst])
            for seed in range(num_seeds)
        )


def _crossing(tried: Sequence[Judgement], margins: Sequence[float]) -> float:
    """The first load from which on the margin is below zero."""
    loads = [each.load for each in tried]
    below = np.flatnonzero(np.array(margins) < 0.0)
    if not len(below):
        return loads[-1]
    first = int(below[0])
    if first == 0:
        return loads[0]
    share = margins[first - 1] / (margins[first - 1] - margins[first])
    return loads[first - 1] + share * (loads[first] - loads[first - 1])


def judge(load: float, run: Callable[[int], FloatArray], num_seeds: int) -> Judgement:
    """Judge one load; `run(seed index)` gives the margin of every requirement.

    Met: every mean margin is surely at or above 0; missed: some is surely below, by Student's t
    over the seeds. In doubt as many seeds are added again, MAX_LOOKS times in all; each look has
    the same part of the error that a 95 % interval leaves (Bonferroni).
    """
    margins: list[FloatArray] = []
    for _ in range(MAX_LOOKS):
        margins += [run(index) for index in range(len(margins), len(margins) + num_seeds)]
        found = _verdict(np.array(margins))
        if found != "undecided":
            break
    return Judgement(load, np.array(margins), found)


def _verdict(margins: FloatArray) -> Verdict:
    count = len(margins)
    quantile = float(special.stdtrit(count - 1, 1.0 - (1.0 - CONFIDENCE) / 2 / MAX_LOOKS))
    mean = margins.mean(axis=0)
    reach = quantile * margins.std(axis=0, ddof=1) / np.sqrt(count)
    if (mean - reach >= 0.0).all():
        return "met"
    return "missed" if (mean + reach < 0.0).any() else "undecided"


def search_limit(
    judged: Callable[[float], Judgement],
    *,
    start: float,
    least: float,
    most: float,
    is_whole: bool = False,
) -> LimitSearch:
    """The highest load met and the lowest missed, within RESOLUTION unless the seeds cannot tell.

    Loads between them, where there are any, are undecided. `is_whole`: loads are whole numbers.
    """
    tried: dict[float, Judgement] = {}

    def ask(load: float) -> Judgement:
        load = float(round(load)) if is_whole else load
        if load not in tried:
            tried[load] = judged(load)
        return tried[load]

    met = _met_below(ask, start, least)
    missed = None if met is None else _missed_above(ask, max(start, met.load), most)
    if met is not None and missed is not None:
        met, missed = _narrow(ask, tried, met, missed, 1.0 if is_whole else 0.0)
    return LimitSearch(met, missed, tuple(tried[load] for load in sorted(tried)))


def _met_below(ask: Callable[[float], Judgement], start: float, least: float) -> Judgement | None:
    found = ask(start)
    if found.verdict == "met":
        return found
    if ask(least).verdict != "met":
        return None
    load = start
    while True:  # ends at the lightest, which is met
        load = max(load / 2, least)
        found = ask(load)
        if found.verdict == "met":
            return found


def _missed_above(ask: Callable[[float], Judgement], start: float, most: float) -> Judgement | None:
    found, step = ask(start), FIRST_STEP
    while found.verdict != "missed":
        if found.load >= most:
            return None
        found, step = ask(min(found.load * step, most)), step**2
    return found


def _narrow(
    ask: Callable[[float], Judgement],
    tried: dict[float, Judgement],
    met: Judgement,
    missed: Judgement,
    unit: float,
) -> tuple[Judgement, Judgement]:
    """Bisect the sides of what is undecided, or all that lies between."""
    while len(tried) < MAX_LOADS:
        met = max(
            (
                each
                for each in tried.values()
                if met.load <= each.load < missed.load and each.verdict == "met"
            ),
            key=lambda each: each.load,
        )
        missed = min(
            (each for each in tried.values() if met.load < each.load and each.verdict == "missed"),
            key=lambda each: each.load,
        )
        inside = [load for load in tried if met.load < load < missed.load]
        sides = [(met.load, min(inside)), (max(inside), missed.load)] if inside else []
        wide = [side for side in sides or [(met.load, missed.load)] if _is_wide(*side, unit)]
        if not wide:
            break
        ask(float(np.sqrt(wide[0][0] * wide[0][1])))
    return met, missed


def _is_wide(low: float, high: float, unit: float) -> bool:
    """Whether another load lies between that is worth a look."""
    return high / low > 1.0 + RESOLUTION and high - low > unit
