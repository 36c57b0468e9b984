"""Which of several candidates is best, from values paired by seed; and when that is decided.

A race (Maron & Moore, "Hoeffding races", NIPS 1993) gives every candidate a few seeds, drops those
that are surely worse than the leader, and spends further seeds on the rest. The test is the paired
Student's t with Bonferroni's correction (tBo-Race in Birattari, Stützle, Paquete & Varrentrapp, "A
racing algorithm for configuring metaheuristics", GECCO 2002), on logarithms where every value is
positive: under common random numbers most of the noise is shared and leaves the ratio.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]  # [num_seeds] of the objective; NaN where a seed gave none

LEVEL = 0.05


@dataclass(frozen=True)
class Standings:
    """The best candidate, and those that cannot be told from it."""

    best: int
    indistinguishable: tuple[int, ...]
    worse: tuple[int, ...]


def standings(
    values: Mapping[int, Values], *, larger_is_better: bool, level: float = LEVEL
) -> Standings | None:
    """Rank candidates, id -> values by seed from the first on; None where none has a value.

    The best has the best mean of those with the most seeds: whoever a race dropped has lost to one
    of them, and the mean of its few seeds may owe to their luck. Another is worse where the
    two-sided 1 − level interval of its paired difference from the best leaves out zero; with fewer
    than two seeds in common nothing is. A candidate without any value is worse than one with.
    """
    counts = {each: np.count_nonzero(~np.isnan(found)) for each, found in values.items()}
    most = max(counts.values(), default=0)
    means = {each: _mean(values[each]) for each, count in counts.items() if count == most}
    ranked = {each: mean for each, mean in means.items() if not np.isnan(mean)}
    if not ranked:
        return None
    sign = 1.0 if larger_is_better else -1.0
    best = max(ranked, key=lambda each: sign * ranked[each])
    others = [each for each in values if each != best]
    same = [e for e in others if not _is_worse(sign * values[best], sign * values[e], level)]
    return Standings(best, tuple(same), tuple(e for e in others if e not in same))


def seed_counts(first: int, most: int) -> tuple[int, ...]:
    """Seeds after each round of a race: twice as many every time, `most` at the end."""
    found = [min(first, most)]
    while found[-1] < most:
        found.append(min(2 * found[-1], most))
    return tuple(found)


def race_level(num_candidates: int, num_rounds: int) -> float:
    """Level of one comparison, so that all of a race are wrong together with LEVEL at most."""
    return LEVEL / max(num_candidates - 1, 1) / num_rounds


def _is_worse(best: Values, other: Values, level: float) -> bool:
    """Whether `other` lies below `best` beyond doubt; both so signed that larger is better."""
    from scipy import special  # noqa: PLC0415 - kept out of the start-up of single runs

    if np.isnan(other).all():
        return True
    count = min(len(best), len(other))
    pairs = np.stack([best[:count], other[:count]])
    pairs = pairs[:, ~np.isnan(pairs).any(axis=0)]
    if pairs.shape[1] < 2:  # noqa: PLR2004  a spread needs two
        return False
    if (pairs > 0.0).all() or (pairs < 0.0).all():
        pairs = np.sign(pairs) * np.log(np.abs(pairs))
    gains = pairs[0] - pairs[1]
    error = float(gains.std(ddof=1)) / np.sqrt(len(gains))
    reach = float(special.stdtrit(len(gains) - 1, 1.0 - level / 2)) * error
    return bool(gains.mean() - reach > 0.0)


def _mean(values: Values) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan
