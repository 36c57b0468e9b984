"""How requests arrive: the kinds of `workload.arrivals`."""

from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from simcore.profile.schema import Frozen
from simcore.workload_kinds.recording import Recording
from simcore.workload_kinds.sessions import ThinkTime

MAX_STATES = 64
SUM_TOLERANCE = 1e-9
# Beyond these no service lives, and arithmetic would overflow.
MIN_RATE_PER_S, MAX_RATE_PER_S = 1e-6, 1e6
MIN_SPAN_S, MAX_SPAN_S = 1e-9, 1e12


class PoissonArrivals(Frozen):
    """Independent arrivals: exponential gaps of mean 1 / rate."""

    kind: Literal["poisson"] = "poisson"
    rate_per_s: float = Field(
        ge=MIN_RATE_PER_S, le=MAX_RATE_PER_S, description="of the whole service"
    )


class BatchArrivals(Frozen):
    """Every request arrives at time 0: an offline batch."""

    kind: Literal["batch"]


class GammaArrivals(Frozen):
    """Independent gamma-distributed gaps of mean 1 / rate.

    cv 1 is Poisson; above it requests come in bursts, below it more evenly, at 0 equally spaced.
    """

    kind: Literal["gamma"]
    rate_per_s: float = Field(
        ge=MIN_RATE_PER_S, le=MAX_RATE_PER_S, description="of the whole service"
    )
    cv: float = Field(ge=0.0, le=100.0, description="of the gaps: standard deviation / mean")


class ArrivalState(Frozen):
    """One weather of the service: how many requests it brings and how long it lasts."""

    rate_per_s: float = Field(ge=0.0, le=MAX_RATE_PER_S)
    mean_dwell_s: float = Field(ge=MIN_SPAN_S, le=MAX_SPAN_S, description="stays are exponential")


class MarkovModulatedArrivals(Frozen):
    """Poisson arrivals whose rate follows a hidden Markov state.

    The state at time 0 is drawn from the long-run shares of time.
    """

    kind: Literal["markov_modulated"]
    states: tuple[ArrivalState, ...] = Field(min_length=2, max_length=MAX_STATES)
    transitions: tuple[tuple[float, ...], ...] | None = Field(
        None, description="[from][to] probability of the next state; null: one after the other"
    )

    @model_validator(mode="after")
    def _check_chain(self) -> Self:
        if not any(state.rate_per_s > 0.0 for state in self.states):
            raise ValueError("every state has rate_per_s 0; expected one above 0")
        if self.transitions is None:
            return self
        count = len(self.states)
        if [len(row) for row in self.transitions] != [count] * count:
            raise ValueError(
                f"transitions has rows of {[len(row) for row in self.transitions]} values; "
                f"expected {count} rows of {count}, one a state"
            )
        for index, row in enumerate(self.transitions):
            if min(row) < 0.0 or abs(sum(row) - 1.0) > SUM_TOLERANCE or row[index] != 0.0:
                raise ValueError(
                    f"transitions[{index}] is {list(row)}; expected probabilities that sum to 1, "
                    "with 0 for staying (how long a state lasts is its mean_dwell_s)"
                )
        if not _is_connected(self.next_state_probability()):
            raise ValueError(
                "transitions never lead from some state to some other; expected every state to be "
                "reached again and again: remove the states that are not"
            )
        return self

    def next_state_probability(self) -> NDArray[np.float64]:
        """P(next state) [from, to]."""
        if self.transitions is None:
            return np.roll(np.eye(len(self.states)), 1, axis=1)
        return np.array(self.transitions)

    def time_shares(self) -> NDArray[np.float64]:
        """Long-run share of time in each state."""
        chain = self.next_state_probability()
        # Shares of visits v solve v = v P, sum 1; a visit weighs as long as it lasts.
        equations = np.vstack([chain.T - np.eye(len(chain)), np.ones(len(chain))])
        visits = np.linalg.lstsq(equations, np.append(np.zeros(len(chain)), 1.0), rcond=None)[0]
        weights = np.clip(visits, 0.0, None) * [state.mean_dwell_s for state in self.states]
        return np.asarray(weights / weights.sum())

    @property
    def mean_rate_per_s(self) -> float:
        """Requests a second in the long run."""
        return float(self.time_shares() @ [state.rate_per_s for state in self.states])


def _is_connected(chain: NDArray[np.float64]) -> bool:
    steps = (chain > 0.0) | np.eye(len(chain), dtype=bool)
    reached = np.linalg.matrix_power(steps.astype(np.float64), len(chain) - 1)
    return bool((reached > 0.0).all())


class RampArrivals(Frozen):
    """Poisson arrivals whose rate goes linearly from one value to another, then stays."""

    kind: Literal["ramp"]
    from_rate_per_s: float = Field(ge=0.0, le=MAX_RATE_PER_S)
    to_rate_per_s: float = Field(ge=MIN_RATE_PER_S, le=MAX_RATE_PER_S)
    duration_s: float = Field(ge=MIN_SPAN_S, le=MAX_SPAN_S, description="of the change")


class RecordedArrivals(Recording):
    """The arrival times of a recorded file; the same under every seed."""

    kind: Literal["recorded"]
    rate_scale: float = Field(
        1.0, ge=1e-9, le=1e9, description="2: twice as many requests a second"
    )


class ClosedLoopArrivals(Frozen):
    """So many clients, each asking again once it has thought about the answer.

    A client whose request did not finish asks its next one all the same.
    """

    kind: Literal["closed_loop"]
    num_clients: int = Field(ge=1, le=1_000_000)
    think: ThinkTime = ThinkTime()


Arrivals = (
    PoissonArrivals
    | BatchArrivals
    | GammaArrivals
    | MarkovModulatedArrivals
    | RampArrivals
    | RecordedArrivals
    | ClosedLoopArrivals
)
AnyArrivals = Annotated[Arrivals, Field(discriminator="kind")]
