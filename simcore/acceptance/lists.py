"""Recorded acceptance as lists, one a request, and the cycles that a draft length makes of them.

A list holds either every output position (what a cycle that starts there would accept, unbounded)
or the cycles as they ran at one γ. Only the former can be walked at any γ.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.trace import TraceSet, walk
from simcore.errors import AcceptanceError

RUNAWAY_TOKENS = 8_000  # outputs at least this long are a stratum of their own
LONGEST_DRAFT = 100  # the walk counts drafts in eight bits

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class CycleSample:
    """The cycles of a renewal walk at one γ, request after request.

    `accepted`: drafts accepted within the output; `testable`: drafts that lay within it, so that
    draft k of a cycle that starts at i is tested only if i + k <= L − 1; `offered`: of these, the
    ones that the proposer had. A cycle emits accepted + 1.
    """

    gamma: int
    accepted: IntArray  # [num_cycles]
    testable: IntArray  # [num_cycles]
    offered: IntArray  # [num_cycles]
    request: IntArray  # [num_cycles] ascending
    output_tokens: IntArray  # [num_requests] tokens that the walk emits
    runaway: NDArray[np.bool_]  # [num_requests] outputs at the data set's limit

    @property
    def num_requests(self) -> int:
        """Requests, those without a cycle included."""
        return len(self.output_tokens)

    @property
    def emitted(self) -> IntArray:
        """Tokens of each cycle [num_cycles], the corrected or bonus token included."""
        return self.accepted + 1

    @property
    def cycles(self) -> IntArray:
        """Cycles of each request [num_requests]."""
        return np.bincount(self.request, minlength=self.num_requests)

    @property
    def tokens_a_cycle(self) -> NDArray[np.float64]:
        """Of each request that ran a cycle."""
        cycles = self.cycles
        ran = cycles > 0
        return np.asarray(self.output_tokens[ran] / cycles[ran], dtype=np.float64)


@dataclass(frozen=True)
class AcceptanceLists:
    """Accepted drafts of recorded requests, all under one proposer, sampling and contract."""

    accepted: tuple[IntArray, ...]  # [num_requests][positions or cycles]
    per: Literal["position", "cycle"]
    output_tokens: IntArray  # [num_requests] as the record states them; else the list's length
    proposed: tuple[IntArray, ...] | None = None
    gamma: IntArray | None = None  # [num_requests] what each ran at; for per-cycle lists

    @staticmethod
    def of_traces(traces: TraceSet) -> "AcceptanceLists":
        """Every output position of a profile's recorded requests."""
        accepted, proposed = (
            tuple(np.split(values.astype(np.int64), traces.offset[1:]))
            for values in (traces.accepted, traces.proposed)
        )
        return AcceptanceLists(accepted, "position", traces.output_tokens, proposed=proposed)

    @property
    def num_requests(self) -> int:
        """Recorded requests."""
        return len(self.accepted)

    def runaway(self, runaway_tokens: int = RUNAWAY_TOKENS) -> NDArray[np.bool_]:
        """Which requests [num_requests] ran into the output limit."""
        return self.output_tokens >= runaway_tokens

    def chosen(self, requests: NDArray[np.bool_] | IntArray) -> "AcceptanceLists":
        """Some of the requests, by mask or by index."""
        index = np.arange(self.num_requests)[requests]
        proposed = self.proposed
        return replace(
            self,
            accepted=tuple(self.accepted[i] for i in index),
            output_tokens=self.output_tokens[index],
            proposed=None if proposed is None else tuple(proposed[i] for i in index),
            gamma=None if self.gamma is None else self.gamma[index],
        )

    def gammas(self) -> tuple[int, ...] | None:
        """The draft lengths that cycles were recorded at; None: any."""
        if self.gamma is None:
            return None
        return tuple(int(gamma) for gamma in np.unique(self.gamma))

    def cycles(
        self, gamma: int, *, start: int = 0, runaway_tokens: int = RUNAWAY_TOKENS
    ) -> CycleSample:
        """The cycles at γ from output position `start` on.

        Per-cycle lists give the cycles of the requests that ran at this γ, uncut. Raises
        AcceptanceError for another γ, a γ outside 1 to 100, or where no cycle is left.
        """
        if not 1 <= gamma <= LONGEST_DRAFT:
            raise AcceptanceError(f"γ = {gamma}; expected 1 to {LONGEST_DRAFT}")
        if start < 0:
            raise AcceptanceError(f"start {start}; expected an output position, 0 or above")
        runaway = self.runaway(runaway_tokens)
        if self.per == "cycle":
            return self._recorded_cycles(gamma, runaway)
        return self._walked_cycles(gamma, start, runaway)

    def _recorded_cycles(self, gamma: int, runaway: NDArray[np.bool_]) -> CycleSample:
        own = self.gammas() or ()
        if self.gamma is None or gamma not in own:
            raise AcceptanceError(
                f"γ = {gamma}: the cycles were recorded at γ {', '.join(map(str, own))} and say "
                "nothing about another; ask for that γ, or record every output position"
            )
        index = np.flatnonzero(self.gamma == gamma)
        chosen = self.chosen(index)
        count = np.array([len(each) for each in chosen.accepted])
        accepted = _joined(chosen.accepted)
        offered = (
            np.full(len(accepted), gamma) if chosen.proposed is None else _joined(chosen.proposed)
        )
        if len(accepted) == 0 or int(accepted.max()) > gamma:
            raise AcceptanceError(
                f"cycles at γ = {gamma} "
                + ("hold none" if len(accepted) == 0 else f"accept up to {int(accepted.max())}")
                + f"; expected 0 to {gamma} accepted drafts in each"
            )
        request = np.repeat(np.arange(len(index)), count)
        return CycleSample(
            gamma=gamma,
            accepted=accepted,
            testable=np.full(len(accepted), gamma),
            offered=np.minimum(offered, gamma),
            request=request,
            output_tokens=np.bincount(request, weights=accepted + 1, minlength=len(index)).astype(
                np.int64
            ),
            runaway=runaway[index],
        )

    def _walked_cycles(self, gamma: int, start: int, runaway: NDArray[np.bool_]) -> CycleSample:
        traces = self._trace_set(gamma)
        found = walk(traces, gamma, start=start)
        if len(found.accepted) == 0:
            raise AcceptanceError(f"no list reaches past position {start}; expected one that does")
        after = np.cumsum(found.emitted)
        request = found.request
        first = np.searchsorted(request, np.arange(self.num_requests))
        before = after - found.emitted
        position = start + before - before[np.minimum(first, len(before) - 1)][request]
        testable = np.minimum(gamma, traces.output_tokens[request] - 1 - position)
        return CycleSample(
            gamma=gamma,
            accepted=found.emitted - 1,
            testable=testable,
            offered=np.minimum(testable, found.proposed),
            request=request,
            output_tokens=np.maximum(traces.output_tokens - start, 0),
            runaway=runaway,
        )

    def _trace_set(self, gamma: int) -> TraceSet:
        length = np.array([len(each) for each in self.accepted], dtype=np.int64)
        accepted = np.minimum(_joined(self.accepted), gamma).astype(np.int8)
        proposed = (
            np.full(len(accepted), gamma) if self.proposed is None else _joined(self.proposed)
        )
        return TraceSet(
            domain_names=("all",),
            accepted=accepted,
            proposed=np.minimum(proposed, gamma).astype(np.int8),
            ratio=np.zeros((len(accepted), 0)),
            offset=np.cumsum(length) - length,
            output_tokens=length,
            prompt_tokens=np.zeros(len(length), dtype=np.int64),
            domain=np.zeros(len(length), dtype=np.int64),
            max_gamma=gamma,
        )


def _joined(lists: tuple[IntArray, ...]) -> IntArray:
    return np.concatenate([*lists, np.zeros(0, dtype=np.int64)])
