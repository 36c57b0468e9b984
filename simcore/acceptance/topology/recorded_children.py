"""Which child accepts each recorded token, as far as the recording says, by rule.

Ranks decide `top_k` (and greedy verification) for every tree. q(v)/p(v) alone decides `specinfer`
and `sequoia` for chains only: with a second child it matters how much of p the first left over, at
SpecInfer 1 − Σ min(p, q), at Sequoia also which token was rejected. For trees, calibration draws
the accepting child where it knows p and q, and writes a column of its own.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simcore.acceptance.topology.replay import RankArray
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.trace import RANK_ABSENT, TraceSet, dense_column
from simcore.errors import TreeError

MAX_DRAWN_CHILDREN = 8  # tries that calibration draws
COLUMNS = {SiblingRule.SPECINFER: "specinfer_child", SiblingRule.SEQUOIA: "sequoia_child"}


def recorded_children(
    traces: TraceSet,
    rule: SiblingRule,
    width: int,
    *,
    drawn: RankArray | None = None,
    seed: int = 0,
) -> RankArray:
    """[num_rows, depths] the child that accepts each realised token; RANK_ABSENT where none.

    `width`: most children of a node. `drawn`: the rule's own column, where it was recorded. Raises
    TreeError, with the reason, where the recorded columns do not decide the rule.
    """
    if rule is SiblingRule.TOP_K:
        if traces.rank is None:
            raise TreeError("the recording holds no ranks; a tree needs them: measure again")
        return traces.rank
    if traces.ratio.shape[1] == 0:
        raise TreeError(
            f"rule {rule.value!r}: the recording has no q/p, because decoding was greedy or the "
            "proposer deterministic; its candidates are the top ones: use rule 'top_k'"
        )
    if width == 1:
        return _chain_children(traces, seed)
    if drawn is None:
        raise TreeError(
            f"rule {rule.value!r} with {width} children of a node: rank and q(v)/p(v) do not tell "
            f"which child accepts, for that depends on what the first left of p; it takes the "
            f"column {COLUMNS[rule]!r}: measure again, or use rule 'top_k' or a chain"
        )
    if width > MAX_DRAWN_CHILDREN:
        raise TreeError(
            f"rule {rule.value!r} with {width} children of a node; {MAX_DRAWN_CHILDREN} tries were "
            "drawn: use a narrower tree or rule 'top_k'"
        )
    return drawn


def dense_lists(
    table: pa.Table, name: str, depths: int, missing: float
) -> NDArray[np.float64] | None:
    """[num_rows, depths] a list column; None where the table lacks it or never fills it.

    Depths past the end of a list are `missing`.
    """
    if name not in table.column_names or table.column(name).null_count == len(table):
        return None
    return dense_column(table, name, depths, missing)


def _chain_children(traces: TraceSet, seed: int) -> RankArray:
    """0 with probability min(1, q/p), drawn once for each output position, at whatever depth."""
    num_rows, depths = traces.ratio.shape
    luck: NDArray[np.float64] = np.random.default_rng(seed).random(num_rows + depths)
    at = np.arange(num_rows)[:, None] + np.arange(depths)
    return np.where(luck[at] < traces.ratio, 0, RANK_ABSENT).astype(np.int16)
