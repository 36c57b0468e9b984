"""One seat and two classes: the non-preemptive priority queue of Cobham (1954).

W_k = R / ((1 − σ_{k−1})(1 − σ_k)), R = Σ λ_i E[S_i²] / 2, σ_k the load of class k and all above.
"""

import numpy as np
import pytest

from tests.theory.service import SEEDS, agrees, exponential, run, target_law

TOKEN_S = 1e-5
MEAN_PROMPT_TOKENS = 10_000
SERVICE_S = TOKEN_S * MEAN_PROMPT_TOKENS  # exponential: E[S²] = 2 SERVICE_S²
UTILISATION = 0.8
URGENT_SHARE = 0.25


@pytest.fixture(scope="module")
def waits_s(recorded_profile):
    """Mean wait of each class, the urgent one first, of every seed."""
    stored = target_law(recorded_profile, per_token_s=TOKEN_S)
    waits = []
    for seed in SEEDS:
        settled = run(
            stored,
            seed=seed,
            num_requests=30_000,
            rate_per_s=UTILISATION / SERVICE_S,
            seats=1,
            draw_prompt=exponential(MEAN_PROMPT_TOKENS),
            changes={
                "deployment.scheduling": "priority",
                "workload.domains": {
                    "code": {"weight": URGENT_SHARE, "priority": 0},
                    "chat": {"weight": 1.0 - URGENT_SHARE, "priority": 1},
                },
            },
        ).settled
        wait_s = settled["scheduled_s"] - settled["arrival_s"]
        waits.append([float(wait_s[settled["level"] == level].mean()) for level in (0, 1)])
    return np.array(waits)


def _cobham_s(level: int) -> float:
    sigma = [0.0, UTILISATION * URGENT_SHARE, UTILISATION]
    residual_s = UTILISATION * SERVICE_S
    return residual_s / ((1.0 - sigma[level]) * (1.0 - sigma[level + 1]))


@pytest.mark.parametrize("level", [0, 1])
def test_each_class_waits_as_in_cobhams_queue(waits_s, level):
    assert agrees(waits_s[:, level].tolist(), _cobham_s(level), detects=0.2)


def test_the_classes_together_wait_as_without_classes(waits_s):
    # Kleinrock's conservation law, classes of one service law: Σ ρ_i W_i does not change.
    together = waits_s @ np.array([URGENT_SHARE, 1.0 - URGENT_SHARE])
    in_turn_s = UTILISATION * SERVICE_S / (1.0 - UTILISATION)
    assert agrees(together.tolist(), in_turn_s, detects=0.2)
