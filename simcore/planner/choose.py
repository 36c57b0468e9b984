"""Which way is shipped: of those that pay, the simplest that cannot be told from the best."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simcore.planner.pareto import is_surely_positive
from simcore.planner.recommendation import LoadName, Way
from simcore.planner.ways import SIMPLICITY

FloatArray = NDArray[np.float64]

OFF = "off"
# A way whose expected regret is less than this above another's is as good: what is simpler wins.
NEGLIGIBLE_REGRET = 0.01


class Choice(NamedTuple):
    """The way to ship, and how sure that is."""

    label: str
    reason: str
    equals: tuple[str, ...]
    is_sure: bool  # no other eligible way could as well be the best


def expected_regrets(
    log_ratios: Mapping[str, Mapping[LoadName, FloatArray]],
    references: Mapping[LoadName, FloatArray],
) -> dict[str, FloatArray]:
    """Way -> [num_replications] log of mean E2E over the reference's, averaged over the loads.

    Replications of all loads share their uncertain inputs by number, so they are averaged so.
    """
    count = min(len(reference) for reference in references.values())
    found = {}
    for label, by_load in log_ratios.items():
        parts = [by_load[load] - references[load] for load in references]
        # The planned load has more replications: its mean counts whole, its spread by number.
        centred = [part[:count] - part[:count].mean() + part.mean() for part in parts]
        found[label] = np.asarray(np.mean(centred, axis=0))
    return found


def choose(ways: tuple[Way, ...], regrets: Mapping[str, FloatArray]) -> Choice:
    """Of the ways that surely beat off at the planned load and are on the front, the simplest.

    Draft lengths are as simple as one another: of them the one with the least expected regret.
    """
    paying = [way for way in ways if _pays(way)] or [way for way in ways if _pays_behind(way)]
    if not paying:
        return _off(ways)
    leader = min(paying, key=lambda way: float(regrets[way.label].mean()))
    same = [way for way in paying if not _is_worse(regrets, way.label, leader.label)]
    chosen = min(
        same,
        key=lambda way: (
            SIMPLICITY.index(way.kind),
            float(regrets[way.label].mean()),
        ),
    )
    front = [way for way in ways if _is_on_front(way) and way is not chosen]
    equals = tuple(way.label for way in front if not _is_worse(regrets, way.label, chosen.label))
    planned = chosen.at("planned")
    low, high = planned.speedup_interval
    reason = (
        f"{chosen.label} makes the mean request {planned.speedup:.3f} times as fast as without "
        f"speculation at the planned load ({low:.3f} to {high:.3f}, 95 % interval); over a light, "
        f"the planned and a heavy load it stays {_percent(chosen.expected_regret)} behind the best "
        "that hindsight could choose"
    )
    if chosen is not leader:
        reason += f"; {leader.label} is no better that could be told, and less simple"
    elif not equals:
        reason += "; every other way on the front is surely further behind"
    elif not any(way.label in equals for way in paying):
        reason += "; the others that come as near are not surely faster than off"
    return Choice(chosen.label, reason, equals, is_sure=not equals)


def _off(ways: tuple[Way, ...]) -> Choice:
    unsure = tuple(
        way.label
        for way in ways
        if way.kind != OFF and way.is_eligible and way.loads and _holds_one(way)
    )
    reason = "no way to speculate is surely faster than off at the planned load"
    if any(_pays(way, on_front=False) for way in ways):
        reason = "what is faster is no better in any other objective, or misses the SLO"
    gains = [
        f"{way.label} at the {each.load} load ({each.speedup:.3f} times as fast)"
        for way in ways
        for each in way.loads
        if way.is_eligible and each.load != "planned" and each.speedup_interval[0] > 1.0
    ]
    if gains:
        reason += f"; elsewhere it would pay: {gains[0]}"
    return Choice(OFF, reason, unsure, is_sure=not unsure)


def _is_contender(way: Way) -> bool:
    return way.kind != OFF and way.is_eligible and bool(way.loads)


def _is_on_front(way: Way) -> bool:
    return _is_contender(way) and way.dominated_by is None and way.keeps_slo_as_off


def _pays(way: Way, *, on_front: bool = True) -> bool:
    allowed = _is_on_front(way) if on_front else _is_contender(way)
    return allowed and _planned_interval(way)[0] > 1.0


def _pays_behind(way: Way) -> bool:
    """Surely beats off, and only a way that does not surely do so is better in the mean."""
    return _pays(way, on_front=False) and way.keeps_slo_as_off and way.dominated_by != OFF


def _holds_one(way: Way) -> bool:
    low, high = _planned_interval(way)
    return low <= 1.0 <= high


def _planned_interval(way: Way) -> tuple[float, float]:
    return way.at("planned").speedup_interval


def _is_worse(regrets: Mapping[str, FloatArray], label: str, than: str) -> bool:
    """Surely slower over the loads, and by more than is negligible."""
    if label == than:
        return False
    lost = regrets[label] - regrets[than]
    return float(lost.mean()) > NEGLIGIBLE_REGRET and is_surely_positive(lost)


def _percent(share: float | None) -> str:
    return f"{100 * max(share or 0.0, 0.0):.1f} %"
