"""The offered load of every kind, and the same arrivals at another load."""

import numpy as np
import pytest

from simcore.workload.load import as_batch, at_mean_rate, mean_rate_per_s
from simcore.workload.recorded import num_requests
from simcore.workload.sampling import sample_requests

ROWS = [(0.0, 11, 2), (1.0, 12, 3), (1.5, 13, 4), (4.0, 14, 5)]
KINDS = {
    "poisson": ({"kind": "poisson", "rate_per_s": 4.0}, 4.0),
    "gamma": ({"kind": "gamma", "rate_per_s": 4.0, "cv": 3.0}, 4.0),
    "markov_modulated": (
        {
            "kind": "markov_modulated",
            "states": [
                {"rate_per_s": 20.0, "mean_dwell_s": 0.5},
                {"rate_per_s": 2.0, "mean_dwell_s": 1.5},
            ],
        },
        6.5,
    ),
    # 200 requests until 20 s, the other 1800 at 20 a second: 2000 in 110 s.
    "ramp": (
        {"kind": "ramp", "from_rate_per_s": 0.0, "to_rate_per_s": 20.0, "duration_s": 20.0},
        2000 / 110,
    ),
}


@pytest.fixture(params=KINDS)
def workload_and_rate(request, make_workload):
    arrivals, rate_per_s = KINDS[request.param]
    return make_workload(arrivals, 2000), rate_per_s


def _arrivals_s(workload, seed=1):
    return sample_requests(workload, ("a",), None, seed=seed).arrival_s


def test_every_kind_knows_its_mean_rate(workload_and_rate):
    workload, rate_per_s = workload_and_rate
    assert mean_rate_per_s(workload) == pytest.approx(rate_per_s)
    ends_s = np.array([_arrivals_s(workload, seed)[-1] for seed in range(40)])
    assert abs(ends_s.mean() - 2000 / rate_per_s) < 4 * ends_s.std() / np.sqrt(len(ends_s))


def test_another_load_is_the_same_arrivals_faster(workload_and_rate):
    workload, rate_per_s = workload_and_rate
    faster = at_mean_rate(workload, 5 * rate_per_s)
    assert mean_rate_per_s(faster) == pytest.approx(5 * rate_per_s)
    assert _arrivals_s(faster) == pytest.approx(_arrivals_s(workload) / 5)


def test_a_recording_is_scaled_by_its_rate_scale(make_workload, request_file):
    arrivals = {"kind": "recorded", "path": request_file(ROWS), "rate_scale": 2.0}
    workload = make_workload(arrivals, None, {"kind": "file_rows"})
    assert mean_rate_per_s(workload) == pytest.approx(3 / 4.0 * 2.0)
    slower = at_mean_rate(workload, 0.75)
    assert slower.arrivals.rate_scale == pytest.approx(1.0)
    assert slower.lengths == workload.lengths
    assert mean_rate_per_s(workload.model_copy(update={"num_requests": 3})) == pytest.approx(
        2 / 1.5 * 2.0
    )


def test_requests_that_arrive_at_once_have_no_rate_and_become_poisson(make_workload, request_file):
    together = request_file([(3.0, 11, 2), (3.0, 12, 3)])
    recorded = {"kind": "recorded", "path": together}
    for arrivals in ({"kind": "batch"}, recorded):
        workload = make_workload(arrivals, 2)
        assert mean_rate_per_s(workload) is None
        assert at_mean_rate(workload, 3.0).arrivals.kind == "poisson"
    # Lengths that followed the recorded arrivals keep the file.
    rows = make_workload(recorded, 2, {"kind": "file_rows"})
    poisson = at_mean_rate(rows, 3.0)
    assert sample_requests(poisson, ("a",), None, seed=1).prompt_tokens.tolist() == [11, 12]


def test_a_batch_of_a_recording_keeps_its_lengths_and_is_no_longer_than_it(
    make_workload, request_file
):
    arrivals = {"kind": "recorded", "path": request_file(ROWS), "start_s": 0.5}
    workload = make_workload(arrivals, 2, {"kind": "file_rows"})
    batch = as_batch(workload, 400)
    drawn = sample_requests(batch, ("a",), None, seed=1)
    assert num_requests(batch) == 3
    assert drawn.arrival_s.tolist() == [0.0, 0.0, 0.0]
    assert drawn.prompt_tokens.tolist() == [12, 13, 14]
    assert num_requests(as_batch(make_workload(arrivals, 2), 400)) == 400


def test_azure_conversations_offer_their_published_rate(make_workload, shared_data):
    path = shared_data / "azure_llm_2023/AzureLLMInferenceTrace_conv.csv"
    arrivals = {"kind": "recorded", "path": str(path), "format": "azure"}
    assert mean_rate_per_s(make_workload(arrivals, None)) == pytest.approx(5.53, abs=0.005)
