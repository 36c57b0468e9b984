"""Capacities: laws that hold whatever the service, refusals, money and memory."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcore import ScenarioError, find_capacity, find_replicas, simulate
from simcore.metrics.attainment import attained_shares, slo_margins
from simcore.metrics.summary import counted_requests
from simcore.planner.capacity import num_requests_of
from simcore.planner.capacity_document import Capacity, ReplicaPlan
from simcore.planner.economics import GivenFigures
from simcore.planner.limit_search import RESOLUTION
from simcore.planner.load_bench import LoadBench
from simcore.planner.load_curve import example_curve, read_curve
from simcore.scenario import SLO
from tests.factories import Recording, make_profile, make_scenario

LENGTHS = {
    "kind": "lognormal",
    "prompt": {"mean_tokens": 20, "cv": 0.5, "max_tokens": 100},
    "output": {"mean_tokens": 15, "cv": 0.5, "max_tokens": 60},
}
BASE = {
    "workload.num_requests": 300,
    "workload.lengths": LENGTHS,
    "deployment.max_num_seqs": 4,
    "speculation.proposer": "draft_model",
    "slo.ttft_s": 0.4,
    "slo.goodput_fraction": 0.8,
}


@pytest.fixture(scope="module")
def good_profile(tmp_path_factory):
    return make_profile(tmp_path_factory.mktemp("good") / "good", Recording(gain=0.3))


def _scenario(stored, **changes):
    return make_scenario(stored, **{**BASE, **changes})


def _off(stored, **changes):
    """The capacity without speculation alone."""
    found = find_capacity(
        _scenario(stored, **changes), stored=stored, num_seeds=3, num_speculative_tokens=0
    )
    return found.off


@pytest.fixture(scope="module")
def both(good_profile):
    given = GivenFigures(price_usd_per_hour=2.0, power_w=300.0)
    return find_capacity(_scenario(good_profile), stored=good_profile, num_seeds=3, given=given)


def test_off_and_on_stand_side_by_side_with_rates_and_intervals(both):
    document = both.model_dump(mode="json")
    for name in ("off", "on"):
        low, high = document[name]["interval"]
        assert low <= document[name]["max_rate_per_s"] <= high
    assert both.off.num_speculative_tokens == 0
    assert (both.on.proposer, both.on.num_speculative_tokens) == ("draft_model", 4)
    assert Capacity.model_validate_json(both.model_dump_json()) == both


def test_cheap_drafts_that_survive_raise_the_load_that_is_borne(both):
    assert both.gain.verdict == "more"
    assert both.gain.interval[0] > 1.0
    assert both.gain.ratio == both.on.max_rate_per_s / both.off.max_rate_per_s
    assert f"{both.gain.ratio:.3f} times the load" in both.gain.sentence


def test_the_rate_found_meets_the_slo_about_as_often_as_asked(both):
    for service in (both.off, both.on):
        assert service.at_capacity["goodput_fraction"].mean == pytest.approx(0.8, abs=0.05)
        assert service.scenario.workload.arrivals.rate_per_s == service.max_rate_per_s


def test_both_services_meet_the_same_requests(both, good_profile):
    runs = [simulate(each.scenario, stored=good_profile) for each in (both.off, both.on)]
    one, other = (run.request_records for run in runs)
    for name in ("prompt_tokens", "output_tokens", "domain"):
        assert np.array_equal(one[name], other[name])
    ratio = both.on.max_rate_per_s / both.off.max_rate_per_s
    assert np.allclose(one["arrival_s"], ratio * other["arrival_s"])


def test_draft_length_zero_is_off_record_for_record(good_profile):
    scenario = _scenario(good_profile)
    found = find_capacity(scenario, stored=good_profile, num_seeds=3, num_speculative_tokens=0)
    assert found.on == found.off
    assert found.gain.verdict == "same"
    plain = scenario.with_(**{"speculation.num_speculative_tokens": 0})
    alone = LoadBench(
        plain.with_(**{"workload.num_requests": found.num_requests}), good_profile, 3, None
    )
    assert alone.search().best == found.off.max_rate_per_s


def test_a_looser_slo_never_lowers_the_load(good_profile):
    rates = [
        _off(good_profile, **{"slo.ttft_s": limit}).max_rate_per_s for limit in (0.2, 0.4, 0.8)
    ]
    shares = [
        _off(good_profile, **{"slo.goodput_fraction": share}).max_rate_per_s
        for share in (0.9, 0.8, 0.6)
    ]
    for found in (rates, shares):
        for tight, loose in pairwise(found):
            assert loose >= tight * (1 - RESOLUTION)
        assert found[-1] > 1.05 * found[0]


def test_more_replicas_never_lower_the_load_and_two_bear_about_twice_as_much(good_profile):
    rates = [_off(good_profile, **{"deployment.replicas": n}).max_rate_per_s for n in (1, 2, 3)]
    assert rates[0] < rates[1] < rates[2]
    assert 1.9 * rates[0] < rates[1] < 2.5 * rates[0]


@settings(max_examples=10)
@given(
    rate=st.floats(1.0, 30.0),
    limits=st.tuples(st.floats(0.02, 2.0), st.floats(0.02, 0.2), st.floats(0.03, 1.0)),
    factor=st.floats(1.0, 3.0),
)
def test_shares_are_of_all_who_came_and_grow_with_the_limits(
    recorded_profile, rate, limits, factor
):
    def shares(scale):
        ttft_s, tpot_s, itl_s = (scale * limit for limit in limits)
        scenario = make_scenario(
            recorded_profile,
            **{
                "workload.arrivals": {"kind": "poisson", "rate_per_s": rate},
                "deployment.max_queue": 3,
                "slo": {"ttft_s": ttft_s, "tpot_s": tpot_s, "itl_s": itl_s, "percentile": 90.0},
            },
        )
        result = simulate(scenario, stored=recorded_profile)
        found = attained_shares(result)
        assert set(slo_margins(result)) == {"ttft_s", "tpot_s", "itl_s"}
        served = float(np.mean(counted_requests(result)["state"] == 4))
        assert found["every_limit"] <= min(found.values()) <= max(found.values()) <= served
        return found

    tight, loose = shares(1.0), shares(factor)
    assert all(loose[name] >= tight[name] for name in tight)


def test_the_itl_of_a_request_is_its_longest_gap_in_tokens_and_in_bursts_alike(recorded_profile):
    scenario = make_scenario(recorded_profile, **{"slo.itl_s": 0.05})
    result = simulate(scenario, stored=recorded_profile)
    came = counted_requests(result)
    share = np.mean((came["max_gap_s"] <= 0.05) | (came["output_tokens"] == 1))
    assert 0.0 < share < 1.0
    assert attained_shares(result)["itl_s"] == pytest.approx(share)


def test_an_old_slo_asks_for_95_percent_within_every_limit():
    assert SLO(ttft_s=1.0).required_shares() == {"every_limit": 0.95}
    assert SLO(ttft_s=1.0, percentile=99).required_shares() == {"ttft_s": 0.99}
    both = SLO(ttft_s=1.0, tpot_s=0.1, percentile=99, goodput_fraction=0.9)
    assert both.required_shares() == {"ttft_s": 0.99, "tpot_s": 0.99, "every_limit": 0.9}


def test_percentile_and_fraction_change_no_requests_goodput(recorded_profile):
    from simcore import summarise

    def goodput(**slo):
        scenario = make_scenario(recorded_profile, slo={"ttft_s": 0.05, **slo})
        return summarise(simulate(scenario, stored=recorded_profile)).goodput_fraction

    assert 0.0 < goodput() < 1.0
    assert goodput(percentile=50.0, goodput_fraction=0.5) == goodput()


def test_an_slo_that_no_load_meets_gives_zero_and_the_reason(good_profile):
    found = _off(good_profile, **{"slo.ttft_s": 0.001})
    assert found.max_rate_per_s == 0.0
    assert found.interval[0] == 0.0 < found.interval[1]
    assert "0.0% of the requests, 80.0% are asked for" in found.reason
    assert (found.at_capacity, found.economics) == ({}, None)


def test_without_a_limit_on_waiting_the_service_is_bound_by_saturation(good_profile):
    found = _off(good_profile, **{"slo.ttft_s": None, "slo.tpot_s": 10.0})
    assert found.bound_by == "keeps_up"
    assert found.max_rate_per_s == pytest.approx(found.saturation_rate_per_s.mean, rel=0.02)
    assert "falls behind" in found.reason


def test_sessions_that_forget_saturate_the_service_as_single_requests_do(good_profile):
    def saturation(**changes):
        plain = _scenario(good_profile, **{"speculation.num_speculative_tokens": 0, **changes})
        return LoadBench(plain, good_profile, 2, None).saturation_rate_per_s()

    think = {"mean_s": 5.0}
    sessions = {"mean_turns": 3.0, "keeps_history": False, "think": think}
    single = saturation()
    assert saturation(**{"workload.sessions": sessions}) == pytest.approx(single, rel=0.05)


def test_rejected_requests_count_as_missed_and_bound_the_load(good_profile):
    changes = {"slo.ttft_s": 100.0, "deployment.max_queue": 2}
    found = _off(good_profile, **changes)
    assert found.bound_by == "every_limit"
    share = 1.0 - found.at_capacity["rejected_fraction"].mean
    assert share == pytest.approx(0.8, abs=0.04)


def test_a_closed_loop_is_searched_for_its_users(good_profile):
    loop = {"kind": "closed_loop", "num_clients": 3, "think": {"mean_s": 0.5}}
    changes = {"workload.arrivals": loop, "deployment.max_num_seqs": 2}
    found = _off(good_profile, **changes)
    assert found.interval is None
    low, high = found.users_interval
    assert low <= found.max_users <= high
    assert found.scenario.workload.arrivals.num_clients == found.max_users
    assert found.max_rate_per_s == found.at_capacity["request_rate_per_s"].mean
    more = _off(good_profile, **changes, **{"slo.goodput_fraction": 0.5})
    assert more.max_users > found.max_users
    free = _off(good_profile, **{**changes, "slo.ttft_s": None, "slo.tpot_s": 50.0})
    assert free.max_users == 64 * 2
    assert "no limit was found" in free.reason


def test_where_the_scenario_does_not_speculate_the_closed_form_chooses(good_profile):
    silent = {"speculation.proposer": None, "speculation.num_speculative_tokens": 0}
    scenario = _scenario(good_profile, **silent)
    found = find_capacity(scenario, stored=good_profile, num_seeds=2)
    assert found.on.num_speculative_tokens > 0
    assert any("best closed-form speed-up" in each for each in found.caveats)
    asked = find_capacity(
        scenario, stored=good_profile, num_seeds=2, proposer="ngram", num_speculative_tokens=2
    )
    assert (asked.on.proposer, asked.on.num_speculative_tokens) == ("ngram", 2)


def test_a_policy_of_the_scenarios_own_stays(good_profile):
    table = {"kind": "batch_size_table", "table": [[1, 2, 4], [3, 4, 0]]}
    scenario = _scenario(good_profile, **{"speculation.policy": table})
    found = find_capacity(scenario, stored=good_profile, num_seeds=2)
    assert found.on.policy == "batch_size_table"
    assert found.on.scenario.speculation == scenario.speculation


def test_money_and_energy_are_those_given_and_never_invented(both, good_profile):
    money = both.off.economics
    assert (money.price_source, money.power_source, money.num_devices) == ("given", "given", 1)
    tokens_per_s = both.off.at_capacity["output_rate_tokens_per_s"].mean
    expected = 2.0 / 3600 / tokens_per_s * 1e6
    assert money.cost_usd_per_million_output_tokens == pytest.approx(expected, rel=0.02)
    assert money.average_power_w == pytest.approx(300.0)
    assert money.energy_j_per_output_token == pytest.approx(300.0 / tokens_per_s, rel=0.02)
    unknown = _off(good_profile).economics
    assert (unknown.price_source, unknown.power_source) == ("not stated", "not stated")
    assert unknown.cost_usd_per_million_output_tokens is None
    assert unknown.energy_j_per_output_token is None


def test_the_ledger_says_what_took_the_memory_and_adds_up(both):
    ledger = both.ledger
    taken = ledger.draft_weight_tokens + ledger.draft_kv_tokens + ledger.workspace_tokens
    assert taken == ledger.kv_tokens_off - ledger.kv_tokens_on > 0
    assert ledger.draft_weight_tokens == ledger.draft_weight_bytes // 4096
    assert ledger.reserved_tokens_per_request == (1, 5)
    batch = both.on.at_capacity["mean_batch_size"].mean
    assert ledger.reserved_tokens == pytest.approx(4 * batch)
    context = both.on.at_capacity["mean_context_tokens"].mean
    assert ledger.lost_requests == pytest.approx((taken + 4 * batch) / context)


def test_the_same_search_comes_out_twice(both, good_profile):
    given = GivenFigures(price_usd_per_hour=2.0, power_w=300.0)
    scenario = _scenario(good_profile)
    assert find_capacity(scenario, stored=good_profile, num_seeds=3, given=given) == both


def test_runs_are_long_enough_for_the_share_and_never_shorter_than_the_workload(good_profile):
    def length(**changes):
        plain = _scenario(good_profile, **{"speculation.num_speculative_tokens": 0, **changes})
        return num_requests_of(LoadBench(plain, good_profile, 2, None))

    tight = {"slo.ttft_s": 0.1}
    assert length(**tight, **{"slo.goodput_fraction": 0.95}) == math.ceil(200 / 0.05 / 0.9)
    assert length(**tight, **{"slo.goodput_fraction": 0.9}) == math.ceil(200 / 0.1 / 0.9)
    assert length(**tight, **{"workload.num_requests": 50_000}) == 50_000
    assert length(**{"slo.ttft_s": 1.0}) > length(**{"slo.ttft_s": 0.7}) > 300


@pytest.fixture(scope="module")
def fleets(good_profile):
    return find_replicas(_scenario(good_profile), 25.0, stored=good_profile, num_seeds=3)


def test_the_fewest_replicas_meet_the_rate_and_one_less_does_not_surely(fleets, good_profile):
    assert ReplicaPlan.model_validate_json(fleets.model_dump_json()) == fleets
    assert fleets.on.replicas <= fleets.off.replicas
    for fleet in (fleets.off, fleets.on):
        assert fleet.at_least <= fleet.replicas
        assert abs(fleet.replicas - fleet.by_division) <= 1
        assert fleet.num_devices == fleet.replicas


def test_under_other_seeds_the_replicas_found_meet_the_slo_and_too_few_miss_it(
    fleets, good_profile
):
    for fleet, gamma in ((fleets.off, 0), (fleets.on, fleets.on.num_speculative_tokens)):
        fresh = _scenario(
            good_profile,
            seed=4711,
            **{
                "workload.num_requests": 4000,
                "speculation.proposer": fleet.proposer,
                "speculation.num_speculative_tokens": gamma,
            },
        )

        def margin(count, fresh=fresh):
            service = fresh.with_(**{"deployment.replicas": count})
            return LoadBench(service, good_profile, 3, None).judge(25.0).mean_margin

        assert margin(fleet.replicas) > 0.0
        assert fleet.at_least > 1
        assert margin(fleet.at_least - 1) < 0.0


def test_a_rate_that_one_replica_bears_takes_one(fleets, good_profile):
    rate_per_s = 0.8 * fleets.off.one_replica_interval[0]
    found = find_replicas(
        _scenario(good_profile),
        rate_per_s,
        stored=good_profile,
        num_seeds=2,
        num_speculative_tokens=0,
    )
    assert found.off.replicas == found.off.at_least == 1


def test_a_day_scaled_hourly_takes_no_more_than_its_peak_all_day(good_profile):
    curve = example_curve(18.0)
    found = find_replicas(
        _scenario(good_profile),
        curve,
        stored=good_profile,
        num_seeds=2,
        num_speculative_tokens=0,
        given=GivenFigures(price_usd_per_hour=2.0),
    ).off
    assert sum(found.hours_at.values()) == len(found.hours) == 24
    assert max(each.replicas for each in found.hours) == found.replicas
    by_rate = sorted(found.hours, key=lambda each: each.rate_per_s)
    assert [each.replicas for each in by_rate] == sorted(each.replicas for each in by_rate)
    assert found.scaled_device_hours == sum(each.replicas for each in found.hours)
    assert found.static_device_hours == 24 * found.replicas > found.scaled_device_hours
    assert found.scaled_cost_usd_per_day == 2.0 * found.scaled_device_hours


def test_where_no_load_meets_the_slo_no_number_of_replicas_does(good_profile):
    scenario = _scenario(good_profile, **{"slo.ttft_s": 0.001})
    found = find_replicas(scenario, 1.0, stored=good_profile, num_seeds=2, num_speculative_tokens=0)
    assert found.off.replicas is None
    assert found.off.reason.startswith("no number of replicas: no load is surely within the SLO")


def test_a_curve_is_read_by_hour_or_time_and_takes_the_highest_of_an_hour(tmp_path):
    path = tmp_path / "day.csv"
    path.write_text("hour,rate_per_s\n" + "".join(f"{h},{h + 1}\n" for h in reversed(range(24))))
    assert read_curve(path).rates_per_s == tuple(float(h + 1) for h in range(24))
    times = [f"2026-03-0{day}T{h:02}:30:00,{h + day}\n" for day in (1, 2) for h in range(24)]
    path.write_text("timestamp,rate_per_s\n" + "".join(times))
    assert read_curve(path).rates_per_s == tuple(float(h + 2) for h in range(24))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hour,rate_per_s\n0,1\n", "has no rate for the hours 1, 2"),
        ("hour,load\n0,1\n", "has the columns hour, load; expected a CSV"),
        ("", "has the columns none"),
        ("hour,rate_per_s\n24,1\n", "line 2: hour '24'; expected a whole hour"),
        ("hour,rate_per_s\n0,-1\n", "line 2: rate_per_s '-1'"),
        ("hour,rate_per_s\n0,nan\n", "line 2: rate_per_s 'nan'"),
        ("hour,rate_per_s\n0\n", "line 2: rate_per_s ''"),
        ("timestamp,rate_per_s\nnoon,1\n", "line 2: timestamp 'noon'; expected a time"),
        ("hour,rate_per_s\n" + "".join(f"{h},0\n" for h in range(24)), "every rate is 0"),
    ],
)
def test_a_curve_that_is_none_says_where(tmp_path, text, message):
    path = tmp_path / "day.csv"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=message):
        read_curve(path)


@pytest.mark.parametrize(
    ("changes", "asked", "message"),
    [
        ({"workload.arrivals": {"kind": "batch"}}, {}, "'batch' arrivals come all at once"),
        ({"slo": {"goodput_fraction": 0.9}}, {}, "has no SLO, so every load meets it"),
        ({}, {"num_seeds": 1}, "1 seeds; a capacity is judged from at least 2"),
        ({}, {"proposer": "eagle"}, "has no proposer 'eagle'"),
        ({}, {"num_speculative_tokens": 99}, "99"),
    ],
)
def test_a_capacity_that_cannot_be_searched_says_why(good_profile, changes, asked, message):
    with pytest.raises(ScenarioError, match=message):
        find_capacity(
            _scenario(good_profile, **changes), stored=good_profile, **{"num_seeds": 2, **asked}
        )


@pytest.mark.parametrize(
    ("changes", "rate", "message"),
    [
        ({}, 0.0, "needs no replica"),
        ({}, math.nan, "rate nan requests/s"),
        ({"workload.arrivals": {"kind": "closed_loop", "num_clients": 3}}, 1.0, "has users and no"),
    ],
)
def test_replicas_that_cannot_be_counted_say_why(good_profile, changes, rate, message):
    with pytest.raises(ScenarioError, match=message):
        find_replicas(_scenario(good_profile, **changes), rate, stored=good_profile)
