"""Random trees and rates for property tests."""

import numpy as np
from hypothesis import strategies as st

from simcore.acceptance.tree import DraftTree

TREES = st.integers(1, 14).flatmap(
    lambda count: st.tuples(*(st.integers(-1, node - 1) for node in range(count))).map(DraftTree)
)


def _rates(shape):
    depths, ranks = shape
    row = st.lists(st.floats(0.0, 1.0), min_size=ranks + 1, max_size=ranks + 1).map(_share)
    return st.lists(row, min_size=depths, max_size=depths).map(np.array)


def _share(weights):
    """Weights as rates that leave the last one's share for a rejection of all."""
    total = sum(weights)
    return [0.0] * (len(weights) - 1) if total <= 0 else [w / total for w in weights[:-1]]


POSITIONAL = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(_rates)


def rank_rows(depths, highest=4):
    """[num_rows, depths] ranks, some of them absent."""
    rank = st.one_of(st.integers(0, highest), st.just(32767))
    row = st.lists(rank, min_size=depths, max_size=depths)
    return st.lists(row, min_size=1, max_size=12).map(lambda rows: np.array(rows, dtype=np.int16))
