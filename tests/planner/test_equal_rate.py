"""The search for an admitted rate, on services whose answer is known, and on real ones."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore import simulate
from simcore.planner.equal_rate import RATE_TOLERANCE, admitted_rate_per_s, search_rate
from tests.factories import make_scenario


def _service(admits):
    """A service that admits `admits(offered)`; remembers what it was offered."""
    offered = []

    def run(rate_per_s):
        offered.append(rate_per_s)
        return SimpleNamespace(
            offered_rate_per_s=rate_per_s, admitted_rate_per_s=admits(rate_per_s)
        )

    return run, offered


@given(wanted=st.floats(0.01, 100.0), lost=st.floats(0.0, 0.8))
def test_a_service_that_loses_a_share_is_offered_that_much_more(wanted, lost):
    run, offered = _service(lambda rate: rate * (1 - lost))
    found = search_rate(run, wanted)
    assert found.reaches_rate
    assert found.found.admitted_rate_per_s == pytest.approx(wanted, rel=RATE_TOLERANCE)
    assert found.found.offered_rate_per_s == pytest.approx(wanted / (1 - lost), rel=0.01)
    assert len(offered) < 20


@given(wanted=st.floats(0.01, 100.0), gain=st.floats(1.0, 5.0))
def test_a_run_that_happens_to_arrive_faster_is_offered_less(wanted, gain):
    found = search_rate(_service(lambda rate: rate * gain)[0], wanted)
    assert found.reaches_rate
    assert found.found.admitted_rate_per_s == pytest.approx(wanted, rel=RATE_TOLERANCE)


def test_a_full_service_is_not_offered_more_than_fills_it():
    # It serves the wanted rate from 10.4 on, however much is offered.
    found = search_rate(_service(lambda rate: min(rate / 1.04, 10.0))[0], 10.0)
    assert found.reaches_rate
    assert found.found.offered_rate_per_s == pytest.approx(10.4, rel=0.01)


def test_a_service_that_cannot_says_how_much_it_can():
    found = search_rate(_service(lambda rate: min(rate, 7.0) * 0.999)[0], 10.0)
    assert not found.reaches_rate
    assert "cannot serve 10 requests/s: at most 6.99" in found.note
    assert found.found.offered_rate_per_s == pytest.approx(10.0)


def test_a_rate_that_jumps_over_the_wanted_one_is_not_called_equal():
    found = search_rate(_service(lambda rate: 9.0 if rate < 10.3 else 12.0)[0], 10.0)
    assert not found.reaches_rate
    assert "no load was found" in found.note


def test_the_admitted_rate_of_a_light_load_is_its_own_and_of_a_heavy_one_the_capacity(
    recorded_profile,
):
    def rate(offered, **changes):
        arrivals = {"kind": "poisson", "rate_per_s": offered}
        asked = {"workload.arrivals": arrivals, "workload.num_requests": 2000, **changes}
        result = simulate(make_scenario(recorded_profile, **asked))
        return admitted_rate_per_s(result), result

    light, result = rate(0.5)
    arrival_s = result.request_records["arrival_s"][200:]
    realised = (len(arrival_s) - 1) / (arrival_s[-1] - arrival_s[0])
    assert light == pytest.approx(realised, rel=0.005)
    full, fuller = rate(200.0)[0], rate(400.0)[0]
    assert full == pytest.approx(fuller, rel=0.02)
    turned_away, result = rate(200.0, **{"deployment.max_queue": 4})
    served = np.mean(result.requests["state"] == "finished")
    assert turned_away == pytest.approx(200.0 * served, rel=0.15)
    assert turned_away == pytest.approx(full, rel=0.1)


def test_the_admitted_rate_of_a_batch_is_the_capacity(recorded_profile):
    def rate(arrivals):
        asked = {"workload.arrivals": arrivals, "workload.num_requests": 2000}
        return admitted_rate_per_s(simulate(make_scenario(recorded_profile, **asked)))

    overloaded = {"kind": "poisson", "rate_per_s": 200.0}
    assert rate({"kind": "batch"}) == pytest.approx(rate(overloaded), rel=0.02)


def test_a_run_of_one_request_has_no_admitted_rate(recorded_profile):
    scenario = make_scenario(recorded_profile, **{"workload.num_requests": 1})
    assert admitted_rate_per_s(simulate(scenario)) is None
