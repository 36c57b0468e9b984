"""Speed-up over batch × drafts in closed form, inside the measured box and a little beyond."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simcore.cost.price import law_tables
from simcore.errors import ScenarioError
from simcore.planner.batch_table import TokenTimes, best_rows
from simcore.planner.speedup import CycleSurvival, SpeedupPoint, speedup_point
from simcore.profile.store import StoredProfile

BEYOND = 4  # the map goes on to this many times the measured batch


@dataclass(frozen=True)
class SpeedupMap:
    """One proposer at one context; drafts are chains by length, or trees."""

    proposer: str
    context_tokens: int
    survivals: tuple[CycleSurvival, ...]  # of the columns
    batch_sizes: tuple[int, ...]  # of the rows, ascending
    points: tuple[tuple[SpeedupPoint | None, ...], ...]  # [rows][columns]; None: not measured

    def at(self, batch_size: int, column: int = 0) -> SpeedupPoint | None:
        """One cell; None where the step would run in a regime that was not measured."""
        return self.points[self.batch_sizes.index(batch_size)][column]


def map_batch_sizes(max_batch_size: int) -> tuple[int, ...]:
    """Powers of two, up to BEYOND times the largest measured batch."""
    return tuple(2**k for k in range((BEYOND * max_batch_size).bit_length()))


def speedup_map(
    stored: StoredProfile,
    proposer: str,
    survivals: Sequence[CycleSurvival],
    context_tokens: int,
    batch_sizes: Sequence[int] | None = None,
) -> SpeedupMap:
    """S of every draft at every batch by the cost law alone: no queueing, no prefill."""
    law = stored.profile.cost
    batches = tuple(batch_sizes or map_batch_sizes(law.domain.max_batch_size))
    plain, speculative = law_tables(law, None), law_tables(law, proposer)

    def point(survival: CycleSurvival, batch_size: int) -> SpeedupPoint | None:
        try:
            return speedup_point(plain, speculative, survival, batch_size, context_tokens)
        except ScenarioError:  # past the captured sizes, where no step was measured
            return None

    rows = tuple(tuple(point(each, batch) for each in survivals) for batch in batches)
    return SpeedupMap(proposer, context_tokens, tuple(survivals), batches, rows)


def batch_size_table(
    found: SpeedupMap, max_batch_size: int, *, least_speedup: float = 1.0
) -> tuple[tuple[int, int, int], ...]:
    """Rows (first, last, draft length) up to `max_batch_size`, as `best_rows` makes them of a map.

    A batch between two of the map goes with the larger one; beyond the map its last row goes on.
    Drafts of at most `least_speedup` do not pay: there the length is 0.
    """
    sizes = np.arange(1, max_batch_size + 1)
    places = np.minimum(np.searchsorted(found.batch_sizes, sizes), len(found.batch_sizes) - 1)
    steps = {0: np.full(len(found.batch_sizes), 1.0 / least_speedup)}  # plain steps a token takes
    for column, survival in enumerate(found.survivals):
        own = [row[column] for row in found.points]
        taken = np.array([np.inf if each is None else 1.0 / each.speedup for each in own])
        steps[survival.gamma] = np.minimum(steps.get(survival.gamma, np.inf), taken)
    lengths = tuple(sorted(steps))
    by_size = np.array([steps[length][places] for length in lengths])
    times = TokenTimes(sizes, lengths, by_size, np.ones(len(sizes)))
    rows = best_rows(times, max_batch_size, least_gain=0.0)
    return tuple((row.first, row.last, row.num_speculative_tokens) for row in rows)


def break_even_acceptance(point: SpeedupPoint, num_draft_tokens: int) -> float:
    """accepted / drafted at which S = 1: a gate below it turns off what does not pay."""
    return (point.break_even_tokens - 1.0) / num_draft_tokens
