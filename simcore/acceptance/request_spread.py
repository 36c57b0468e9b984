"""How recorded requests differ, against what independent draws at the same rates would say.

Users feel their own request, not the mean: a p99 from independent draws is a fairy tale.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.lists import AcceptanceLists
from simcore.acceptance.prediction import Outputs, Walks, fit_positional
from simcore.acceptance.statistics import Lag1Correlation, lag1_correlation
from simcore.acceptance.survival import mean_emitted_tokens, survival_from_cycles
from simcore.acceptance.trace import TraceSet

FIRST_START = 1  # prefill emits position 0
SLOWEST_SHARE = 0.01
NUM_DRAWS = 10_000  # independent requests, about

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)  # arrays have no one answer to ==
class RequestSpread:
    """Tokens a cycle of requests at one γ; requests without a cycle are left out."""

    gamma: int
    recorded: FloatArray  # [num_requests] ascending
    independent: FloatArray  # [num_draws] ascending: every cycle drawn alone
    recorded_sd: float  # standard deviation over requests
    independent_sd: float
    slowest_recorded: float  # mean over the slowest 1 % of requests, at least one
    slowest_independent: float
    lag1: Lag1Correlation  # of the tokens of consecutive cycles


def request_spread(traces: TraceSet, gamma: int, *, seed: int = 0) -> RequestSpread:
    """Both sides have the recorded output lengths; the draws repeat every request.

    Independent draws know conditional acceptance by depth, pooled over the requests (model
    `positional`). Raises AcceptanceError where no cycle was recorded.
    """
    sample = AcceptanceLists.of_traces(traces).cycles(gamma, start=FIRST_START)
    repeats = max(1, NUM_DRAWS // sample.num_requests)
    outputs = Outputs.of(sample).repeated(repeats)
    recorded = _rates(Walks(sample.output_tokens, sample.cycles))
    independent = _rates(fit_positional(sample).walks(gamma, outputs, seed=seed))
    return RequestSpread(
        gamma=gamma,
        recorded=recorded,
        independent=independent,
        recorded_sd=float(recorded.std()),
        independent_sd=float(independent.std()),
        slowest_recorded=_slowest(recorded),
        slowest_independent=_slowest(independent),
        lag1=lag1_correlation(sample),
    )


@dataclass(frozen=True)
class PositionCount:
    """Survival counted over output positions instead of cycle starts: a common mistake."""

    survival: tuple[float, ...]
    mean_emitted_tokens: float


def count_every_position(traces: TraceSet, gamma: int) -> PositionCount:
    """What averaging over all output positions after the first would say at γ.

    Long accepted runs hold many positions and few cycle starts, so this counts them too often.
    """
    counted = np.ones(len(traces.accepted), dtype=bool)
    counted[traces.offset] = False
    accepted = np.minimum(traces.accepted[counted].astype(np.int64), gamma)
    survival = survival_from_cycles(accepted, gamma)
    return PositionCount(tuple(survival.tolist()), mean_emitted_tokens(survival))


def _rates(walks: Walks) -> FloatArray:
    ran = walks.cycles > 0
    return np.sort(walks.tokens[ran] / walks.cycles[ran])


def _slowest(rates: FloatArray) -> float:
    count = max(1, int(np.ceil(SLOWEST_SHARE * len(rates) - 1e-9)))
    return float(rates[:count].mean())
