"""A latent easy/hard chain over output positions, read at cycle starts.

The text is in one of two states at each output position and moves on by a Markov chain. A draft
for a position in state h is accepted with a probability of that state; its odds fall as depth^-d,
because a draft that rests on drafts knows less. A cycle tests its positions one by one, ends with
the first miss, and skips the position that its bonus token fills: that is why a_1 falls as γ
grows, and why accepted runs go on from one cycle to the next. For n-gram lookup the states are
"inside a copy" and "no match".
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

FloatArray = NDArray[np.float64]
EASY, HARD = 0, 1


class Chain(NamedTuple):
    """Chains of one or more requests; log-odds each [...], the last axis free to broadcast."""

    easy: FloatArray  # a draft is accepted in the easy state, at depth 1
    hard: FloatArray
    easy_to_hard: FloatArray  # from one output position to the next
    hard_to_easy: FloatArray
    depth_decay: float

    def moves(self) -> FloatArray:
        """Transition probabilities [..., 2, 2] from one output position to the next."""
        leave_easy, leave_hard = expit(self.easy_to_hard), expit(self.hard_to_easy)
        rows = [[1 - leave_easy, leave_easy], [leave_hard, 1 - leave_hard]]
        return np.moveaxis(np.array(rows), (0, 1), (-2, -1))

    def acceptance(self, depth: int) -> FloatArray:
        """Probability [..., 2] that a draft at depth 1, 2, ... is accepted, by state."""
        decay = self.depth_decay * np.log(depth)
        return np.stack([expit(self.easy - decay), expit(self.hard - decay)], axis=-1)


def cycle_matrices(chain: Chain, gamma: int) -> FloatArray:
    """[..., γ + 1, 2, 2]: P(accepted = a, state at the next cycle start | state at this one)."""
    moves = chain.moves()
    so_far = np.broadcast_to(np.eye(2), moves.shape)
    matrices = []
    for depth in range(1, gamma + 1):
        hit = chain.acceptance(depth)[..., :, None]
        matrices.append(so_far @ ((1 - hit) * moves))
        so_far = so_far @ (hit * moves)
    # The bonus token fills a position that no draft was tested at.
    matrices.append(so_far @ moves)
    return np.stack(matrices, axis=-3)


def state_at_starts(matrices: FloatArray) -> FloatArray:
    """[..., 2]: the share of cycles that start easy and hard in the long run."""
    step = matrices.sum(axis=-3)
    share = np.stack([step[..., HARD, EASY], step[..., EASY, HARD]], axis=-1)
    share = np.maximum(share, 1e-300)
    return np.asarray(share / share.sum(axis=-1, keepdims=True), dtype=np.float64)


def accepted_law(matrices: FloatArray) -> FloatArray:
    """[..., γ + 1]: P(accepted = a) over the cycles of a long output."""
    start = state_at_starts(matrices)
    return np.asarray(np.einsum("...i,...aij->...a", start, matrices), dtype=np.float64)


def mean_tokens(matrices: FloatArray) -> FloatArray:
    """[...]: tokens a cycle in the long run, bonus included."""
    law = accepted_law(matrices)
    return np.asarray(law @ np.arange(1, law.shape[-1] + 1), dtype=np.float64)
