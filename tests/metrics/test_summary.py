"""Metrics against their definitions in docs/reference/metrics.md."""

import numpy as np
import pytest

from simcore import simulate, summarise
from simcore.metrics.summary import _from_counts
from simcore.report.text import summary_text
from simcore.serving.state import gap_bin_edges_s
from tests.factories import make_scenario

LENGTHS = {
    "kind": "lognormal",
    "prompt": {"mean_tokens": 30, "cv": 0.5, "max_tokens": 100},
    "output": {"mean_tokens": 40, "cv": 0.5, "max_tokens": 200},
}


def _run(stored, rate_per_s: float, num_requests: int, **changes):
    return simulate(
        make_scenario(
            stored,
            **{
                "workload.lengths": LENGTHS,
                "workload.arrivals": {"kind": "poisson", "rate_per_s": rate_per_s},
                "workload.num_requests": num_requests,
                "speculation.num_speculative_tokens": 2,
                **changes,
            },
        )
    )


def test_latencies_follow_their_definitions(recorded_profile):
    result = _run(recorded_profile, 2.0, 200)
    frame = result.requests.iloc[20:]
    summary = summarise(result)
    e2e_s = frame["finish_s"] - frame["arrival_s"]
    ttft_s = frame["first_token_s"] - frame["arrival_s"]
    tpot_s = ((e2e_s - ttft_s) / (frame["output_tokens"] - 1))[frame["output_tokens"] > 1]
    for found, values in ((summary.e2e, e2e_s), (summary.ttft, ttft_s), (summary.tpot, tpot_s)):
        assert found.mean_s == pytest.approx(values.mean())
        assert found.p95_s == pytest.approx(np.percentile(values, 95))


def test_goodput_counts_requests_that_meet_every_limit(recorded_profile):
    free = summarise(_run(recorded_profile, 2.0, 200))
    slo = {"slo.e2e_s": free.e2e.p50_s, "slo.ttft_s": free.ttft.p90_s}
    result = _run(recorded_profile, 2.0, 200, **slo)
    frame = result.requests.iloc[20:]
    met = (frame["finish_s"] - frame["arrival_s"] <= slo["slo.e2e_s"]) & (
        frame["first_token_s"] - frame["arrival_s"] <= slo["slo.ttft_s"]
    )
    summary = summarise(result)
    assert summary.goodput_fraction == pytest.approx(met.mean())
    assert 0.2 < summary.goodput_fraction < 0.6
    assert free.goodput_per_s is None


def test_goodput_takes_the_time_of_everyone_who_came(recorded_profile):
    # A burst that mostly gives up: the few served must not stand for a short time of their own.
    changes = {
        "workload.patience_s": 0.5,
        "deployment.max_num_seqs": 1,
        "slo.e2e_s": 1000.0,
        "warmup_fraction": 0.0,
    }
    result = _run(recorded_profile, 2.0, 200, **changes)
    summary, frame = summarise(result), result.requests
    assert 0 < summary.num_counted < 150
    span_s = frame["finish_s"].max() - frame["arrival_s"].min()
    assert summary.goodput_per_s == pytest.approx(summary.num_counted / span_s)
    assert summary.goodput_per_s == pytest.approx(summary.request_rate_per_s)


def test_gap_percentiles_are_those_of_the_gaps_within_a_bin(recorded_profile):
    # One request at a time: the gaps are the times of its cycles.
    result = _run(
        recorded_profile, 2.0, 50, **{"deployment.max_num_seqs": 1, "warmup_fraction": 0.0}
    )
    steps = result.step_records
    gaps_s = (steps["end_s"] - steps["begin_s"])[steps["num_decoding"] == 1]
    summary = summarise(result)
    assert result.gap_counts.sum() == len(gaps_s)
    assert summary.itl_burst.mean_s == pytest.approx(gaps_s.mean(), rel=0.01)
    for name, percentile in (("p50_s", 50), ("p99_s", 99)):
        expected = np.percentile(gaps_s, percentile)
        assert getattr(summary.itl_burst, name) == pytest.approx(expected, rel=0.02)
    tokens = summary.tokens.emitted_tokens - summary.tokens.first_tokens
    assert summary.itl_token.mean_s == pytest.approx(gaps_s.sum() / tokens, rel=0.01)


def test_gaps_of_the_warm_up_are_not_counted(recorded_profile):
    whole, later = (_run(recorded_profile, 2.0, 100, warmup_fraction=share) for share in (0.0, 0.5))
    assert later.gap_counts.sum() == whole.request_records["num_cycles"][50:].sum()
    assert np.array_equal(whole.step_records, later.step_records)


def test_a_rejected_request_did_not_meet_its_slo(recorded_profile):
    result = _run(recorded_profile, 60.0, 200, **{"deployment.max_queue": 3, "slo.e2e_s": 1000.0})
    summary = summarise(result)
    served = (result.requests["state"][20:] == "finished").mean()
    assert summary.goodput_fraction == pytest.approx(served)
    assert summary.served_fraction == pytest.approx(served)
    assert served < 0.9
    assert summary.is_saturated


def test_accepted_lengths_are_counted_cycle_by_cycle(recorded_profile):
    result = _run(recorded_profile, 2.0, 100)
    account = summarise(result).tokens
    counts = np.array(account.accepted_length_counts)
    assert counts.sum() == account.num_cycles
    assert counts @ np.arange(3) == result.step_records["accepted_tokens"].sum()
    assert (counts > 0).all()


def test_time_shares_sum_to_one(recorded_profile):
    time = summarise(_run(recorded_profile, 2.0, 100)).time
    assert sum(time.model_dump().values()) == pytest.approx(1.0)
    assert min(time.model_dump().values()) >= 0.0


@pytest.mark.parametrize(
    ("rate_per_s", "num_requests", "saturated"),
    [(0.5, 300, False), (3.0, 300, False), (60.0, 600, True), (2.0, 30, False)],
)
def test_saturation_is_a_queue_that_keeps_growing(
    recorded_profile, rate_per_s, num_requests, saturated
):
    assert summarise(_run(recorded_profile, rate_per_s, num_requests)).is_saturated is saturated


def test_gap_percentiles_tell_apart_what_falls_into_one_bin():
    # Ranks spread evenly over a bin, whose middle alone would be said for all of them.
    edges = gap_bin_edges_s()
    counts = np.zeros(len(edges) - 1, dtype=np.int64)
    counts[1000], counts[1001] = 80, 20
    found = _from_counts(counts, same_moment=0)
    assert edges[1000] < found.p50_s < edges[1001] < found.p90_s < found.p95_s < found.p99_s
    assert found.p90_s == pytest.approx((edges[1001] + edges[1002]) / 2)
    late = _from_counts(counts, same_moment=100)
    assert late.p50_s == 0.0
    assert late.p90_s == pytest.approx(edges[1001])


def test_a_service_that_serves_nobody_has_a_goodput_of_zero_and_says_why(recorded_profile):
    found = summarise(
        _run(
            recorded_profile,
            2.0,
            10,
            **{
                "workload.lengths": {
                    "kind": "fixed",
                    "prompt_tokens": 10_000_000,
                    "output_tokens": 1,
                },
                "slo.e2e_s": 1.0,
            },
        )
    )
    assert found.num_requests["rejected"] == 10
    assert found.num_reasons["prompt can never fit"] == sum(found.num_reasons.values()) == 10
    assert found.goodput_per_s == found.goodput_fraction == 0.0
    assert "Not served: 10 (prompt can never fit)" in summary_text(found)
    assert "no SLO given" not in summary_text(found)
