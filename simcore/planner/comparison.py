"""A comparison as a document: what `specplan compare --json` prints."""

from typing import Any, Literal

from pydantic import Field

from simcore.metrics.estimate import CONFIDENCE, Estimate
from simcore.metrics.replicated import ReplicatedSummary
from simcore.profile.schema import Frozen
from simcore.scenario import Scenario


class RelativeChange(Frozen):
    """A ratio less one, with its interval; −0.1 is lower by 10 %."""

    mean: float
    low: float | None
    high: float | None


class Difference(Frozen):
    """One metric of one service against the reference, paired by seed."""

    metric: str = Field(description="dotted name, as in docs/reference/metrics.md")
    name: str
    unit: str
    absolute: Estimate = Field(description="this − reference, in the metric's unit")
    relative: RelativeChange | None = Field(
        description="geometric mean of this / reference, less one; null for shares and where a "
        "value is 0"
    )
    verdict: Literal["lower", "higher", "same", "indistinguishable", "unknown"]
    sentence: str


class Service(Frozen):
    """One scenario of the comparison, at the load at which it is compared."""

    label: str
    scenario: Scenario
    offered_rate_per_s: float | None = Field(description="null for an offline batch")
    admitted_rate_per_s: Estimate | None = Field(
        description="null where the run is over with its first counted request"
    )
    reaches_rate: bool = Field(description="serves the rate that is compared at, within tolerance")
    note: str = Field(description="why it does not; empty where it does")
    summary: ReplicatedSummary
    differences: tuple[Difference, ...] = Field(
        description="to the reference; empty for itself and where either misses the rate"
    )


class Comparison(Frozen):
    """Services under common random numbers; the first is the reference."""

    schema_version: Literal[1] = 1
    origin: dict[str, Any]
    at: Literal["offered", "admitted"]
    rate_per_s: float | None = Field(
        description="offered or admitted by all; null for an offline batch"
    )
    rate_tolerance: float | None = Field(
        description="relative, of the admitted rate; null at equal offered load"
    )
    seeds: tuple[int, ...]
    confidence: float = CONFIDENCE
    services: tuple[Service, ...]
    caveats: tuple[str, ...]
