"""The public H100 study of EAGLE and n-gram lookup on Llama-3.1-8B, in specplan's own kernel.

The study replays its traces: offline batches of clones of one request, one prefill pass that
emits the first token, then cycles from output position 1 on; speed-up is total plain time over
total speculative time of all requests. Its per-request lists lie outside the project and are
read where they are; docs/validation.md says what came out.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from simcore import Scenario, simulate
from simcore.acceptance.trace import TraceSet
from simcore.cost.law import CostDomain, CostLaw, LinearLaw, TargetLaw
from simcore.matching import load_traces, matching_records
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
from simcore.scenario import parse_scenario

GAMMA = 3
BATCH_SIZES = (1, 8, 16, 32, 64, 128)
LARGEST_FITTED_BATCH = 64
RUNAWAY_TOKENS = 8_000  # output at the limit: a stratum of its own, which the study left out
MAX_GAMMA = 21  # an H100 list never reaches it

# Speed-up by batch size, EAGLE, γ = 3, as the study's own simulator computes it from its lists,
# and how far from it we may end.
STUDY_SIMULATOR = {
    "gsm8k": dict(zip(BATCH_SIZES, (1.81, 1.73, 1.65, 1.52, 1.36, 1.18), strict=True)),
    "instructcoder": dict(zip(BATCH_SIZES, (2.03, 1.91, 1.80, 1.65, 1.46, 1.28), strict=True)),
}
TOLERANCE = {"gsm8k": 0.02, "instructcoder": 0.03}

# The study's fit: seconds, seconds a token scored, seconds a token in the KV cache.
VERIFY_S = (5.88590713e-3, 2.10103129e-5, 3.92645679e-8)
DRAFT_S = (2.13526175e-3, 8.41429603e-7, 2.37768493e-9)
OVERHEAD_S = 1.20683946e-3
NGRAM_SHARE = 0.005875  # of the verifying pass
KNOTS = (1, 4096)  # a straight line, and its slope goes on


@dataclass(frozen=True)
class Times:
    """Seconds of every recorded request's batch, without speculation and with it."""

    plain_s: np.ndarray  # [num_requests]
    speculative_s: np.ndarray
    plain_extrapolated: float  # share of the steps outside the box that the fit covers
    speculative_extrapolated: float

    @property
    def speedup(self) -> float:
        """Total plain time over total speculative time."""
        return float(self.plain_s.sum() / self.speculative_s.sum())

    @property
    def standard_error(self) -> float:
        """Of the speed-up as an estimate from these requests (delta method for a ratio)."""
        residual = self.plain_s - self.speedup * self.speculative_s
        error = residual.std(ddof=1) / self.speculative_s.mean() / np.sqrt(len(residual))
        return float(error)


@dataclass(frozen=True)
class Study:
    """One data set of the study as a profile, and its requests."""

    stored: StoredProfile
    traces: TraceSet
    scenario: Scenario


def open_study(
    parquet: Path,
    folder: Path,
    domain: str,
    *,
    runaways: bool = False,
    proposer: str = "eagle",
    miss_matched: bool = True,
) -> Study:
    """Turn the study's lists into a profile in `folder` and read it back through the loaders.

    The lists do not say whether a position that accepted nothing had drafts: `miss_matched`
    supposes that each had, or that none had.
    """
    lists = pq.read_table(parquet).to_pandas()
    if not runaways:
        lists = lists[lists.output_tokens < RUNAWAY_TOKENS].reset_index(drop=True)
    stored = write_profile(
        _profile(domain, len(lists), proposer),
        folder,
        cost=None,
        traces=_trace_rows(lists, proposer, MAX_GAMMA if miss_matched else 0),
    )
    scenario = _scenario(stored, proposer)
    traces = load_traces(stored, matching_records(stored, scenario, proposer))
    assert traces is not None
    return Study(stored, traces, scenario)


def replay(study: Study, batch_size: int, *, every: int = 1, draft_length: int = GAMMA) -> Times:
    """Run a batch of clones of every `every`th recorded request, off and on."""
    chosen = range(0, study.traces.num_requests, every)
    seconds = np.zeros((2, len(chosen)))
    extrapolated, steps = np.zeros(2), np.zeros(2)
    for row, gamma in enumerate((0, draft_length)):
        scenario = study.scenario.with_(
            **{
                "workload.num_requests": batch_size,
                "deployment.max_num_seqs": batch_size,
                "speculation.num_speculative_tokens": gamma,
            }
        )
        for column, request in enumerate(chosen):
            result = simulate(scenario, stored=study.stored, traces=_one(study.traces, request))
            records = result.request_records
            length = int(study.traces.output_tokens[request])
            assert (records["emitted_tokens"] == length).all()
            assert (records["stitched_tokens"] == 0).all()
            seconds[row, column] = records["finish_s"].max()
            # The prefill pass lies outside the fit at any size; the cycles are what is marked.
            cycles = result.step_records[1:]
            extrapolated[row] += cycles["is_extrapolated"].sum()
            steps[row] += len(cycles)
    shares = extrapolated / steps
    return Times(seconds[0], seconds[1], float(shares[0]), float(shares[1]))


