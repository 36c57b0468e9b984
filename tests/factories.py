"""Synthetic profiles and scenarios: invented numbers, real formats."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simcore.cost.law import CostDomain, CostLaw, FitError, LinearLaw, TargetLaw
from simcore.profile.schema import (
    AcceptanceRecord,
    Contract,
    Engine,
    Hardware,
    Identity,
    ModelIdentity,
    Profile,
    Proposer,
    Provenance,
    Sampling,
    Source,
)
from simcore.profile.store import StoredProfile, write_profile
from simcore.scenario import Scenario, parse_scenario

MAX_GAMMA = 8
CONTRACTS = {0.0: Contract.GREEDY_EQUALITY, 1.0: Contract.EXACT_SAMPLING}


@dataclass(frozen=True)
class Recording:
    """How the invented requests accept: an easy/hard chain, some requests easier than others."""

    num_requests: int = 12
    output_tokens: tuple[int, int] = (20, 60)
    seed: int = 7
    propose_scale: float = 1.0
    gain: float = 0.0
    acceptance: float | None = None  # every draft accepted with this rate instead


def make_profile(folder: Path, recording: Recording) -> StoredProfile:
    """Write and load a profile with traces."""
    records, frames = [], []
    for proposer in ("ngram", "draft_model"):
        for temperature, contract in CONTRACTS.items():
            for domain in ("chat", "code"):
                key = len(records)
                records.append(
                    AcceptanceRecord(
                        key=key,
                        proposer=proposer,
                        domain=domain,
                        sampling=Sampling(temperature=temperature),
                        contract=contract,
                        kind="trace",
                        max_num_speculative_tokens=MAX_GAMMA,
                        num_requests=recording.num_requests,
                        counted_at="every_position",
                    )
                )
                stochastic = proposer == "draft_model" and temperature > 0
                frames.append(trace_rows(key, recording, stochastic=stochastic))
    profile = Profile(
        schema_version=1,
        name="recorded",
        title="Invented profile with traces",
        source=Source.MEASURED,
        identity=invented_identity(),
        provenance=Provenance(date="2026-11-29", notes=("invented",)),
        proposers={
            "ngram": Proposer(kind="ngram", settings={"max_ngram": 3, "min_ngram": 1}),
            "draft_model": Proposer(
                kind="draft_model", weight_bytes=20_000_000, kv_bytes_per_token=512
            ),
        },
        cost=cost_law(recording.propose_scale),
        acceptance=tuple(records),
    )
    cost = pd.DataFrame(
        {
            "phase": ["target"],
            "proposer": [None],
            "batch_size": [1],
            "num_query_tokens": [1],
            "context_tokens": [64],
            "num_speculative_tokens": [0],
            "median_s": [0.01],
            "p10_s": [0.009],
            "p90_s": [0.011],
            "min_s": [0.009],
            "repeats": [5],
        }
    )
    return write_profile(profile, folder, cost=cost, traces=pd.concat(frames))


def invented_identity() -> Identity:
    """A small invented model on an invented machine."""
    target = ModelIdentity(
        name="invented-100m",
        revision="0" * 64,
        num_parameters=100_000_000,
        dtype="bfloat16",
        quantization="none",
        tokenizer="invented",
        vocab_size=1000,
        weight_bytes=200_000_000,
        kv_bytes_per_token=4096,
    )
    return Identity(
        target=target,
        hardware=Hardware(device="cpu", name="invented CPU", memory_bytes=1_000_000_000),
        engine=Engine(name="invented", version="1"),
    )


def cost_law(propose_scale: float = 1.0) -> CostLaw:
    """20 ms a plain step, flat to 32 tokens, then 0.5 ms a token."""
    return CostLaw(
        target=TargetLaw(
            knot_tokens=(1, 32, 1024),
            knot_s=(0.02, 0.022, 0.518),
            per_request_s=1e-5,
            per_kv_token_plain_s=1e-6,
            per_kv_token_verify_s=1e-6,
        ),
        propose={
            "ngram": LinearLaw(base_s=2e-5 * propose_scale, per_request_s=1e-5 * propose_scale),
            "draft_model": LinearLaw(
                base_s=1e-4 * propose_scale,
                per_pass_s=1.5e-3 * propose_scale,
                per_draft_token_s=2e-5 * propose_scale,
            ),
        },
        reconcile=LinearLaw(base_s=5e-4, per_request_s=2e-5),
        overhead_s=1e-3,
        domain=CostDomain(
            max_batch_size=16,
            max_context_tokens=2048,
            max_query_tokens_per_request=1 + MAX_GAMMA,
            max_step_tokens=1024,
        ),
        held_out_error={
            "target": FitError(num_samples=20, median_rel=0.02, p90_rel=0.05, max_rel=0.1)
        },
    )


def trace_rows(key: int, recording: Recording, *, stochastic: bool = False) -> pd.DataFrame:
    """Rows of one record: every position of every request, with full depth at every start."""
    rng = np.random.default_rng([recording.seed, key])
    rows: list[dict[str, Any]] = []
    low, high = recording.output_tokens
    for request in range(recording.num_requests):
        length = int(rng.integers(low, high + 1))
        prompt = int(rng.integers(5, 80))
        rates = _token_rates(length + MAX_GAMMA, recording, rng)
        coins = rng.random(length + MAX_GAMMA) < rates
        for start in range(length):
            window = coins[start : start + MAX_GAMMA]
            accepted = int(np.argmin(window)) if not window.all() else MAX_GAMMA
            rows.append(
                {
                    "record": key,
                    "request": request,
                    "prompt_tokens": prompt,
                    "output_tokens": length,
                    "start": start,
                    "proposed": MAX_GAMMA,
                    "accepted": accepted,
                    "rank": [0 if hit else 1 for hit in window],
                    "confidence": rates[start : start + MAX_GAMMA].tolist(),
                    "ratio": rates[start : start + MAX_GAMMA].tolist() if stochastic else None,
                }
            )
    return pd.DataFrame(rows)


def _token_rates(count: int, recording: Recording, rng: np.random.Generator) -> np.ndarray:
    """Acceptance of each token: a request's own ease, times an easy/hard chain."""
    if recording.acceptance is not None:
        return np.full(count, recording.acceptance)
    ease = rng.uniform(0.4, 0.95)
    hard, rates = False, np.empty(count)
    for index in range(count):
        hard = rng.random() < (0.7 if hard else 0.15)
        rates[index] = min(1.0, ease * (0.4 if hard else 1.0) + recording.gain)
    return rates


def make_scenario(stored: StoredProfile, **changes: Any) -> Scenario:
    """A small greedy scenario on a stored profile; keys may be dotted."""
    base = parse_scenario(
        {
            "name": "test",
            "profile": str(stored.folder),
            "contract": "greedy_equality",
            "workload": {
                "arrivals": {"kind": "poisson", "rate_per_s": 2.0},
                "lengths": {"kind": "recorded"},
                "num_requests": 60,
            },
            "deployment": {"max_num_seqs": 8, "max_num_batched_tokens": 256},
            "speculation": {"proposer": "ngram", "num_speculative_tokens": 4},
            "seed": 3,
        },
        "test scenario",
    )
    return base.with_(**changes)


def sampled(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Changes that turn a scenario to exact sampling at temperature 1."""
    return {
        "contract": "exact_sampling",
        "sampling": {"temperature": 1.0},
        **(changes or {}),
    }


__all__ = [
    "MAX_GAMMA",
    "Recording",
    "cost_law",
    "make_profile",
    "make_scenario",
    "replace",
    "sampled",
    "trace_rows",
]
