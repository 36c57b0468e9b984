"""Workloads that contradict themselves are refused before anything is drawn."""

import re

import pytest
from pydantic import ValidationError

from simcore.errors import ScenarioError
from simcore.scenario import Workload
from simcore.workload.sampling import sample_requests
from tests.workload.conftest import two_states

BAD = {
    "rate of zero": ({"kind": "gamma", "rate_per_s": 0, "cv": 1}, "greater than or equal to"),
    "negative cv": ({"kind": "gamma", "rate_per_s": 1, "cv": -1}, "greater than or equal to 0"),
    "unknown kind": ({"kind": "weekly"}, "does not match any of the expected tags"),
    "ramp to nothing": (
        {"kind": "ramp", "from_rate_per_s": 1, "to_rate_per_s": 0, "duration_s": 1},
        "greater than or equal to",
    ),
    "one state": (two_states(states=[{"rate_per_s": 1, "mean_dwell_s": 1}]), "at least 2"),
    "all silent": (
        two_states(states=[{"rate_per_s": 0, "mean_dwell_s": 1}] * 2),
        "every state has rate_per_s 0",
    ),
    "no square": (two_states(transitions=[[0, 1]]), "expected 2 rows of 2"),
    "no probabilities": (two_states(transitions=[[0, 0.5], [1, 0]]), "sum to 1"),
    "staying": (two_states(transitions=[[0.5, 0.5], [1, 0]]), "with 0 for staying"),
    "a dead end": (
        two_states(
            states=[{"rate_per_s": 1, "mean_dwell_s": 1}] * 3,
            transitions=[[0, 0.5, 0.5], [0, 0, 1], [0, 1, 0]],
        ),
        "remove the states that are not",
    ),
    "no path": ({"kind": "recorded"}, "Field required"),
    "negative start": ({"kind": "recorded", "path": "a", "start_s": -1}, "greater than or equal"),
    "unknown format": ({"kind": "recorded", "path": "a", "format": "xls"}, "Input should be"),
}


@pytest.mark.parametrize(("arrivals", "message"), BAD.values(), ids=BAD)
def test_arrivals_that_contradict_themselves_are_refused(make_workload, arrivals, message):
    with pytest.raises(ValidationError, match=re.escape(message)):
        make_workload(arrivals)


def test_all_requests_needs_a_file_to_count_them(make_workload):
    with pytest.raises(ValidationError, match="num_requests is null but no recorded file"):
        make_workload({"kind": "poisson", "rate_per_s": 1.0}, num_requests=None)


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [
        (
            two_states(states=[{"rate_per_s": 1.0, "mean_dwell_s": 1e-9}] * 2),
            "would change state about 2e\\+13 times",
        ),
    ],
)
def test_arrivals_that_would_take_forever_are_refused(make_workload, arrivals, message):
    workload: Workload = make_workload(arrivals)
    with pytest.raises(ScenarioError, match=message):
        sample_requests(workload, ("a",), None, seed=1)
