"""What a static tree is worth under rates: node probabilities, survival, expected tokens.

Every node is accepted with the product of the conditional rates along its path, E[Y] = 1 + Σ of
these over all nodes (Sequoia, Chen et al. 2024, section 3; Medusa, Cai et al. 2024, section 2.3).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simcore.acceptance.topology.paths import rank_paths
from simcore.acceptance.tree import ROOT, DraftTree

FloatArray = NDArray[np.float64]


def positional_rates(acceptance: ArrayLike) -> FloatArray:
    """[depths, ranks] rates, checked: P(the child of that rank is accepted | its parent is).

    At most one child of a node is accepted, so a row sums to at most 1. Raises ValueError.
    """
    rates = np.atleast_2d(np.asarray(acceptance, dtype=np.float64))
    tolerance = 1e-9
    inside = rates.size and rates.min() >= 0.0 and rates.sum(axis=1).max() <= 1.0 + tolerance
    if rates.ndim != 2 or not inside:  # noqa: PLR2004 - two axes
        raise ValueError(
            f"positional acceptance of shape {rates.shape}; expected [depths, ranks], each at "
            "least 0, a row summing to at most 1"
        )
    return rates


def node_probabilities(tree: DraftTree, acceptance: ArrayLike) -> FloatArray:
    """[m] P(node accepted) under positional acceptance [depths, ranks].

    A child's rate depends on its depth and rank alone. Depths and ranks beyond the table count
    as never accepted, which makes the sum a lower bound.
    """
    rates = positional_rates(acceptance)
    conditional = np.zeros(tree.num_nodes)
    for node, path in enumerate(rank_paths(tree)):
        if len(path) <= rates.shape[0] and path[-1] < rates.shape[1]:
            conditional[node] = rates[len(path) - 1, path[-1]]
    return path_products(tree, conditional)


def path_products(tree: DraftTree, conditional: ArrayLike) -> FloatArray:
    """[m] P(node accepted) from P(node accepted | its parent is) of every node [m]."""
    found = np.array(conditional, dtype=np.float64)
    if found.shape != (tree.num_nodes,) or found.min() < 0.0 or found.max() > 1.0:
        raise ValueError(f"rates of shape {found.shape}; expected {tree.num_nodes} between 0 and 1")
    for node, parent in enumerate(tree.parents):
        if parent != ROOT:
            found[node] *= found[parent]
    return found


def tree_survival(tree: DraftTree, probabilities: ArrayLike) -> FloatArray:
    """(s_1 .. s_depth): P(at least k drafts accepted), Σ over the nodes of depth k.

    One path at most is accepted, so the nodes of a depth exclude one another.
    """
    depths = np.array(tree.depths) - 1
    weights = np.asarray(probabilities, dtype=np.float64)
    return np.bincount(depths, weights=weights, minlength=tree.depth).astype(np.float64)


def expected_tokens(probabilities: Sequence[float] | FloatArray) -> float:
    """E[Y] = 1 + Σ P(node accepted): emitted tokens of an uncut cycle, the bonus included."""
    return 1.0 + float(np.sum(probabilities))
