"""From counts to survival: exact where it holds, refused with the reason where it does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from simcore.acceptance.evidence import histogram_from_positions
from simcore.acceptance.survival import mean_emitted_tokens
from simcore.errors import ConversionError, ScenarioError
from simcore.matching import acceptance_model, measured_gammas
from simcore.profile.conversions import (
    conditional_acceptance,
    convertible_gammas,
    match_probability,
    positions_from_histogram,
    refusal,
    survival_from_counts,
)
from simcore.profile.counts import Counts
from simcore.profile.schema import AcceptanceRecord, Contract, Sampling
from simcore.profile.store import StoredProfile
from tests.factories import make_scenario

HISTOGRAMS = st.integers(1, 12).flatmap(
    lambda gamma: st.lists(st.integers(0, 1000), min_size=gamma + 1, max_size=gamma + 1)
)


def _record(kind="histogram", **counts) -> AcceptanceRecord:
    gamma = counts.pop("gamma")
    return AcceptanceRecord(
        key=0,
        proposer="ngram",
        domain="chat",
        sampling=Sampling(),
        contract=Contract.GREEDY_EQUALITY,
        kind=kind,
        max_num_speculative_tokens=gamma,
        num_requests=1,
        counted_at="cycle_starts",
        counts={gamma: Counts(**counts)},
    )


def _from_histogram(lengths, **more) -> Counts:
    return Counts(
        num_drafts=sum(lengths),
        num_accepted_tokens=sum(j * count for j, count in enumerate(lengths)),
        num_cycles=more.pop("num_cycles", sum(lengths)),
        accepted_lengths=lengths,
        **more,
    )


@given(lengths=HISTOGRAMS.filter(lambda found: sum(found) > 0))
def test_a_histogram_becomes_positions_and_comes_back(lengths):
    positions = positions_from_histogram(tuple(lengths))
    assert histogram_from_positions(sum(lengths), positions).tolist() == lengths


@given(lengths=HISTOGRAMS.filter(lambda found: sum(found) > 0), plain=st.integers(0, 500))
def test_survival_falls_and_its_sum_is_the_mean_accepted_over_all_cycles(lengths, plain):
    gamma = len(lengths) - 1
    counts = _from_histogram(lengths, num_cycles=sum(lengths) + plain)
    survival = survival_from_counts(counts, gamma)
    assert (np.diff(survival) <= 0.0).all()
    assert 1.0 <= mean_emitted_tokens(survival) <= gamma + 1.0
    expected = counts.num_accepted_tokens / (sum(lengths) + plain)
    assert survival.sum() == pytest.approx(expected)


@given(lengths=HISTOGRAMS.filter(lambda found: sum(found) > 0))
def test_positions_and_histogram_of_the_same_cycles_give_the_same_conditional(lengths):
    gamma = len(lengths) - 1
    by_length = _from_histogram(lengths)
    by_position = Counts(
        num_drafts=sum(lengths),
        num_accepted_tokens=by_length.num_accepted_tokens,
        num_cycles=sum(lengths),
        accepted_per_position=positions_from_histogram(tuple(lengths)),
    )
    one = _record(gamma=gamma, **by_length.model_dump())
    other = _record("position_counters", gamma=gamma, **by_position.model_dump())
    assert conditional_acceptance(one, gamma) == pytest.approx(conditional_acceptance(other, gamma))


def test_cycles_without_a_draft_scale_a_1_alone_and_are_the_unmatched_share():
    record = _record(gamma=2, **_from_histogram([2, 4, 4], num_cycles=20).model_dump())
    assert conditional_acceptance(record, 2) == pytest.approx([0.4, 0.5])
    assert match_probability(record, 2) == pytest.approx(0.5)


def test_conditional_rates_that_rise_stay_as_they_are():
    counts = Counts(
        num_drafts=1000,
        num_accepted_tokens=1000,
        num_cycles=1000,
        accepted_per_position=(500, 300, 200),
    )
    record = _record("position_counters", gamma=3, **counts.model_dump())
    assert conditional_acceptance(record, 3) == pytest.approx([0.5, 0.6, 2 / 3])


REFUSED = {
    "a mean alone": (
        "totals",
        {"num_drafts": 10, "num_accepted_tokens": 12, "num_cycles": 10},
        "a mean alone gives no survival",
    ),
    "no count of drafts": (
        "totals",
        {"num_accepted_tokens": 12, "num_draft_tokens": 30, "num_cycles": 10},
        "no cycle with a draft was counted",
    ),
    "draft lengths that varied": (
        "position_counters",
        {
            "num_drafts": 10,
            "num_accepted_tokens": 6,
            "num_draft_tokens": 20,
            "num_cycles": 10,
            "accepted_per_position": (4, 1, 1),
        },
        "draft lengths varied",
    ),
    "a tree": (
        "position_counters",
        {
            "num_drafts": 10,
            "num_accepted_tokens": 6,
            "num_draft_tokens": 70,
            "num_cycles": 10,
            "accepted_per_position": (4, 1, 1),
        },
        "a tree",
    ),
    "a lookup whose misses nobody counted": (
        "position_counters",
        {"num_drafts": 10, "num_accepted_tokens": 6, "accepted_per_position": (4, 1, 1)},
        "cycles without a draft were not counted",
    ),
    "a position that was never drafted": (
        "position_counters",
        {
            "num_drafts": 10,
            "num_accepted_tokens": 5,
            "num_cycles": 10,
            "accepted_per_position": (4, 1, 0),
            "drafted_per_position": (10, 5, 0),
        },
        "never drafted",
    ),
    "drafts shortened where acceptance is low": (
        "position_counters",
        {
            "num_drafts": 10,
            "num_accepted_tokens": 9,
            "num_cycles": 10,
            "accepted_per_position": (4, 4, 1),
            "drafted_per_position": (10, 5, 5),
        },
        "increases",
    ),
}


@pytest.mark.parametrize(("kind", "counts", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_gives_no_survival_is_refused_with_the_reason(kind, counts, reason):
    record = _record(kind, gamma=3, **counts)
    with pytest.raises(ConversionError, match=reason):
        conditional_acceptance(record, 3)
    assert convertible_gammas(record) == ()
    assert reason in refusal(record, 3)


def test_a_mean_is_survival_at_one_draft():
    record = _record(
        "totals", gamma=1, num_drafts=10, num_accepted_tokens=7, num_draft_tokens=10, num_cycles=10
    )
    assert conditional_acceptance(record, 1) == pytest.approx([0.7])


def test_drafts_cut_at_the_end_of_requests_count_as_one_length():
    counts = {
        "num_drafts": 100,
        "num_accepted_tokens": 60,
        "num_draft_tokens": 297,
        "num_cycles": 100,
        "accepted_per_position": (40, 10, 10),
    }
    record = _record("position_counters", gamma=3, **counts)
    assert conditional_acceptance(record, 3) == pytest.approx([0.4, 0.25, 1.0])


def test_drafted_by_position_gives_survival_though_lengths_vary():
    record = _record(
        "position_counters",
        gamma=2,
        num_drafts=100,
        num_accepted_tokens=70,
        num_draft_tokens=140,
        num_cycles=100,
        accepted_per_position=(60, 10),
        drafted_per_position=(100, 40),
    )
    assert conditional_acceptance(record, 2) == pytest.approx([0.6, 0.25 / 0.6])


def test_another_draft_length_is_not_extrapolated():
    record = _record(gamma=2, **_from_histogram([2, 4, 4]).model_dump())
    with pytest.raises(ConversionError, match="not at 3"):
        conditional_acceptance(record, 3)


CONTRADICTIONS = {
    "positions do not sum to accepted": {
        "num_accepted_tokens": 5,
        "accepted_per_position": (3, 1),
    },
    "positions increase": {"num_accepted_tokens": 3, "accepted_per_position": (1, 2)},
    "the histogram counts other cycles": {"num_accepted_tokens": 2, "accepted_lengths": (1, 2, 0)},
    "the histogram holds other tokens": {"num_accepted_tokens": 5, "accepted_lengths": (8, 2, 0)},
    "more accepted than drafted": {"num_accepted_tokens": 5, "num_draft_tokens": 4},
    "more drafts than cycles": {"num_accepted_tokens": 5, "num_cycles": 9},
    "a negative count": {"num_accepted_tokens": -1},
    "a broken count": {"num_accepted_tokens": 1.5},
}


@pytest.mark.parametrize("values", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_counts_that_contradict_each_other_are_no_counts(values):
    with pytest.raises(ValidationError):
        Counts(num_drafts=10, **values)


@pytest.mark.parametrize(
    ("kind", "counts"),
    [
        ("histogram", {"accepted_per_position": (3, 2)}),
        ("position_counters", {"accepted_lengths": (6, 3, 1)}),
        ("trace", {"accepted_per_position": (3, 2)}),
        ("totals", {"num_drafts": 1}),
    ],
)
def test_a_record_holds_the_counts_of_its_kind_and_no_others(kind, counts):
    with pytest.raises(ValidationError):
        _record(kind, gamma=2, **{"num_drafts": 10, "num_accepted_tokens": 5} | counts)


# --- what matching makes of them -----------------------------------------------------------------


def _stored(recorded_profile, *records) -> StoredProfile:
    profile = recorded_profile.profile.model_copy(update={"acceptance": records})
    return StoredProfile(profile, recorded_profile.folder)


def test_a_counted_record_is_planned_with_as_its_survival(recorded_profile):
    record = _record(gamma=2, **_from_histogram([2, 4, 4], num_cycles=20).model_dump())
    stored = _stored(recorded_profile, record)
    scenario = make_scenario(recorded_profile)
    model = acceptance_model(stored, scenario, "ngram", 2)
    assert model.name == "positional"
    assert model.tables.match_probability[0].tolist() == pytest.approx([0.5])
    assert model.tables.conditional[0, 0].tolist() == pytest.approx([0.8, 0.5])


def test_a_record_that_cannot_be_converted_is_refused_in_a_scenario(recorded_profile):
    record = _record("totals", gamma=3, num_drafts=9, num_accepted_tokens=12, num_cycles=9)
    with pytest.raises(ScenarioError, match="a mean alone"):
        acceptance_model(
            _stored(recorded_profile, record), make_scenario(recorded_profile), "ngram", 3
        )


def test_traces_and_counts_are_not_mixed_in_one_scenario(recorded_profile):
    counted = _record(gamma=2, **_from_histogram([2, 4, 4]).model_dump())
    traced = next(r for r in recorded_profile.profile.acceptance if r.domain == "code")
    stored = _stored(recorded_profile, traced, counted.model_copy(update={"key": 99}))
    with pytest.raises(ScenarioError, match="one sort"):
        acceptance_model(stored, make_scenario(recorded_profile), "ngram", 2)


def test_only_draft_lengths_that_convert_are_offered():
    good = _from_histogram([2, 4, 4])
    bad = Counts(num_drafts=9, num_accepted_tokens=12, num_cycles=9)
    record = _record(gamma=2, **good.model_dump()).model_copy(
        update={"kind": "totals", "counts": {2: good, 3: bad}}
    )
    assert measured_gammas((record,)) == (2,)
