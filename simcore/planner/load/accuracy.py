"""How far the closed form lies from simulation, as measured over a random set of scenarios.

The figures are made by `python -m tests.planner.make_estimate_table` and shipped beside this file
with their date, command, version and seed.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from simcore.profile.schema import Frozen

if TYPE_CHECKING:
    from simcore.planner.load_estimate import LoadEstimate

Regime = Literal["roomy", "kv_tight", "near_saturation"]

REGIMES: tuple[Regime, ...] = ("roomy", "kv_tight", "near_saturation")
METRICS = ("tpot", "e2e", "ttft", "batch_size", "output_rate", "max_rate")
NEAR = 0.8  # of max_rate_per_s
ACCURACY_FILE = Path(__file__).with_name("accuracy.json")


class RelativeError(Frozen):
    """Of |estimated / simulated - 1| over scenarios; null where an estimate had no value."""

    median_rel: float | None
    p90_rel: float | None


class RegimeAccuracy(Frozen):
    """Errors in one regime, by metric."""

    num_points: int
    tpot: RelativeError
    e2e: RelativeError
    ttft: RelativeError
    batch_size: RelativeError
    output_rate: RelativeError
    max_rate: RelativeError


class Accuracy(Frozen):
    """The measured errors and where they come from."""

    date: str
    command: str
    specplan_version: str
    seed: int
    num_requests: int = Field(description="of each simulation")
    regimes: dict[Regime, RegimeAccuracy]


def regime_of(estimate: "LoadEstimate") -> Regime:
    """Near saturation above 80 % of what it can carry; else by whether memory limits the batch."""
    if estimate.utilization >= NEAR:
        return "near_saturation"
    counted = [estimate.limits[name] for name in ("seats", "step_tokens")]
    least = min(limit for limit in counted if limit is not None)
    kv = estimate.limits["kv"]
    return "kv_tight" if kv is not None and kv < least else "roomy"


def load_accuracy() -> Accuracy:
    """The figures that this version ships."""
    return Accuracy.model_validate(json.loads(ACCURACY_FILE.read_text(encoding="utf-8")))
