"""How a service speculates: proposer, draft length, and the policy that may change it.

Policies are those of the engines (docs/policies.md); each names the engine whose rule it is.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simcore.acceptance.tree import DraftTree
from simcore.profile.schema import Frozen

DraftLength = Annotated[int, Field(ge=0, le=64)]


class FixedPolicy(Frozen):
    """The same draft length in every step."""

    kind: Literal["fixed"] = "fixed"

    def draft_lengths(self, longest: int) -> tuple[int, ...]:
        """Draft lengths that it may choose."""
        return (longest,)


class BatchSizeTable(Frozen):
    """vLLM's num_speculative_tokens_per_batch_size: rows of (first, last, draft length).

    The batch size is the number of requests scheduled in the step before, prefills included;
    gaps and sizes beyond the last row keep the draft length before them.
    """

    kind: Literal["batch_size_table"]
    table: tuple[tuple[int, int, DraftLength], ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        expected_first = 1
        for index, (first, last, _) in enumerate(self.table):
            if (index == 0 and first != 1) or first < expected_first or last < first:
                raise ValueError(
                    f"row {index} is [{first}, {last}]; expected rows in order without overlap, "
                    "the first beginning at 1"
                )
            expected_first = last + 1
        return self

    def draft_lengths(self, longest: int) -> tuple[int, ...]:
        """Draft lengths that it may choose."""
        return (longest, *(length for _, _, length in self.table))


class AdaptiveEMA(Frozen):
    """SGLang's --speculative-adaptive: steps up and down by a moving average of acceptance.

    Every `update_interval` steps, after `warmup_steps`, the mean of accepted drafts a request is
    compared with candidate − 0.5 ± hysteresis. After `probe_interval` steps without drafts the
    smallest positive candidate is tried.
    """

    kind: Literal["adaptive_ema"]
    candidates: tuple[DraftLength, ...] = Field((1, 3, 7), min_length=1)
    ema_alpha: float = Field(0.2, gt=0.0, le=1.0)
    update_interval: int = Field(5, ge=1)
    warmup_steps: int = Field(10, ge=0)
    up_hysteresis: float = 0.0
    down_hysteresis: float = -0.25
    probe_interval: int = Field(50, ge=1)

    @model_validator(mode="after")
    def _check_candidates(self) -> Self:
        if list(self.candidates) != sorted(set(self.candidates)):
            raise ValueError(f"candidates {self.candidates}; expected ascending, each once")
        return self

    def draft_lengths(self, longest: int) -> tuple[int, ...]:
        """Draft lengths that it may choose."""
        del longest
        return self.candidates


class AcceptanceGate(Frozen):
    """TensorRT-LLM's acceptance gate: off for good once accepted / drafted falls below a bound.

    Measured over the last `window_steps` steps with drafts, once the window is full.
    """

    kind: Literal["acceptance_gate"]
    window_steps: int = Field(100, ge=1, le=100_000)
    threshold: float = Field(gt=0.0, lt=1.0)

    def draft_lengths(self, longest: int) -> tuple[int, ...]:
        """Draft lengths that it may choose."""
        return (0, longest)


class GoodputPolicy(Frozen):
    """The draft length of the best expected tokens a second for the batch at hand (SmartSpec).

    Expected tokens come from the profile, corrected by a moving average of what this service
    accepted; times from the cost law. It changes only for a gain beyond `hysteresis`.
    """

    kind: Literal["goodput"]
    candidates: tuple[DraftLength, ...] = Field((), description="empty: 0 to the draft length")
    ema_alpha: float = Field(0.05, gt=0.0, le=1.0)
    hysteresis: float = Field(0.02, ge=0.0, lt=1.0)

    def draft_lengths(self, longest: int) -> tuple[int, ...]:
        """Draft lengths that it may choose."""
        return self.candidates or tuple(range(longest + 1))


class MemoryPressure(Frozen):
    """Half the drafts below one share of free blocks, none below a lower one.

    A level is left upwards only when the free share exceeds its bound by `hysteresis`.
    """

    kind: Literal["memory_pressure"]
    shorten_below: float = Field(0.2, gt=0.0, lt=1.0)
    off_below: float = Field(0.1, gt=0.0, lt=1.0)
    hysteresis: float = Field(0.05, ge=0.0, lt=1.0)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.off_below >= self.shorten_below:
            raise ValueError(
                f"off_below {self.off_below} must lie under shorten_below {self.shorten_below}"
            )
        return self

    def draft_lengths(self, longest: int) -> tuple[int, ...]:
        """Draft lengths that it may choose."""
        return (0, longest // 2, longest)


class Oracle(Frozen):
    """Drafts exactly what will be accepted: nothing is ever rejected. No engine can do it."""

    kind: Literal["oracle"]

    def draft_lengths(self, longest: int) -> tuple[int, ...]:
        """Draft lengths that it may choose."""
        return tuple(range(longest + 1))


Policy = Annotated[
    FixedPolicy
    | BatchSizeTable
    | AdaptiveEMA
    | AcceptanceGate
    | GoodputPolicy
    | MemoryPressure
    | Oracle,
    Field(discriminator="kind"),
]


class Speculation(Frozen):
    """Chain speculation; draft length 0 is off."""

    proposer: str | None = Field(None, description="a proposer of the profile; null: off")
    num_speculative_tokens: DraftLength = Field(
        0, description="the draft length, or the longest that a policy may choose"
    )
    tree: tuple[int, ...] | None = Field(
        None,
        description="parent of each candidate, -1 the root; its depth is num_speculative_tokens",
    )
    policy: Policy = FixedPolicy()
    plain_fraction: float = Field(
        0.0, ge=0.0, le=1.0, description="share of requests whose adapter or grammar rules it out"
    )
    acceptance: Literal["auto", "trace", "positional"] = Field(
        "auto",
        description="replay of recorded requests, or survival by position; auto: the best held",
    )

    @model_validator(mode="after")
    def _check_proposer(self) -> Self:
        if self.num_speculative_tokens > 0 and self.proposer is None:
            raise ValueError(
                f"num_speculative_tokens is {self.num_speculative_tokens} but no proposer is named"
            )
        if self.tree is not None:
            self._check_tree(DraftTree(self.tree))
        asked = max(self.draft_lengths())
        if asked > self.num_speculative_tokens:
            raise ValueError(
                f"policy {self.policy.kind!r} asks for {asked} drafts, num_speculative_tokens is "
                f"{self.num_speculative_tokens}; raise it or shorten the policy's"
            )
        return self

    def _check_tree(self, tree: DraftTree) -> None:
        if tree.depth != self.num_speculative_tokens:
            raise ValueError(
                f"the tree is {tree.depth} deep, num_speculative_tokens is "
                f"{self.num_speculative_tokens}; set it to {tree.depth}"
            )
        if set(self.policy.draft_lengths(tree.depth)) - {0, tree.depth}:
            raise ValueError(
                f"policy {self.policy.kind!r} shortens drafts, which a static tree cannot; use "
                "'fixed', a table between 0 and the depth, or the gate"
            )

    @property
    def num_draft_tokens(self) -> int:
        """m: candidates that the target scores in a cycle at full draft length."""
        return len(self.tree) if self.tree is not None else self.num_speculative_tokens

    def draft_lengths(self) -> tuple[int, ...]:
        """Every draft length that the policy may choose, ascending."""
        return tuple(sorted(set(self.policy.draft_lengths(self.num_speculative_tokens))))
