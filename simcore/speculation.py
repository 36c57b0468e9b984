"""How a service speculates: proposer, draft length, and the policy that may change it.

Policies are those of the engines (docs/reference/policies.md); each names the engine whose rule it
is.
"""

from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from simcore.acceptance.topology.sibling_rules import SiblingRule
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
    table: tuple[tuple[int, int, DraftLength], ...] = Field(
        min_length=1,
        description="rows of first and last batch size (requests), draft length (tokens)",
    )

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
    smallest positive candidate is tried. With `tiers` the candidates follow the batch size.
    """

    kind: Literal["adaptive_ema"]
    candidates: tuple[DraftLength, ...] = Field(
        (1, 3, 7), min_length=1, description="draft lengths, tokens"
    )
    tiers: dict[int, tuple[DraftLength, ...]] | None = Field(
        None, description="candidates from this batch size on, in place of `candidates`"
    )
    ema_alpha: float = Field(0.2, gt=0.0, le=1.0, description="weight of the newest mean")
    update_interval: int = Field(5, ge=1, description="steps")
    warmup_steps: int = Field(10, ge=0)
    up_hysteresis: float = Field(0.0, description="accepted tokens a request and step")
    down_hysteresis: float = Field(-0.25, description="accepted tokens a request and step")
    probe_interval: int = Field(50, ge=1, description="steps without drafts before one is tried")

    @model_validator(mode="after")
    def _check_candidates(self) -> Self:
        for found in self.by_batch_size().values():
            if not found or list(found) != sorted(set(found)):
                raise ValueError(f"candidates {found}; expected ascending, each once")
        begins = list(self.by_batch_size())
        if begins != sorted(begins) or begins[0] != 1:
            raise ValueError(
                f"tiers begin at {begins}; expected batch sizes that rise, the first 1"
            )
        return self

    def by_batch_size(self) -> dict[int, tuple[int, ...]]:
        """Candidates by the smallest batch that they hold for."""
        return self.tiers or {1: self.candidates}

    def draft_lengths(self, longest: int) -> tuple[int, ...]:
        """Draft lengths that it may choose."""
        del longest
        return tuple(sorted({each for tier in self.by_batch_size().values() for each in tier}))


class AcceptanceGate(Frozen):
    """TensorRT-LLM's acceptance gate: off for good once accepted / drafted falls below a bound.

    Measured over the last `window_steps` steps with drafts, once the window is full.
    """

    kind: Literal["acceptance_gate"]
    window_steps: int = Field(100, ge=1, le=100_000)
    threshold: float = Field(gt=0.0, lt=1.0, description="accepted / drafted tokens")

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
    ema_alpha: float = Field(0.05, gt=0.0, le=1.0, description="weight of the newest step")
    hysteresis: float = Field(0.02, ge=0.0, lt=1.0, description="relative gain in tokens a second")

    def draft_lengths(self, longest: int) -> tuple[int, ...]:
        """Draft lengths that it may choose."""
        return self.candidates or tuple(range(longest + 1))


class MemoryRung(Frozen):
    """What to draft while fewer than this share of the blocks is free."""

    below: float = Field(gt=0.0, lt=1.0, description="share of free blocks")
    num_speculative_tokens: DraftLength | None = Field(None, description="a shorter chain; 0: off")
    num_draft_tokens: int | None = Field(
        None, ge=1, description="a narrower tree: its first candidates"
    )
    proposer: str | None = Field(None, description="another proposer, for a chain of this length")

    @model_validator(mode="after")
    def _check_one_way(self) -> Self:
        if (self.num_speculative_tokens is None) == (self.num_draft_tokens is None):
            raise ValueError(
                "a rung of the ladder needs num_speculative_tokens (a shorter chain) or "
                "num_draft_tokens (a narrower tree), and not both"
            )
        if self.proposer is not None and not self.num_speculative_tokens:
            raise ValueError(
                f"the rung with proposer {self.proposer!r} needs num_speculative_tokens above 0"
            )
        return self


class MemoryPressure(Frozen):
    """A ladder down while blocks run out: shorter, narrower, another proposer, off.

    By default half the drafts below a fifth of free blocks, none below a tenth. A rung is left
    upwards only when the free share exceeds its bound by `hysteresis`.
    """

    kind: Literal["memory_pressure"]
    ladder: tuple[MemoryRung, ...] | None = Field(None, description="from mild to severe")
    hysteresis: float = Field(0.05, ge=0.0, lt=1.0, description="share of free blocks")

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        bounds = [rung.below for rung in self.ladder or ()]
        if self.ladder is not None and (not bounds or bounds != sorted(set(bounds), reverse=True)):
            raise ValueError(f"ladder bounds {bounds}; expected at least one rung, falling")
        return self

    def rungs(self, longest: int) -> tuple[MemoryRung, ...]:
        """The ladder, or the default one below chains of this length."""
        if self.ladder is not None:
            return self.ladder
        half = (MemoryRung(below=0.2, num_speculative_tokens=longest // 2),) if longest > 1 else ()
        return (*half, MemoryRung(below=0.1, num_speculative_tokens=0))

    def draft_lengths(self, longest: int) -> tuple[int, ...]:
        """Draft lengths of the scenario's own proposer that it may choose."""
        own = (r for r in self.rungs(longest) if r.proposer is None)
        shorter = (r.num_speculative_tokens for r in own if r.num_speculative_tokens is not None)
        return (longest, *shorter)


