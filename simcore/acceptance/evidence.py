"""What a fit may see of acceptance at one γ: counts of accepted lengths, request by request.

From walked cycles: every three consecutive cycles of a request. From histograms: single cycles.
From counters: one histogram over all requests. Nothing else of the recording is kept.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simcore.acceptance.lists import CycleSample, IntArray
from simcore.errors import AcceptanceError

OPENING_SHARE = 0.05  # an opening cycle is one in which fewer requests accept anything
LONGEST_OPENING = 32
LONGEST_WORD = 3  # cycles
MOST_WORDS = 1_000  # with a longer draft, pairs of cycles instead of three

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """Counts of words of `word_length` consecutive cycles, as base γ + 1 numbers.

    `first` counts the opening word of each request, one cycle shorter; it is empty for single
    cycles. A likelihood is that of each cycle given the `word_length` − 1 before it.
    """

    gamma: int
    word_length: int
    words: FloatArray  # [num_requests, (γ + 1)^word_length]
    first: FloatArray  # [num_requests, (γ + 1)^(word_length − 1)]
    output_tokens: IntArray  # [num_requests]
    cycles: IntArray  # [num_requests]
    runaway: NDArray[np.bool_]  # [num_requests]
    opens: NDArray[np.bool_]  # [num_requests, LONGEST_OPENING] the i-th cycle accepted something
    is_pooled: bool = False  # one row for all requests together

    @property
    def num_requests(self) -> int:
        """Rows; 1 where requests were pooled."""
        return len(self.output_tokens)

    def chosen(self, requests: NDArray[np.bool_] | IntArray) -> "Evidence":
        """Some of the requests, by mask or by index; an index may repeat."""
        return replace(
            self,
            words=self.words[requests],
            first=self.first[requests],
            output_tokens=self.output_tokens[requests],
            cycles=self.cycles[requests],
            runaway=self.runaway[requests],
            opens=self.opens[requests],
        )

    def resampled(self, random: np.random.Generator) -> "Evidence":
        """As many requests drawn again; pooled cycles are drawn again one by one."""
        if not self.is_pooled:
            return self.chosen(random.integers(0, self.num_requests, self.num_requests))
        count = self.words[0]
        drawn = random.multinomial(int(count.sum()), count / count.sum())
        return replace(self, words=drawn[None].astype(np.float64))

    @property
    def opening_positions(self) -> int:
        """Leading positions at which hardly any request has a draft accepted."""
        share = self.opens.mean(axis=0)
        accepts = np.flatnonzero(share > OPENING_SHARE)
        return int(accepts[0]) if len(accepts) else 0


def evidence_from_cycles(sample: CycleSample) -> Evidence:
    """Words of consecutive cycles; those that the output's end may have cut are left out."""
    gamma, base = sample.gamma, sample.gamma + 1
    length = LONGEST_WORD if base**LONGEST_WORD <= MOST_WORDS else LONGEST_WORD - 1
    order = np.arange(len(sample.request)) - np.searchsorted(sample.request, sample.request)
    count = sample.num_requests
    opens = np.zeros((count, LONGEST_OPENING), dtype=np.bool_)
    early = order < LONGEST_OPENING
    opens[sample.request[early], order[early]] = sample.accepted[early] > 0
    blank = Evidence(
        gamma=gamma,
        word_length=length,
        words=np.zeros((count, base**length)),
        first=np.zeros((count, base ** (length - 1))),
        output_tokens=sample.output_tokens,
        cycles=sample.cycles,
        runaway=sample.runaway,
        opens=opens,
    )
    whole = (sample.testable == gamma) & (order >= blank.opening_positions)
    accepted, request = sample.accepted[whole], sample.request[whole]
    begins = np.searchsorted(request, request) == np.arange(len(request))
    _count_words(blank.words, accepted, request, base, length, np.ones(len(request), np.bool_))
    _count_words(blank.first, accepted, request, base, length - 1, begins)
    return blank


def _count_words(
    counts: FloatArray,
    accepted: IntArray,
    request: IntArray,
    base: int,
    length: int,
    chosen: NDArray[np.bool_],
) -> None:
    """Add every word that begins at a chosen cycle and stays within its request."""
    last = len(accepted) - length + 1
    if last <= 0:
        return
    begin = np.flatnonzero(chosen[:last] & (request[:last] == request[length - 1 :]))
    word = np.zeros(len(begin), dtype=np.int64)
    for step in range(length):
        word = word * base + accepted[begin + step]
    np.add.at(counts, (request[begin], word), 1.0)


def evidence_from_histograms(counts: ArrayLike, *, runaway: ArrayLike | None = None) -> Evidence:
    """From how often each request accepted 0 .. γ drafts [num_requests, γ + 1].

    The order of cycles is lost: persistence of the chain shows only through the tail. Raises
    AcceptanceError for counts that are no counts.
    """
    words = _counts(counts)
    gamma = words.shape[1] - 1
    tokens = (words @ np.arange(1, gamma + 2)).astype(np.int64)
    flags = np.zeros(len(words), np.bool_) if runaway is None else np.asarray(runaway, np.bool_)
    return Evidence(
        gamma=gamma,
        word_length=1,
        words=words,
        first=np.zeros((len(words), 1)),
        output_tokens=tokens,
        cycles=words.sum(axis=1).astype(np.int64),
        runaway=flags,
        opens=np.ones((len(words), 1), dtype=np.bool_),
    )


def evidence_from_counters(num_cycles: int, accepted_at: ArrayLike) -> Evidence:
    """From counters of one γ: cycles, and of them how many accepted depth 1 .. γ [γ].

    Raises AcceptanceError where the counters rise with depth or exceed the cycles.
    """
    return replace(
        evidence_from_histograms([histogram_from_positions(num_cycles, accepted_at)]),
        is_pooled=True,
    )


def histogram_from_positions(num_cycles: int, accepted_at: ArrayLike) -> IntArray:
    """How many cycles accepted 0 .. γ drafts [γ + 1], from counters by depth [γ].

    The way back is positions_from_histogram of profile/conversions. Raises AcceptanceError where
    the counters rise with depth or exceed the cycles.
    """
    reached = np.array([num_cycles, *np.asarray(accepted_at, dtype=np.int64), 0], dtype=np.int64)
    histogram = -np.diff(reached)
    if bool(np.any(histogram < 0)):
        raise AcceptanceError(
            f"{num_cycles} cycles, accepted by depth {reached[1:-1].tolist()}: expected counters "
            "that never rise with depth, none above the cycles; one γ for all of them"
        )
    return histogram


def _counts(values: ArrayLike) -> FloatArray:
    counts = np.asarray(values, dtype=np.float64)
    shaped = counts.ndim == 2 and counts.shape[1] > 1  # noqa: PLR2004 - [num_requests, γ + 1]
    if not shaped or not bool(np.all((counts >= 0) & (counts == np.floor(counts)))):
        raise AcceptanceError(
            "a histogram of accepted drafts holds one count for each of 0 .. γ, γ at least 1, "
            "whole and not negative"
        )
    if counts.sum() == 0:
        raise AcceptanceError("a histogram of accepted drafts counts no cycle; expected some")
    return counts
