"""The plan as a document: what plan.json holds and a report shows."""

from typing import Any, Literal

from pydantic import Field

from simcore.metrics.estimate import CONFIDENCE
from simcore.metrics.headlines import Unit
from simcore.metrics.summary import Summary
from simcore.planner.capacity_document import Capacity
from simcore.planner.crossover_document import CrossoverMap
from simcore.planner.recommendation import Recommendation, Way
from simcore.planner.sensitivity_document import Sensitivity
from simcore.profile.schema import Frozen, Identity, Proposer, Provenance
from simcore.scenario import Scenario


class ProfileCard(Frozen):
    """Where a plan's numbers come from."""

    name: str
    title: str
    source: str
    sha256: str
    identity: Identity
    proposers: dict[str, Proposer]
    provenance: Provenance


class Speedup(Frozen):
    """How many times shorter the mean request is with speculation."""

    metric: Literal["mean_e2e_latency_off_over_on"] = "mean_e2e_latency_off_over_on"
    value: float = Field(description="times; 1: as fast as without")
    interval: tuple[float, float] = Field(description="times; lower and upper end")
    confidence: float = Field(CONFIDENCE, description="share, of the interval")
    num_replications: int


class MetricInterval(Frozen):
    """One number of a candidate over all replications."""

    metric: str = Field(description="dotted name, as in docs/reference/metrics.md")
    name: str
    unit: Unit
    value: float = Field(description="in `unit`; mean over the replications")
    interval: tuple[float, float] = Field(
        description="in `unit`; 95 %, for one more draw of all that is uncertain"
    )


class NextMeasurement(Frozen):
    """What would tell two candidates apart, or that nothing need to."""

    is_relevant: bool = Field(description="false: the difference found is too small to matter")
    difference: float = Field(description="log of the ratio found; 0: none")
    dominant_source: Literal["requests", "cost", "seeds"] | None = Field(
        description="which adds most to the variance; null: none states any"
    )
    have: int | None = Field(description="number of `unit` behind the figures now")
    need: int | None = Field(
        description="number of `unit` at which the intervals part with the power stated, were the "
        "difference the one found; null: no number of them does, or none is needed"
    )
    unit: str = Field(description="what is counted: recorded requests, timings or simulated ones")
    power: float = Field(description="share of repetitions in which they part")
    reason: str


class Candidate(Frozen):
    """One way to serve, over all replications."""

    proposer: str | None
    num_speculative_tokens: int
    speedup: Speedup
    tpot_speedup: float | None = Field(
        description="times; mean TPOT off / on, mean over replications"
    )
    goodput_fraction: float | None
    meets_slo_as_off: bool = Field(description="not clearly less often than off; true without SLO")
    served_fraction: float = Field(description="finished, of all that came after the warm-up")
    is_best: bool = Field(description="fastest among those that keep the SLO as off does")
    indistinguishable_from_best: bool
    summary: Summary = Field(description="of one run with the profile taken as measured")
    intervals: tuple[MetricInterval, ...] = Field(
        (), description="headline numbers over the replications, where any were observed"
    )


class NotMeasured(Frozen):
    """A draft length that the profile cannot speak of."""

    proposer: str
    num_speculative_tokens: int
    reason: str


class Decision(Frozen):
    """What to ship."""

    choice: Literal["off", "speculate"]
    proposer: str | None
    num_speculative_tokens: int
    verdict: Literal["pays", "never_pays", "indistinguishable", "slower", "misses_slo"]
    reason: str


class LoadSpeedup(Frozen):
    """One point of the curve of speed-up against load."""

    rate_per_s: float
    speedup: float = Field(description="times; mean E2E off / on")
    interval: tuple[float, float] = Field(description="times; lower and upper end")
    is_beyond_saturation: bool = Field(description="latency there grows with the run's length")


class BreakEvenReport(Frozen):
    """The load where speculation stops paying; null with a reason where there is none."""

    proposer: str
    num_speculative_tokens: int
    way: str | None = Field(None, description="label of the policy or tree; null: that chain")
    rate_per_s: float | None
    interval: tuple[float, float] | None = Field(
        description="requests/s; lowest and highest crossing of the replications; null where some "
        "have none"
    )
    reason: str
    saturation_rate_per_s: float
    curve: tuple[LoadSpeedup, ...]


class Plan(Frozen):
    """Everything that a report shows; written as plan.json."""

    schema_version: Literal[1] = 1
    origin: dict[str, Any] = Field(
        description="what makes this plan again: version, profile, scenario, seed, replications"
    )
    profile: ProfileCard
    scenario: Scenario
    decision: Decision
    speedup: Speedup = Field(description="of the chosen candidate; of the best one where off wins")
    break_even: BreakEvenReport
    candidates: tuple[Candidate, ...]
    not_measured: tuple[NotMeasured, ...]
    caveats: tuple[str, ...]
    next_measurement: NextMeasurement | None = Field(
        None, description="where the best candidate cannot be told from off"
    )
    recommendation: Recommendation | None = Field(
        None, description="null: of a plan that compared fixed draft lengths only"
    )
    crossover: CrossoverMap | None = Field(
        None, description="speed-up by load and draft length, in closed form; null: not asked"
    )
    sensitivity: Sensitivity | None = Field(
        None, description="which input flips the decision, in closed form; null: not asked"
    )
    capacity: Capacity | None = Field(
        None, description="the largest load within the SLO, off and as recommended; null: not asked"
    )

    @property
    def shipped(self) -> Way | None:
        """The recommended way, where it is what the decision says; None for off and fixed plans."""
        if self.recommendation is None or self.decision.choice == "off":
            return None
        way = self.recommendation.shipped
        asked = way.speculation
        decided = (self.decision.proposer, self.decision.num_speculative_tokens)
        return way if (asked.proposer, asked.num_speculative_tokens) == decided else None

    @property
    def shipped_policy(self) -> Way | None:
        """The same, where it is a policy or tree rather than one draft length."""
        way = self.shipped
        return way if way is not None and way.kind != "fixed" else None