class AdaptiveVerification(Frozen):
    """vLLM's adaptive verification: full drafts, of which the batch verifies the likeliest.

    The number verified maximises expected tokens a second by the cost law; survival comes from the
    proposer's recorded confidences, one cycle old.
    """

    kind: Literal["adaptive_verification"]

    def draft_lengths(self, longest: int) -> tuple[int, ...]:
        """Draft lengths that it may choose."""
        return (longest,)


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
    | AdaptiveVerification
    | Oracle,
    Field(discriminator="kind"),
]


class DynamicTree(Frozen):
    """A tree of EAGLE-2's kind: its shape follows the draft's confidences, cycle by cycle.

    The draft expands its `topk` best nodes at every level, and the best `num_draft_tokens` of all
    that it scored are verified. SGLang counts the root too: its num_draft_tokens is one more.
    """

    topk: int = Field(ge=1, le=64, description="candidates of a node")
    num_draft_tokens: int = Field(ge=1, le=4096)


class DraftScheme(NamedTuple):
    """One proposer with one topology: a row of the acceptance and cost tables."""

    proposer: str
    depth: int
    tree: tuple[int, ...] | None = None
    dynamic: DynamicTree | None = None
    rule: SiblingRule = SiblingRule.TOP_K

    @property
    def is_tree(self) -> bool:
        """Whether candidates branch."""
        return self.tree is not None or self.dynamic is not None


class DraftMode(NamedTuple):
    """One thing that a step may draft; fields as in serving.state.MODE_DTYPE."""

    depth: int
    verified_tokens: int
    proposed_tokens: int
    scheme: int = 0


