"""Cycles as engines count them, and where a record was counted."""

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=0, lt=2**53)]  # exact in the doubles that engines export


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Origin(_Stored):
    """Which program counted, under which numbers; null where nobody said."""

    engine: str
    engine_version: str | None = None
    scope: Literal["lifetime", "difference", "intervals", "requests"] = Field(
        description="of the counts: since the server's start, between two looks, log intervals, "
        "or the answers of single requests"
    )
    target: str | None = None
    target_revision: str | None = None
    target_dtype: str | None = None
    target_quantization: str | None = None
    draft: str | None = None
    draft_revision: str | None = None
    draft_dtype: str | None = None
    draft_quantization: str | None = None
    context_tokens: tuple[Count, Count] | None = Field(
        None, description="the requests' context lay between these"
    )
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Counts(_Stored):
    """Whole counts of the cycles at one draft length γ; null: the source does not say.

    A cycle with a draft accepts 0 .. γ drafts; the bonus token is in none of these numbers.
    """

    num_drafts: Annotated[int, Field(ge=1, lt=2**53)] | None = Field(
        None, description="cycles that drafted anything"
    )
    num_accepted_tokens: Count
    num_draft_tokens: Count | None = None
    num_cycles: Count | None = Field(
        None, description="all decode cycles, those without a draft included"
    )
    accepted_lengths: tuple[Count, ...] = Field(
        (), description="[γ + 1] cycles with a draft by accepted drafts"
    )
    accepted_per_position: tuple[Count, ...] = Field(
        (), description="[γ] cycles that accepted position k and all before it"
    )
    drafted_per_position: tuple[Count, ...] = Field(
        (), description="[γ] cycles that drafted position k"
    )

    @model_validator(mode="after")
    def _check_identities(self) -> Self:
        accepted = self.num_accepted_tokens
        if self.accepted_lengths:
            cycles = sum(self.accepted_lengths)
            tokens = sum(length * each for length, each in enumerate(self.accepted_lengths))
            self._require(cycles == self.num_drafts, f"the histogram counts {cycles} cycles")
            self._require(tokens == accepted, f"the histogram holds {tokens} accepted drafts")
        if self.accepted_per_position:
            total = sum(self.accepted_per_position)
            self._require(total == accepted, f"positions sum to {total} accepted drafts")
            falling = (self.num_drafts or 0, *self.accepted_per_position)
            self._require(_is_falling(falling), f"accepted by position {falling[1:]} increases")
        self._check_totals()
        return self

    def _check_totals(self) -> None:
        drafted, drafts = self.num_draft_tokens, self.num_drafts
        if drafted is not None:
            self._require(self.num_accepted_tokens <= drafted, "more was accepted than drafted")
        if drafts is not None and self.num_cycles is not None:
            self._require(drafts <= self.num_cycles, f"only {self.num_cycles} cycles are stated")
        if self.drafted_per_position:
            pairs = zip(self.accepted_per_position, self.drafted_per_position, strict=True)
            self._require(all(a <= d for a, d in pairs), "a position accepted more than it drafted")
            self._require(_is_falling(self.drafted_per_position), "drafted by position increases")

    def _require(self, holds: bool, found: str) -> None:
        if not holds:
            raise ValueError(
                f"{found}, beside num_drafts {self.num_drafts}, num_draft_tokens "
                f"{self.num_draft_tokens} and num_accepted_tokens {self.num_accepted_tokens}; "
                "expected counts of the same cycles"
            )

    def check(self, kind: str, gamma: int) -> None:
        """Raise ValueError where these are no counts of that kind of record at draft length γ."""
        lists = {
            "accepted_lengths": (self.accepted_lengths, gamma + 1, kind == "histogram"),
            "accepted_per_position": (
                self.accepted_per_position,
                gamma,
                kind == "position_counters",
            ),
            "drafted_per_position": (self.drafted_per_position, gamma, False),
        }
        for name, (values, expected, needed) in lists.items():
            if (values or needed) and len(values) != expected:
                raise ValueError(
                    f"γ = {gamma}, kind {kind!r}: {name} has {len(values)} entries; expected "
                    f"{expected}"
                )
        longest = gamma * (self.num_drafts or 0)
        if self.num_drafts is not None and self.num_accepted_tokens > longest:
            raise ValueError(
                f"γ = {gamma}: {self.num_drafts} drafts accepted {self.num_accepted_tokens} "
                f"tokens; expected at most {longest}"
            )


def _is_falling(values: tuple[int, ...]) -> bool:
    return all(later <= earlier for earlier, later in pairwise(values))
