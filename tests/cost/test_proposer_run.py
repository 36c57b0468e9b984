"""Placement, overlap, the draft's prefill and switching drafts back on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.cost.law import CostLaw, LinearLaw, ProposerRun, TokenLaw
from simcore.cost.price import decode_step, law_tables, price
from simcore.cost.shape import StepShape
from tests.factories import cost_law

PLAIN = cost_law()
SHAPE = StepShape(4.0, 4.0, 3.0, 12.0, 12.0, 16.0, 0.0, 400.0, 0.0, 0.0)


def running(**run) -> CostLaw:
    return PLAIN.model_copy(update={"proposer_runs": {"draft_model": ProposerRun(**run)}})


def tables(law: CostLaw):
    return law_tables(law, "draft_model")


SERIAL = price(tables(PLAIN), SHAPE)


def test_a_parallel_draft_shows_only_what_outlasts_the_target_pass():
    shown = price(tables(running(placement="parallel")), SHAPE)
    assert shown[0] == 0.0
    assert shown[1:] == SERIAL[1:]
    slow = PLAIN.propose | {"draft_model": LinearLaw(base_s=0.05)}
    law = running(placement="own_device").model_copy(update={"propose": slow})
    propose_s, target_s, _, _ = price(tables(law), SHAPE)
    assert propose_s + target_s == pytest.approx(0.05)


@given(sharing=st.floats(0, 1))
def test_sharing_lies_between_the_longer_pass_and_the_sum(sharing):
    law = running(placement="parallel", sharing=sharing)
    both_s = sum(price(tables(law), SHAPE)[:2])
    longer_s, shorter_s = max(SERIAL[:2]), min(SERIAL[:2])
    assert both_s == pytest.approx(longer_s + sharing * shorter_s)


def test_full_sharing_is_serial():
    assert price(tables(running(placement="parallel", sharing=1.0)), SHAPE) == SERIAL


def test_host_work_hides_as_far_as_the_target_pass_lasts():
    half = price(tables(running(host_overlap=0.5)), SHAPE)
    assert half[:2] == SERIAL[:2]
    assert half[2:] == pytest.approx([0.5 * seconds for seconds in SERIAL[2:]])
    host_bound = running(host_overlap=1.0).model_copy(update={"overhead_s": 0.1})
    _, target_s, reconcile_s, overhead_s = price(tables(host_bound), SHAPE)
    assert reconcile_s + overhead_s + target_s == pytest.approx(SERIAL[2] + 0.1)


def test_a_proposer_can_lose_the_overlap_that_plain_decoding_has():
    law = running(host_overlap=0.0).model_copy(update={"host_overlap": 1.0})
    assert decode_step(law_tables(law, None), 4, 100, 0).overhead_s == 0.0
    assert decode_step(tables(law), 4, 100, 0).overhead_s == PLAIN.overhead_s


def test_drafts_prefill_too_while_their_proposer_is_loaded():
    law = running(per_prefill_token_s=1e-5)
    prefill = StepShape(1.0, 0.0, 0.0, 0.0, 0.0, 200.0, 0.0, 0.0, 200.0, 0.0)
    assert price(tables(law), prefill)[0] == pytest.approx(2e-3)
    assert price(law_tables(law, None), prefill)[0] == 0.0
    mixed = SHAPE._replace(query_tokens=216.0, prefill_tokens=200.0)
    assert price(tables(law), mixed)[0] == pytest.approx(SERIAL[0] + 2e-3)


def test_switching_on_pays_for_the_tokens_that_the_draft_has_missed():
    law = running(switch_on=TokenLaw(base_s=1e-3, per_token_s=1e-5))
    assert price(tables(law), SHAPE) == SERIAL
    lagging = price(tables(law), SHAPE._replace(lagging_tokens=50.0))
    assert lagging[0] - SERIAL[0] == pytest.approx(1e-3 + 50e-5)
    off = StepShape(4.0, 4.0, 0.0, 0.0, 0.0, 4.0, 400.0, 0.0, 0.0, 50.0)
    assert price(tables(law), off)[0] == 0.0


def test_every_phase_stays_above_zero_and_none_is_counted_twice():
    rng = np.random.default_rng(5)
    for _ in range(200):
        law = running(
            placement="parallel", sharing=rng.uniform(), host_overlap=rng.uniform()
        ).model_copy(update={"overhead_s": float(rng.exponential(0.02))})
        shown = price(tables(law), SHAPE)
        serial = price(tables(law.model_copy(update={"proposer_runs": {}})), SHAPE)
        assert min(shown) >= 0.0
        assert sum(shown) <= sum(serial) * (1 + 1e-12)
        assert sum(shown) >= max(serial) * (1 - 1e-12)


def test_a_run_that_contradicts_itself_is_refused():
    with pytest.raises(ValueError, match="expected 0 unless 'parallel'"):
        ProposerRun(placement="own_device", sharing=0.2)
    with pytest.raises(ValueError, match="name \\['eagle'\\]"):
        CostLaw.model_validate(PLAIN.model_dump() | {"proposer_runs": {"eagle": {}}})