class Speculation(Frozen):
    """How cycles are drafted; draft length 0 is off."""

    proposer: str | None = Field(None, description="a proposer of the profile; null: off")
    num_speculative_tokens: DraftLength = Field(
        0, description="the draft length, or the longest that a policy may choose"
    )
    tree: tuple[int, ...] | None = Field(
        None,
        description="parent of each candidate, -1 the root; its depth is num_speculative_tokens",
    )
    tree_rule: SiblingRule = Field(
        SiblingRule.TOP_K, description="how the children of a node are drawn and verified"
    )
    dynamic_tree: DynamicTree | None = Field(
        None, description="EAGLE-2's tree, num_speculative_tokens deep; null: a chain or `tree`"
    )
    num_proposed_tokens: int | None = Field(
        None,
        ge=1,
        description="candidates that the proposer makes; those of the tree are verified (EAGLE-2)",
    )
    policy: Policy = FixedPolicy()
    plain_fraction: float = Field(
        0.0, ge=0.0, le=1.0, description="share of requests whose adapter or grammar rules it out"
    )
    acceptance: Literal["auto", "trace", "positional", "heterogeneous", "iid"] = Field(
        "auto",
        description="replay of recorded requests, survival by position, or a fitted model; auto: "
        "the best held of the first two",
    )

    @model_validator(mode="after")
    def _check_proposer(self) -> Self:
        if self.num_speculative_tokens > 0 and self.proposer is None:
            raise ValueError(
                f"num_speculative_tokens is {self.num_speculative_tokens} but no proposer is named"
            )
        if self.tree is not None:
            self._check_depth(DraftTree(self.tree))
        if self.dynamic_tree is not None:
            self._check_dynamic(self.dynamic_tree)
        if self.tree is not None or self.dynamic_tree is not None:
            self._check_tree_policy()
        self._check_proposed()
        asked = max(self.draft_lengths())
        if asked > self.num_speculative_tokens:
            raise ValueError(
                f"policy {self.policy.kind!r} asks for {asked} drafts, num_speculative_tokens is "
                f"{self.num_speculative_tokens}; raise it or shorten the policy's"
            )
        return self

    def _check_dynamic(self, tree: DynamicTree) -> None:
        depth = self.num_speculative_tokens
        if self.tree is not None or self.num_proposed_tokens is not None or depth == 0:
            raise ValueError(
                "dynamic_tree stands alone: give num_speculative_tokens (its depth), and neither "
                "tree nor num_proposed_tokens"
            )
        proposed = tree.topk + (depth - 1) * tree.topk**2
        if tree.num_draft_tokens > proposed:
            raise ValueError(
                f"dynamic_tree verifies {tree.num_draft_tokens} of {proposed} proposed candidates; "
                "lower num_draft_tokens or raise topk or num_speculative_tokens"
            )

    def _check_depth(self, tree: DraftTree) -> None:
        if tree.depth != self.num_speculative_tokens:
            raise ValueError(
                f"the tree is {tree.depth} deep, num_speculative_tokens is "
                f"{self.num_speculative_tokens}; set it to {tree.depth}"
            )

    def _check_tree_policy(self) -> None:
        depth = self.num_speculative_tokens
        lengths = set(self.policy.draft_lengths(depth)) - {0, depth}
        if lengths or isinstance(self.policy, AdaptiveVerification | GoodputPolicy | Oracle):
            raise ValueError(
                f"policy {self.policy.kind!r} shortens drafts, which a static tree cannot; use "
                "'fixed', a table between 0 and the depth, the gate, or a ladder of narrower trees"
            )

    def _check_proposed(self) -> None:
        if self.num_proposed_tokens is not None and (
            self.tree is None or self.num_proposed_tokens < len(self.tree)
        ):
            raise ValueError(
                f"num_proposed_tokens {self.num_proposed_tokens}: a proposer makes more than it "
                "verifies only for a tree; give a tree of at most so many candidates"
            )
        if not isinstance(self.policy, MemoryPressure):
            return
        for rung in self.policy.rungs(self.num_speculative_tokens):
            length, nodes = rung.num_speculative_tokens or 0, rung.num_draft_tokens
            if rung.proposer is not None and length > self.num_draft_tokens:
                raise ValueError(
                    f"a rung verifies {length} drafts of {rung.proposer!r}, the full draft only "
                    f"{self.num_draft_tokens}; a ladder goes down: shorten the rung"
                )
            if nodes is not None and (self.tree is None or nodes > len(self.tree)):
                raise ValueError(
                    f"a rung verifies {nodes} candidates of a tree; expected a tree with at least "
                    "as many"
                )

    @property
    def num_draft_tokens(self) -> int:
        """m: candidates that the target scores in a cycle at full draft length."""
        if self.dynamic_tree is not None:
            return self.dynamic_tree.num_draft_tokens
        return len(self.tree) if self.tree is not None else self.num_speculative_tokens

    @property
    def drafts(self) -> str:
        """What a cycle drafts at most, in a few words."""
        depth = self.num_speculative_tokens
        if self.tree is None and self.dynamic_tree is None:
            return f"γ = {depth}"
        kind = "tree" if self.dynamic_tree is None else "dynamic tree"
        return f"{kind} of {self.num_draft_tokens}, {depth} deep"

    @property
    def served(self) -> str:
        """The drafts, and the policy that drives them where they are not the same in every step."""
        if self.policy.kind == "fixed":
            return self.drafts
        return f"{self.drafts}, {self.policy.kind.replace('_', ' ')}"

    @property
    def topk(self) -> int:
        """Candidates at the first level; a chain's is 1."""
        if self.dynamic_tree is not None:
            return self.dynamic_tree.topk
        return self.tree.count(-1) if self.tree is not None else 1

    def draft_lengths(self) -> tuple[int, ...]:
        """Every draft length of the proposer that the policy may choose, ascending."""
        return tuple(sorted(set(self.policy.draft_lengths(self.num_speculative_tokens))))

    def proposers(self) -> tuple[str, ...]:
        """Every proposer that is loaded, the scenario's own first; none when off."""
        if self.num_speculative_tokens == 0 or self.proposer is None:
            return ()
        return tuple(dict.fromkeys((self.proposer, *(s.proposer for s in self.schemes()[1:]))))

    def schemes(self) -> tuple[DraftScheme, ...]:
        """The proposer and topology of every draft mode; the scenario's own first."""
        return self._drafting()[0]

    def modes(self) -> tuple[DraftMode, ...]:
        """0: off; 1 .. γ: the scenario's own, of that depth; then the other rungs of a ladder."""
        return self._drafting()[1]

    def rungs(self) -> tuple[tuple[float, int], ...]:
        """The memory ladder as (share of free blocks, draft mode); empty for other policies."""
        return self._drafting()[2]

    def _drafting(
        self,
    ) -> tuple[tuple[DraftScheme, ...], tuple[DraftMode, ...], tuple[tuple[float, int], ...]]:
        longest, own = self.num_speculative_tokens, self.proposer or ""
        dynamic = self.dynamic_tree
        schemes = [DraftScheme(own, longest, self.tree, dynamic, self.tree_rule)]
        modes = [DraftMode(depth, depth, depth) for depth in range(longest + 1)]
        if self.tree is not None:
            proposed = self.num_proposed_tokens or len(self.tree)
            modes[longest] = DraftMode(longest, len(self.tree), proposed)
        if dynamic is not None:
            proposed = dynamic.topk + (longest - 1) * dynamic.topk**2
            modes[longest] = DraftMode(longest, dynamic.num_draft_tokens, proposed)
        rungs: list[tuple[float, int]] = []
        if isinstance(self.policy, MemoryPressure) and longest > 0:
            for rung in self.policy.rungs(longest):
                length = rung.num_speculative_tokens
                if rung.proposer is None and length is not None:
                    rungs.append((rung.below, length))
                    continue
                scheme = self._other_scheme(rung)
                nodes = len(scheme.tree) if scheme.tree is not None else scheme.depth
                rungs.append((rung.below, len(modes)))
                modes.append(DraftMode(scheme.depth, nodes, nodes, len(schemes)))
                schemes.append(scheme)
        return tuple(schemes), tuple(modes), tuple(rungs)

    def _other_scheme(self, rung: MemoryRung) -> DraftScheme:
        if rung.proposer is not None:
            return DraftScheme(rung.proposer, rung.num_speculative_tokens or 0)
        assert self.tree is not None
        narrow = self.tree[: rung.num_draft_tokens]
        depth = DraftTree(narrow).depth
        return DraftScheme(self.proposer or "", depth, narrow, None, self.tree_rule)
