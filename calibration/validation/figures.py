"""What a run is judged by, from records that real and simulated runs have in common."""

from collections.abc import Sequence

import numpy as np

from simcore.metrics.summary import request_latencies_s
from simcore.profile.schema import Frozen
from simcore.records import Records

POINTS = {"p50": 0.5, "p95": 0.95}


class Figures(Frozen):
    """One run in numbers."""

    ttft_p50_s: float
    ttft_p95_s: float
    tpot_p50_s: float
    tpot_p95_s: float
    e2e_p50_s: float
    e2e_p95_s: float
    output_tokens_per_s: float
    accepted_tokens_per_cycle: float
    mean_batch: float


NAMES = tuple(Figures.model_fields)


def figures_of(requests: Records, steps: Records) -> Figures:
    """From REQUEST_DTYPE and STEP_DTYPE; every request has finished."""
    latency_s = request_latencies_s(requests)
    found = {
        f"{name}_{point}_s": float(np.nanquantile(latency_s[f"{name}_s"], share))
        for name in ("ttft", "tpot", "e2e")
        for point, share in POINTS.items()
    }
    span_s = float(requests["finish_s"].max() - requests["arrival_s"].min())
    num_cycles = int(steps["num_decoding"].sum())
    step_s = steps["end_s"] - steps["begin_s"]
    return Figures(
        **found,
        output_tokens_per_s=float(requests["emitted_tokens"].sum()) / span_s,
        accepted_tokens_per_cycle=float(steps["accepted_tokens"].sum()) / max(num_cycles, 1),
        mean_batch=float((steps["num_running"] * step_s).sum() / step_s.sum()),
    )


def mean_of(runs: Sequence[Figures]) -> Figures:
    """The mean of every number."""
    return Figures(**{name: float(np.mean(_values(runs, name))) for name in NAMES})


def deviation_of(runs: Sequence[Figures]) -> Figures:
    """The standard deviation of every number; 0 for one run."""
    return Figures(
        **{name: float(np.std(_values(runs, name), ddof=len(runs) > 1)) for name in NAMES}
    )


def _values(runs: Sequence[Figures], name: str) -> list[float]:
    return [getattr(run, name) for run in runs]
