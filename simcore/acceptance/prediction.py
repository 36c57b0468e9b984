"""One question to every acceptance model: how many cycles do requests of these lengths take at γ?

`iid` and `positional` draw cycles independently; `heterogeneous` is in its own file; `trace`
replays the recorded requests with their own lengths.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.lists import AcceptanceLists, CycleSample, IntArray
from simcore.acceptance.statistics import acceptance_rate, conditional_acceptance
from simcore.acceptance.survival import survival_from_conditional

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Outputs:
    """The requests to predict for; their lengths are the workload's, not the model's."""

    tokens: IntArray  # [num_requests] that the cycles have to emit
    runaway: NDArray[np.bool_]  # [num_requests]

    @staticmethod
    def of(sample: CycleSample) -> "Outputs":
        """The requests of a sample."""
        return Outputs(sample.output_tokens, sample.runaway)

    def repeated(self, count: int) -> "Outputs":
        """Every request `count` times."""
        return Outputs(np.tile(self.tokens, count), np.tile(self.runaway, count))


class Walks(NamedTuple):
    """What requests took."""

    tokens: IntArray  # [num_walks]
    cycles: IntArray  # [num_walks]


class AcceptanceWalker(Protocol):
    """A model of acceptance, fitted or recorded."""

    @property
    def name(self) -> str:
        """iid, positional, heterogeneous or trace."""
        ...

    def walks(self, gamma: int, outputs: Outputs, *, seed: int) -> Walks:
        """Cycles of requests of these lengths at draft length γ."""
        ...


@dataclass(frozen=True)
class Independent:
    """Every cycle drawn alone from conditional acceptance by depth: `iid` and `positional`.

    Past the depth that it was fitted at the last rate goes on. No request differs from another.
    """

    name: str
    conditional: tuple[float, ...]  # (a_1 .. a_γ)

    def walks(self, gamma: int, outputs: Outputs, *, seed: int) -> Walks:
        """Cycles drawn one by one until each output is emitted."""
        padded = [*self.conditional, *[self.conditional[-1]] * gamma][:gamma]
        survival = survival_from_conditional(padded)
        random = np.random.default_rng(seed)
        left = outputs.tokens.copy()
        cycles = np.zeros(len(left), dtype=np.int64)
        running = np.flatnonzero(left > 0)
        while len(running):
            luck = random.random(len(running))
            left[running] -= 1 + np.searchsorted(-survival, -luck, side="left")
            cycles[running] += 1
            running = running[left[running] > 0]
        return Walks(outputs.tokens, cycles)


def fit_iid(sample: CycleSample) -> Independent:
    """One α = accepted / tested."""
    return Independent("iid", (acceptance_rate(sample),))


def fit_positional(sample: CycleSample) -> Independent:
    """Conditional acceptance at the cycle starts of one γ."""
    return Independent("positional", tuple(conditional_acceptance(sample).tolist()))


@dataclass(frozen=True)
class Replay:
    """`trace`: the recorded requests themselves; keeps every list, unlike the other models."""

    lists: AcceptanceLists
    start: int
    name: str = "trace"

    def walks(self, gamma: int, outputs: Outputs, *, seed: int) -> Walks:
        """The recorded requests walked at γ."""
        sample = self.lists.cycles(gamma, start=self.start)
        return Walks(sample.output_tokens, sample.cycles)
