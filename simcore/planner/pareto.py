"""The Pareto front of ways to serve, by paired replications.

One way dominates another where its mean is no worse in any objective, and surely better in at
least one: the paired 95 % interval lies apart. Surely better implies a better mean, so dominance
is part of a strict order: it has no circles, and a front is never empty.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from simcore.metrics.estimate import t_quantile

FloatArray = NDArray[np.float64]
Scores = Mapping[str, FloatArray]  # objective -> [num_replications], less is better


def dominators(scores: Mapping[str, Scores]) -> dict[str, str | None]:
    """Way -> one that dominates it and is itself on the front; None: it is on the front."""
    by: dict[str, list[str]] = {
        name: [other for other in scores if dominates(scores[other], scores[name])]
        for name in scores
    }
    front = [name for name, above in by.items() if not above]
    found: dict[str, str | None] = {}
    for name, above in by.items():
        # Dominance of means is transitive, sureness is not: a dominator may be off the front.
        on_front = [other for other in above if other in front]
        found[name] = next(iter(on_front or above), None)
    return found


def dominates(one: Scores, other: Scores) -> bool:
    """Whether `one` is no worse in every objective and surely better in at least one."""
    gains = [other[name] - one[name] for name in one]
    if any(float(gain.mean()) < 0.0 for gain in gains):
        return False
    return any(is_surely_positive(gain) for gain in gains)


def is_surely_positive(values: FloatArray) -> bool:
    """Whether the 95 % interval for one more such value lies above 0."""
    count = len(values)
    if count == 1:
        return bool(values[0] > 0.0)
    spread = float(values.std(ddof=1)) * np.sqrt(1.0 + 1.0 / count)
    return bool(values.mean() > t_quantile(count) * spread)
