"""A policy of every kind that fits a draft: a form's start (docs/reference/policies.md)."""

from collections.abc import Callable
from typing import NamedTuple

from simcore.speculation import (
    AcceptanceGate,
    AdaptiveEMA,
    BatchSizeTable,
    FixedPolicy,
    GoodputPolicy,
    MemoryPressure,
    MemoryRung,
    Oracle,
    Policy,
    Speculation,
)

KINDS = (
    "fixed",
    "batch_size_table",
    "adaptive_ema",
    "acceptance_gate",
    "goodput",
    "memory_pressure",
    "oracle",
)
TREE_KINDS = ("fixed", "batch_size_table", "acceptance_gate", "memory_pressure")
SGLANG_CANDIDATES = (1, 3, 7)  # --speculative-adaptive's own
LEAST_GATE = 0.01
MILD, SEVERE = 0.2, 0.1  # shares of free blocks, as MemoryPressure's own ladder


class DraftShape(NamedTuple):
    """What is drafted at full length; `num_nodes` of a static tree, None for a chain."""

    depth: int
    num_nodes: int | None = None
    is_dynamic: bool = False

    @staticmethod
    def of(speculation: Speculation) -> "DraftShape":
        """The shape of a scenario's speculation."""
        nodes = None if speculation.tree is None else len(speculation.tree)
        dynamic = speculation.dynamic_tree is not None
        return DraftShape(speculation.num_speculative_tokens, nodes, dynamic)

    @property
    def is_tree(self) -> bool:
        """Whether candidates branch: a tree cannot be shortened at will."""
        return self.num_nodes is not None or self.is_dynamic


def offered_kinds(shape: DraftShape) -> tuple[str, ...]:
    """Kinds of policy that can drive such drafts."""
    return TREE_KINDS if shape.is_tree else KINDS


def fits(policy: Policy, shape: DraftShape) -> bool:
    """Whether a policy that was made for other drafts can drive these."""
    if shape.is_tree and policy.kind not in TREE_KINDS:
        return False
    lengths = set(policy.draft_lengths(shape.depth))
    if shape.is_tree:
        rungs = policy.rungs(shape.depth) if isinstance(policy, MemoryPressure) else ()
        nodes = shape.num_nodes or 0
        return lengths <= {0, shape.depth} and all(
            (rung.num_draft_tokens or 0) <= nodes for rung in rungs
        )
    return max(lengths) <= shape.depth


def default_policy(
    kind: str,
    shape: DraftShape,
    *,
    table: tuple[tuple[int, int, int], ...] = (),
    threshold: float = 0.5,
) -> Policy:
    """A policy of `kind` for these drafts.

    `table` (planner.speedup_map.batch_size_table) and `threshold` (break_even_acceptance) are what
    the profile says; SGLang's and the project's own numbers stand elsewhere.
    """
    own = {each for each in SGLANG_CANDIDATES if each < shape.depth}
    made: dict[str, Callable[[], Policy]] = {
        "fixed": FixedPolicy,
        "batch_size_table": lambda: BatchSizeTable(kind="batch_size_table", table=table),
        "adaptive_ema": lambda: AdaptiveEMA(
            kind="adaptive_ema", candidates=tuple(sorted(own | {shape.depth}))
        ),
        "acceptance_gate": lambda: AcceptanceGate(
            kind="acceptance_gate", threshold=min(max(threshold, LEAST_GATE), 1.0 - LEAST_GATE)
        ),
        "goodput": lambda: GoodputPolicy(kind="goodput"),
        "memory_pressure": lambda: MemoryPressure(
            kind="memory_pressure", ladder=memory_ladder(shape)
        ),
        "oracle": lambda: Oracle(kind="oracle"),
    }
    return made[kind]()


def memory_ladder(
    shape: DraftShape, mild: float = MILD, severe: float = SEVERE
) -> tuple[MemoryRung, ...]:
    """Half the drafts while fewer than `mild` of the blocks are free, none below `severe`.

    Half of a static tree are its first candidates; a dynamic one is only turned off.
    """
    off = MemoryRung(below=severe, num_speculative_tokens=0)
    half = (shape.num_nodes or shape.depth) // 2
    if shape.is_dynamic or half == 0 or mild <= severe:
        return (off,)
    if shape.num_nodes is not None:
        return (MemoryRung(below=mild, num_draft_tokens=half), off)
    return (MemoryRung(below=mild, num_speculative_tokens=half), off)
