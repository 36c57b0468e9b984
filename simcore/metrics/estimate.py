"""One number over several seeds: its mean with an interval of Student's t."""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from simcore.profile.schema import Frozen

CONFIDENCE = 0.95


class Estimate(Frozen):
    """A mean over seeds with its 95 % interval, and what each seed gave."""

    mean: float | None = Field(description="null where no seed gave a value")
    low: float | None = Field(description="null with fewer than two seeds")
    high: float | None = Field(description="likewise")
    num_seeds: int = Field(description="seeds that gave a value")
    values: tuple[float | None, ...] = Field(description="by seed, in their order")


EVERY_NUMBER = (-np.inf, np.inf)


def estimate(
    values: Sequence[float | None], *, within: tuple[float, float] = EVERY_NUMBER
) -> Estimate:
    """The mean of independent values and mean ± t · s / √n, n the values that are not None.

    The interval is one of the mean (of the metric in expectation over seeds), not of one more run.
    It is cut to `within`, the least and the most that such a value can be.
    """
    seen = np.array([value for value in values if value is not None], dtype=float)
    low = high = None
    if len(seen) > 1:
        reach = t_quantile(len(seen)) * float(seen.std(ddof=1)) / np.sqrt(len(seen))
        ends = np.clip([seen.mean() - reach, seen.mean() + reach], *within)
        low, high = float(ends[0]), float(ends[1])
    return Estimate(
        mean=float(seen.mean()) if len(seen) else None,
        low=low,
        high=high,
        num_seeds=len(seen),
        values=tuple(values),
    )


def t_quantile(num_values: int) -> float:
    """Standard errors that a two-sided 95 % interval reaches from the mean of `num_values`."""
    from scipy import special  # noqa: PLC0415 - kept out of the start-up of single runs

    return float(special.stdtrit(num_values - 1, 0.5 + CONFIDENCE / 2))
