"""What a plan expects of a running service, in the units that engines count in.

Speed-up is S = E[Y] · t_1 / t_cycle (simcore/planner/speedup.py), so at unchanged step times it is
proportional to the mean acceptance length, and speculation stops paying at E[Y] / S.
"""

import math
from dataclasses import dataclass

import numpy as np

from simcore.errors import SpecplanError
from simcore.planner.document import Candidate, Plan
from simcore.report.engine import has_own_way

# Requests differ: on public recordings of code edits the spread between them was up to 3.5 times
# that of independent draws, so counts say less than their number.
SPREAD_BETWEEN_REQUESTS = 3.5
STANDARD_ERRORS = 3.0  # between what is expected and what raises an alarm
ON_OR_OFF = ("batch_size_table", "adaptive_ema", "acceptance_gate", "memory_pressure")
LEAST_DRIFT = 0.05  # a smaller change of the mean acceptance length is none


@dataclass(frozen=True)
class Acceptance:
    """Acceptance of the chosen candidate as counters show it: before an output is cut."""

    length: float  # mean tokens a cycle, bonus included
    lowest_length: float  # speed-up at the lower end of the plan's interval, or LEAST_DRIFT less
    highest_length: float
    flip_length: float  # speed-up 1
    survival: tuple[float, ...]  # s_1 .. s_γ over all cycles
    deviation: float  # standard deviation of the accepted drafts of one cycle
    cycles_per_s: float  # of the whole service at the planned load

    def cycles_to_tell(self, difference: float) -> int:
        """Cycles until a mean acceptance length is known to this difference."""
        error = self.deviation * SPREAD_BETWEEN_REQUESTS * STANDARD_ERRORS
        return max(1, math.ceil((error / difference) ** 2)) if error > 0.0 else 1

    def survival_margin(self, depth: int, num_cycles: int) -> float:
        """How far s of a depth may lie from the plan's over so many cycles; depth from 1."""
        share = self.survival[depth - 1]
        error = math.sqrt(share * (1.0 - share) / num_cycles)
        margin = STANDARD_ERRORS * SPREAD_BETWEEN_REQUESTS * error
        return max(margin, LEAST_DRIFT * share)


def chosen_candidate(plan: Plan) -> Candidate:
    """The candidate that the decision ships; off where it ships none. Raises SpecplanError."""
    decision = plan.decision
    found = _candidate(plan, decision.proposer, decision.num_speculative_tokens)
    if found is None:
        raise SpecplanError(
            f"the plan decides for {decision.proposer!r} with γ = "
            f"{decision.num_speculative_tokens} and holds no such candidate; write it again with "
            "specplan plan"
        )
    return found


def _candidate(plan: Plan, proposer: str | None, gamma: int) -> Candidate | None:
    key = (proposer, gamma)
    found = (c for c in plan.candidates if (c.proposer, c.num_speculative_tokens) == key)
    return next(found, None)


def monitored_candidate(plan: Plan) -> Candidate | None:
    """The candidate that drafts as the service will; None where none does, or nothing drafts.

    A policy between one draft length and off drafts as the candidate of that length while it
    drafts; of trees and of policies between several lengths a plan holds no candidate.
    """
    if plan.decision.choice == "off":
        return None
    if not has_own_way(plan):
        return chosen_candidate(plan)
    asked = plan.scenario.speculation
    lengths = {length for length in asked.draft_lengths() if length > 0}
    if asked.schemes()[0].is_tree or len(lengths) != 1 or asked.policy.kind not in ON_OR_OFF:
        return None
    return _candidate(plan, asked.proposer, lengths.pop())


def expected_acceptance(plan: Plan) -> Acceptance | None:
    """Of the candidate that drafts as the service will; None where there is none."""
    chosen = monitored_candidate(plan)
    if chosen is None:
        return None
    tokens = chosen.summary.tokens
    counts = np.array(tokens.accepted_length_counts, dtype=np.float64)
    if counts.sum() == 0.0 or len(counts) < 2:  # noqa: PLR2004 - a draft of one token or more
        return None
    shares = counts / counts.sum()
    depths = np.arange(len(counts))
    accepted = float(shares @ depths)
    survival = 1.0 - np.cumsum(shares)[:-1]
    length, speedup = 1.0 + accepted, chosen.speedup
    low, high = (end / speedup.value for end in speedup.interval)
    return Acceptance(
        length=length,
        lowest_length=max(1.0, length * min(low, 1.0 - LEAST_DRIFT)),
        highest_length=min(float(len(counts)), length * max(high, 1.0 + LEAST_DRIFT)),
        flip_length=length / decoding_speedup(chosen),
        survival=tuple(np.clip(survival, 0.0, 1.0).tolist()),
        deviation=float(np.sqrt(shares @ (depths - accepted) ** 2)),
        cycles_per_s=tokens.num_cycles / chosen.summary.duration_s,
    )


def decoding_speedup(candidate: Candidate) -> float:
    """Of mean TPOT, which a cycle's closed form describes; of mean E2E where TPOT has none."""
    tpot = candidate.tpot_speedup
    return tpot if tpot is not None and tpot > 1.0 else candidate.speedup.value
