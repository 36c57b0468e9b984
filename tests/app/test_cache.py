"""What all visitors share is made once and does not grow without end."""

import gc
import weakref

import pytest

pytest.importorskip("streamlit")

from app.cache import MOST_LARGE_KEPT, once, once_large
from app.drafts import recording
from simcore.profile.store import load_profile
from simcore.scenario_files import open_scenario


class Thing:
    """Something that can be watched."""


@pytest.mark.parametrize("kept", [once, once_large])
def test_it_is_made_once_a_key(kept):
    made = [kept(("test", kept.__name__, number), Thing) for number in (1, 2, 1)]
    assert made[0] is made[2]
    assert made[0] is not made[1]


def test_of_large_results_only_the_last_are_kept():
    watched = [weakref.ref(once_large(("watched", n), Thing)) for n in range(2 * MOST_LARGE_KEPT)]
    gc.collect()
    assert [each() is not None for each in watched] == [
        n >= MOST_LARGE_KEPT for n in range(2 * MOST_LARGE_KEPT)
    ]


def test_recorded_requests_are_among_the_large_results():
    stored, scenario = load_profile("smollm2_135m_cpu"), open_scenario("cpu_chat")
    scenario = scenario.with_(**{"speculation.proposer": "draft_model"})
    first = recording(stored, scenario)
    assert recording(stored, scenario) is first
    for number in range(MOST_LARGE_KEPT):
        once_large(("others", number), Thing)
    assert recording(stored, scenario) is not first
