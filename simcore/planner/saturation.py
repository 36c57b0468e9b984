"""What a service finishes when it is never idle: the load beyond which its queue grows for ever."""

import math
from collections.abc import Callable

import numpy as np

from simcore.errors import ScenarioError
from simcore.records import Records
from simcore.scenario import Scenario
from simcore.serving.state import FINISHED
from simcore.workload.load import as_batch, at_mean_rate, mean_turns
from simcore.workload_kinds import Workload

LEAST_REQUESTS, NUM_TURNS = 1000, 24  # behind one measurement: of a replica, of a seat
OVERLOAD = 8.0  # of what a batch gives, where sessions make the load
SESSION_LIVES, MOST_CROWD = 20, 100_000  # that a run with sessions lasts; its most requests


def saturation_of(scenario: Scenario, run: Callable[[Scenario], Records]) -> float:
    """Requests a second that the service finishes when never idle; `run` gives request records."""
    full = _never_idle(scenario)
    rate_per_s = _finish_rate_per_s(run(full))
    if scenario.workload.sessions is None:
        return rate_per_s
    # Turns cannot come at once; far more sessions than can be served come instead.
    return _finish_rate_per_s(run(_crowded(scenario, rate_per_s, full.workload.num_requests or 0)))


def session_life_s(workload: Workload) -> float:
    """Seconds that the thinking of one session takes on average; 0 without sessions."""
    if workload.sessions is None:
        return 0.0
    return (mean_turns(workload) - 1.0) * workload.sessions.think.mean_s


def _never_idle(scenario: Scenario) -> Scenario:
    """The scenario with all its requests there at once, so many for every replica.

    So many turns for each seat that most of the run is spent with full seats, not filling or
    emptying them. Nobody gives up or is turned away.
    """
    deployment = scenario.deployment
    a_replica = max(LEAST_REQUESTS, NUM_TURNS * deployment.max_num_seqs)
    workload = as_batch(scenario.workload, a_replica * deployment.replicas)
    return scenario.with_(
        workload=workload.model_copy(update={"patience_s": None}),
        warmup_fraction=0.0,
        **{"deployment.max_queue": None},
    )


def _crowded(scenario: Scenario, rate_per_s: float, least_requests: int) -> Scenario:
    """So many sessions, for so long, that their thinking leaves no seat empty."""
    lives = SESSION_LIVES * rate_per_s * session_life_s(scenario.workload)
    return scenario.with_(
        workload=at_mean_rate(scenario.workload, OVERLOAD * rate_per_s),
        warmup_fraction=0.0,
    ).with_(
        **{
            "workload.num_requests": max(least_requests, math.ceil(min(lives, MOST_CROWD))),
            "workload.patience_s": None,
            "deployment.max_queue": None,
        },
    )


def _finish_rate_per_s(requests: Records) -> float:
    """Requests finished a second while a run that never idles is in full swing."""
    requests = requests[requests["state"] == FINISHED]
    # The tail, with seats running empty, is not the sustained rate.
    finish_s = np.sort(requests["finish_s"])
    middle = len(finish_s) // 10, len(finish_s) * 8 // 10
    if middle[0] == middle[1]:
        raise ScenarioError(f"{len(finish_s)} requests are too few to plan with; expected 10")
    span_s = float(finish_s[middle[1]] - finish_s[middle[0]])
    return (middle[1] - middle[0]) / max(span_s, 1e-12)
