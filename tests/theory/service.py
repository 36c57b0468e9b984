"""A service stripped to a queue: step times and lengths that a theory knows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from simcore.cost.law import CostLaw, LinearLaw, TargetLaw
from simcore.profile.store import StoredProfile
from simcore.serving.service import Service
from simcore.serving.setup import new_state
from tests.factories import make_scenario

SEEDS = range(24)
WARMUP_FRACTION = 0.1

Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Finished:
    """Request and step records of a run; requests in order of arrival."""

    requests: Any
    steps: Any

    @property
    def settled(self) -> Any:
        """Requests after the warm-up."""
        return self.requests[int(WARMUP_FRACTION * len(self.requests)) :]


def target_law(
    stored: StoredProfile,
    *,
    base_s: float = 0.0,
    per_token_s: float = 0.0,
    per_request_s: float = 0.0,
) -> StoredProfile:
    """The profile with steps of base + per token + per request, and free proposers."""
    knots = (1, 2)
    law = CostLaw(
        target=TargetLaw(
            knot_tokens=knots,
            knot_s=tuple(base_s + per_token_s * tokens for tokens in knots),
            per_request_s=per_request_s,
            per_kv_token_plain_s=0.0,
            per_kv_token_verify_s=0.0,
        ),
        propose=dict.fromkeys(stored.profile.proposers, LinearLaw()),
        domain=stored.profile.cost.domain,
    )
    return StoredProfile(stored.profile.model_copy(update={"cost": law}), stored.folder)


def run(
    stored: StoredProfile,
    *,
    seed: int,
    num_requests: int,
    rate_per_s: float | None,
    seats: int,
    draw_prompt: Draw | None = None,
    draw_output: Draw | None = None,
    replicas: int = 1,
    arrivals: dict[str, Any] | None = None,
    changes: dict[str, Any] | None = None,
) -> Finished:
    """Plain decoding of requests whose lengths come from any law, memory without end.

    Poisson arrivals, or all at time 0 where the rate is None, or those given. The workload's own
    laws of lengths are replaced in the state, before the service begins. `changes` of the scenario
    come last.
    """
    if arrivals is None:
        arrivals = {"kind": "batch"}
        if rate_per_s is not None:
            arrivals = {"kind": "poisson", "rate_per_s": rate_per_s}
    scenario = make_scenario(
        stored,
        **{
            "workload.arrivals": arrivals,
            "workload.num_requests": num_requests,
            "deployment.replicas": replicas,
            "deployment.max_num_seqs": seats,
            "deployment.max_num_batched_tokens": 10_000_000,
            "deployment.kv_cache_tokens": 10_000_000,
            "speculation.num_speculative_tokens": 0,
            "seed": seed,
            **(changes or {}),
        },
    )
    state = new_state(scenario, stored).state
    rng = np.random.default_rng([seed, 99])
    one = np.ones(num_requests, dtype=np.int64)
    prompt = one if draw_prompt is None else draw_prompt(rng, num_requests)
    output = one if draw_output is None else draw_output(rng, num_requests)
    state.requests["prompt_tokens"] = prompt
    state.requests["output_tokens"] = output
    service = Service(state)
    service.run()
    return Finished(state.requests, service.steps)


def geometric(mean: float) -> Draw:
    """Lengths 1, 2, .. that forget: the discrete exponential."""
    return lambda rng, count: rng.geometric(1.0 / mean, size=count)


def exponential(mean: float) -> Draw:
    """Exponential rounded to whole tokens, at least one."""
    return lambda rng, count: np.maximum(np.rint(rng.exponential(mean, size=count)), 1).astype(
        np.int64
    )


def agrees(values: list[float], expected: float | list[float], *, detects: float) -> bool:
    """Whether the mean over independent seeds lies within four standard errors of `expected`.

    Its power is asserted too: a relative error of `detects` would lie eight standard errors out,
    so that it passes here with a probability below 1e-3 (the agreeing case fails as rarely).
    """
    differences = np.asarray(values) - np.asarray(expected)
    standard_error = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    assert 8 * standard_error < detects * float(np.mean(expected)), (
        f"standard error {standard_error} is too large to see an error of {detects:.0%}"
    )
    return bool(abs(differences.mean()) < 4 * standard_error)
