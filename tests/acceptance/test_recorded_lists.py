"""Acceptance records of a profile as lists: traces by position, counts by cycle."""

import numpy as np
import pytest

from simcore.acceptance.drift import compare_recordings
from simcore.acceptance.statistics import summarise_cycles
from simcore.errors import AcceptanceError
from simcore.profile.schema import AcceptanceRecord, Contract, Sampling
from simcore.profile.store import load_profile, write_profile
from simcore.recorded_lists import MOST_CYCLES, lists_of_record
from tests.factories import Recording, make_profile

RATES = {3: (0.7, 0.6, 0.5)}


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A profile of rates by position with and without a number of cycles."""

    def record(key, cycles):
        return AcceptanceRecord(
            key=key,
            proposer="draft_model",
            domain=f"domain_{key}",
            sampling=Sampling(),
            contract=Contract.GREEDY_EQUALITY,
            kind="survival",
            max_num_speculative_tokens=3,
            num_requests=1,
            counted_at="cycle_starts",
            conditional_acceptance=RATES,
            num_cycles=cycles,
        )

    folder = tmp_path_factory.mktemp("counted")
    stored = make_profile(folder / "traced", Recording())
    records = (record(0, {3: 10_000}), record(1, {}), record(2, {3: 10 * MOST_CYCLES}))
    profile = stored.profile.model_copy(update={"acceptance": records, "tables": {}})
    return write_profile(
        profile, folder / "rates", cost=stored.cost_samples.to_pandas(), traces=None
    ).folder


@pytest.mark.parametrize("key", [0, 2])
def test_counts_give_back_the_rates_that_they_were_made_of(counted, key):
    found = summarise_cycles(lists_of_record(counted, key).cycles(3))
    assert found.conditional == pytest.approx(RATES[3], abs=1e-3)


def test_a_pooled_record_is_not_surer_for_being_huge(counted):
    assert lists_of_record(counted, 2).num_requests <= MOST_CYCLES + len(RATES[3])


def test_rates_without_a_number_of_cycles_are_not_compared(counted):
    with pytest.raises(AcceptanceError, match="no number of cycles"):
        lists_of_record(counted, 1)


@pytest.mark.parametrize(("key", "message"), [(None, "choose one"), (9, "no record 9")])
def test_a_record_has_to_be_named_and_to_be_there(counted, key, message):
    with pytest.raises(AcceptanceError, match=message):
        lists_of_record(counted, key)


def test_a_trace_record_gives_the_lists_of_its_own_requests(recorded_profile):
    lists = lists_of_record(recorded_profile.folder, 1)
    rows = recorded_profile.traces.to_pandas()
    own = rows[rows["record"] == 1]
    assert np.concatenate(lists.accepted).tolist() == own["accepted"].tolist()


def test_a_counted_record_against_itself_has_not_moved(counted):
    same = lists_of_record(counted, 0)
    found = compare_recordings(same, same, [3], draft_cost=0.05)
    assert not any(change.significant for change in found.gammas[3].conditional)
    assert found.best_gamma_a == found.best_gamma_b
    assert load_profile(counted).profile.acceptance[0].num_cycles == {3: 10_000}