def measured_speedups(
    csv: Path, domain: str, *, method: str = "eagle", draft_length: int = GAMMA
) -> dict[int, float]:
    """Batch size -> speed-up that the study measured on the engine."""
    table = pd.read_csv(csv)
    rows = table[
        (table.target == "llama3.1-8b")
        & (table.dataset == domain)
        & (table.method == method)
        & (table.num_speculative_tokens == draft_length)
    ]
    return dict(zip(rows.batch_size.astype(int), rows.speedup.astype(float), strict=True))


def _one(traces: TraceSet, request: int) -> TraceSet:
    """The set with this recorded request alone, so that every request of a run is its clone."""
    only = slice(request, request + 1)
    return replace(
        traces,
        offset=traces.offset[only],
        output_tokens=traces.output_tokens[only],
        prompt_tokens=traces.prompt_tokens[only],
        domain=traces.domain[only],
    )


def _trace_rows(lists: pd.DataFrame, proposer: str, proposed_on_miss: int) -> pd.DataFrame:
    """One row an output position; a cycle emits what it accepts and one token more."""
    own = lists[f"emitted_{proposer}"]
    lengths = own.map(len).to_numpy()
    emitted = np.concatenate(own.to_list()).astype(np.int64)
    ends = np.cumsum(lengths)
    return pd.DataFrame(
        {
            "record": 0,
            "request": np.repeat(np.arange(len(lists)), lengths),
            "prompt_tokens": np.repeat(lists.prompt_tokens.to_numpy(), lengths),
            "output_tokens": np.repeat(lengths, lengths),
            "start": np.arange(len(emitted)) - np.repeat(ends - lengths, lengths),
            "proposed": np.where(emitted > 1, MAX_GAMMA, proposed_on_miss),
            "accepted": np.minimum(emitted - 1, MAX_GAMMA),
            "rank": None,
            "confidence": None,
            "ratio": None,
        }
    )


def _scenario(stored: StoredProfile, proposer: str) -> Scenario:
    return parse_scenario(
        {
            "name": "offline batch of clones",
            "profile": str(stored.folder),
            "contract": "greedy_equality",
            "workload": {"arrivals": {"kind": "batch"}, "lengths": {"kind": "recorded"}},
            # Everything fits: the study's simulator knows no memory and prefills in one pass.
            "deployment": {"max_num_batched_tokens": 1_000_000, "kv_cache_tokens": 10_000_000},
            "speculation": {"proposer": proposer, "acceptance": "trace"},
        },
        "the study's scenario",
    )


def _cost_law() -> CostLaw:
    base_s, per_token_s, per_kv_token_s = VERIFY_S
    draft_base_s, per_draft_token_s, draft_per_kv_token_s = DRAFT_S
    first, last = (base_s + per_token_s * tokens for tokens in KNOTS)
    return CostLaw(
        target=TargetLaw(
            knot_tokens=KNOTS,
            knot_s=(first, last),
            per_kv_token_plain_s=per_kv_token_s,
            per_kv_token_verify_s=per_kv_token_s,
        ),
        propose={
            "eagle": LinearLaw(
                base_s=draft_base_s,
                per_draft_token_s=per_draft_token_s,
                per_kv_token_s=draft_per_kv_token_s,
            ),
            "ngram": LinearLaw(target_fraction=NGRAM_SHARE),
        },
        overhead_s=OVERHEAD_S,
        domain=CostDomain(
            max_batch_size=LARGEST_FITTED_BATCH,
            max_context_tokens=8192,
            max_query_tokens_per_request=8,
            max_step_tokens=8 * LARGEST_FITTED_BATCH,
        ),
    )


def _profile(domain: str, num_requests: int, proposer: str) -> Profile:
    return Profile(
        schema_version=1,
        name=f"study-{domain}",
        title="Llama-3.1-8B-Instruct on one H100: the study's lists and fit",
        source=Source.PUBLISHED,
        identity=_identity(),
        provenance=Provenance(date="2026-01-17", citations=("arXiv 2601.11580",)),
        proposers={"eagle": Proposer(kind="eagle"), "ngram": Proposer(kind="ngram")},
        cost=_cost_law(),
        acceptance=(
            AcceptanceRecord(
                key=0,
                proposer=proposer,
                domain=domain,
                sampling=Sampling(),
                contract=Contract.GREEDY_EQUALITY,
                kind="trace",
                max_num_speculative_tokens=MAX_GAMMA,
                num_requests=num_requests,
                counted_at="every_position",
            ),
        ),
    )


def _identity() -> Identity:
    return Identity(
        target=ModelIdentity(
            name="Llama-3.1-8B-Instruct",
            revision="not stated by the study",
            num_parameters=8_030_261_248,
            dtype="bfloat16",
            quantization="none",
            tokenizer="Llama-3.1",
            vocab_size=128_256,
            weight_bytes=16_060_522_496,
            kv_bytes_per_token=131_072,
        ),
        hardware=Hardware(device="cuda", name="NVIDIA H100 80GB", memory_bytes=80_000_000_000),
        engine=Engine(name="vLLM", version="0.10.1"),
    )
