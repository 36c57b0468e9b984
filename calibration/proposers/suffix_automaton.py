"""Every substring of some texts, with how often and how recently it occurred.

A suffix automaton (Blumer et al. 1985): a state stands for the substrings that end at the same
positions. At most 2 states and 3 transitions a token; a token is appended in constant amortised
time, plus one step for every state on the suffix chain to count it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ROOT_STATE = 0


@dataclass(frozen=True)
class Continuation:
    """A token that has followed a substring, and the state of the longer one."""

    token: int
    state: int
    share: float  # of the substring's occurrences that go on at all


class SuffixAutomaton:
    """Grows by tokens; `start_text` begins another text, so that no substring spans two."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]  # tokens of the longest substring of each state
        self._count = [0]  # occurrences
        self._seen_at = [0]  # num_tokens at the last occurrence
        self._last = ROOT_STATE

    def start_text(self) -> None:
        """What follows is another text."""
        self._last = ROOT_STATE

    def append(self, tokens: Iterable[int]) -> None:
        """Append tokens to the current text."""
        for token in tokens:
            self._last = self._advance(self._last, token)
            self.num_tokens += 1
            state = self._last
            while state != ROOT_STATE:
                self._count[state] += 1
                self._seen_at[state] = self.num_tokens
                state = self._link[state]

    def repeats(self) -> list[tuple[int, int]]:
        """(state, tokens) of the text's suffixes that occurred before, longest first.

        Suffixes with the same occurrences are one entry, as long as the longest of them.
        """
        return self._suffixes_of(self._link[self._last]) if self._last != ROOT_STATE else []

    def matches(self, tokens: Sequence[int]) -> list[tuple[int, int]]:
        """The same for another text's suffixes: those that occur here."""
        state, length = ROOT_STATE, 0
        for token in tokens:
            while state != ROOT_STATE and token not in self._next[state]:
                state = self._link[state]
                length = self._length[state]
            if token in self._next[state]:
                state = self._next[state][token]
                length += 1
        found = self._suffixes_of(state)
        return [(state, min(length, longest)) for state, longest in found]

    def continuations(self, state: int) -> list[Continuation]:
        """What followed, most frequent first, the most recent of equally frequent ones first."""
        following = list(self._next[state].items())
        total = sum(self._count[after] for _, after in following)
        following.sort(key=lambda pair: (-self._count[pair[1]], -self._seen_at[pair[1]]))
        return [
            Continuation(token, after, self._count[after] / total) for token, after in following
        ]

    def _suffixes_of(self, state: int) -> list[tuple[int, int]]:
        found = []
        while state > ROOT_STATE:
            found.append((state, self._length[state]))
            state = self._link[state]
        return found

    def _advance(self, last: int, token: int) -> int:
        """The state of the text so far with `token` appended; counts are the caller's."""
        known = self._next[last].get(token)
        if known is not None:  # another text has been here
            is_own = self._length[known] == self._length[last] + 1
            return known if is_own else self._split(last, token, known)
        state = self._new_state({}, self._length[last] + 1)
        before = last
        while before != -1 and token not in self._next[before]:
            self._next[before][token] = state
            before = self._link[before]
        if before == -1:
            self._link[state] = ROOT_STATE
            return state
        after = self._next[before][token]
        is_own = self._length[after] == self._length[before] + 1
        self._link[state] = after if is_own else self._split(before, token, after)
        return state

    def _split(self, before: int, token: int, state: int) -> int:
        """Part the shorter substrings of `state`, which now occur elsewhere too, from the rest."""
        part = self._new_state(dict(self._next[state]), self._length[before] + 1)
        self._link[part] = self._link[state]
        self._count[part] = self._count[state]
        self._seen_at[part] = self._seen_at[state]
        self._link[state] = part
        while before != -1 and self._next[before].get(token) == state:
            self._next[before][token] = part
            before = self._link[before]
        return part

    def _new_state(self, following: dict[int, int], length: int) -> int:
        self._next.append(following)
        self._link.append(ROOT_STATE)
        self._length.append(length)
        self._count.append(0)
        self._seen_at.append(0)
        return len(self._next) - 1
