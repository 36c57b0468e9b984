"""Which child of a tree's node accepts: drawn from the rule's posterior, beside the ratio."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.traces import draft_trace
from simcore.acceptance.topology.recorded_children import MAX_DRAWN_CHILDREN
from simcore.acceptance.trace import RANK_ABSENT
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
GAMMA = 4


def recorded(loaded_pair, ids, text, temperature, seed=0):
    rng = np.random.default_rng(seed)
    sampling = Sampling(temperature=temperature)
    return draft_trace(*loaded_pair, ids, text, len(text), GAMMA, sampling, rng)


def test_the_first_child_accepts_as_often_as_the_ratio_says(loaded_pair, prompt_ids):
    text = prompt_ids[1][:20]
    ratio = np.array([row[0] for row in recorded(loaded_pair, prompt_ids[0], text, 1.0).ratio])
    expected = np.minimum(ratio, 1.0)
    first = {"specinfer_child": 0.0, "sequoia_child": 0.0}
    repeats = 60
    for seed in range(repeats):
        trace = recorded(loaded_pair, prompt_ids[0], text, 1.0, seed)
        for name in first:
            first[name] += np.mean([row[0] == 0 for row in getattr(trace, name)]) / repeats
    error = np.sqrt((expected * (1 - expected)).sum() / repeats) / len(expected)
    for share in first.values():
        # The recorded ratio keeps three digits.
        assert abs(share - expected.mean()) < 4 * error + 0.005


def test_children_are_drawn_once_a_position_and_few_are_tried(loaded_pair, prompt_ids):
    drawn = set()
    for text in (prompt_ids[2][:20], list(range(40, 60))):
        trace = recorded(loaded_pair, prompt_ids[0], text, 1.0)
        for column in (trace.specinfer_child, trace.sequoia_child):
            for start in range(len(text) - GAMMA):
                assert column[start] == [column[start + k][0] for k in range(GAMMA)]
            drawn |= {child for row in column for child in row}
    assert drawn <= {*range(MAX_DRAWN_CHILDREN), RANK_ABSENT}
    assert len(drawn) > 1


def test_the_columns_are_there_for_sampling_alone(loaded_pair, prompt_ids):
    trace = recorded(loaded_pair, prompt_ids[0], prompt_ids[1], 0.0)
    assert trace.specinfer_child is None
    assert trace.columns()["sequoia_child"] == [None] * len(prompt_ids[1])


def test_drawing_children_leaves_the_other_draws_as_they_were(loaded_pair, prompt_ids):
    text = prompt_ids[1]
    trace = recorded(loaded_pair, prompt_ids[0], text, 1.0, seed=5)
    rng = np.random.default_rng(5)
    for accepted, ratios in zip(trace.accepted, trace.ratio, strict=True):
        passed = rng.random(len(ratios)) < np.minimum(ratios, 1.0)
        assert accepted == int(np.cumprod(passed).sum())
