"""A recommendation as a document: what is served how, up to which load, and what it may cost."""

from typing import Literal

from pydantic import Field

from simcore.metrics.summary import Summary
from simcore.profile.schema import Frozen
from simcore.speculation import Speculation

LoadName = Literal["light", "planned", "heavy"]
Fit = Literal["same", "differs", "not_stated"]


class IdentityCheck(Frozen):
    """One thing that scenario and profile must agree on before any number counts."""

    what: str
    asked: str = Field(description="by the scenario")
    measured: str = Field(description="in the profile")
    fit: Fit


class Objective(Frozen):
    """One number that a way to serve is judged by, at the planned load."""

    name: Literal["mean_e2e", "latency", "goodput", "device_time"]
    label: str
    unit: Literal["s", "requests/s", "device-s per million output tokens"]
    is_better: Literal["lower", "higher"]


class Value(Frozen):
    """A mean over replications with its 95 % interval for one more such truth."""

    mean: float = Field(description="in the objective's unit")
    interval: tuple[float, float] = Field(description="likewise; lower and upper end")


class LoadResult(Frozen):
    """One way to serve at one load, against off and against the best there is."""

    load: LoadName
    rate_per_s: float | None = Field(
        description="null: the scenario's own arrivals, without a rate"
    )
    mean_e2e_s: float = Field(description="mean over replications")
    speedup: float = Field(description="times; mean E2E off / this")
    speedup_interval: tuple[float, float] = Field(description="times; lower and upper end")
    regret: float = Field(
        description="share; mean E2E of this over the reference's, less one; 0 of the reference"
    )
    regret_interval: tuple[float, float] = Field(description="share; lower and upper end")


class WayRow(Frozen):
    """Draft length of the batch sizes from `first` to `last`, both inside."""

    first: int = Field(description="requests of one replica")
    last: int = Field(description="requests of one replica")
    num_speculative_tokens: int
    gain: float = Field(
        description="times; tokens a second at `last` over the length of the row before; of the "
        "first row over plain decoding"
    )


class Way(Frozen):
    """One way to serve: off, a draft length, a policy or a tree."""

    label: str
    kind: str = Field(description="off, fixed, tree, or the kind of the policy")
    speculation: Speculation
    rows: tuple[WayRow, ...] = Field((), description="of a batch-size table; else empty")
    served_by: tuple[str, ...] = Field(description="engines that can run it; empty: none")
    is_eligible: bool = Field(description="may be recommended")
    why_not: str = Field("", description="why it may not; empty where it may")
    objectives: dict[str, Value] = Field(
        description="name of the objective -> value at the planned load"
    )
    keeps_slo_as_off: bool
    dominated_by: str | None = Field(
        None, description="a way no worse in every objective and surely better in one; null: none"
    )
    loads: tuple[LoadResult, ...] = Field(
        description="empty where the closed form left it out of the last round"
    )
    expected_regret: float | None = Field(
        description="share; mean over the loads; null without loads"
    )
    summary: Summary | None = Field(
        description="of one run with the profile as measured; null: in the plan's candidates"
    )

    def at(self, load: LoadName) -> LoadResult:
        """Its result at one load, where it has any."""
        return next(each for each in self.loads if each.load == load)


class Reference(Frozen):
    """What regret is counted from at one load: the fastest of all, the oracle included."""

    load: LoadName
    label: str
    oracle_mean_e2e_s: float | None = Field(description="null where no oracle could run")


class Fallback(Frozen):
    """Where drafting ends: by the batch, and by the load of the whole service."""

    batch_size: int | None = Field(
        description="requests of one replica from which on nothing should be drafted; null: none "
        "up to max_num_seqs"
    )
    batch_reason: str
    is_automatic: bool = Field(description="the policy does it; false: an operator or autoscaler")
    off_above_rate_per_s: float | None = Field(description="of the whole service; null: none")
    on_below_rate_per_s: float | None = Field(
        description="of the whole service: back on only below, so that it does not flap"
    )
    rate_reason: str


class Pruned(Frozen):
    """A way that was not simulated, and why."""

    label: str
    reason: str


class Recommendation(Frozen):
    """From a plan's runs to what is shipped; the ways are in the order of simplicity."""

    identity: tuple[IdentityCheck, ...]
    objectives: tuple[Objective, ...]
    ways: tuple[Way, ...]
    pruned: tuple[Pruned, ...]
    references: tuple[Reference, ...]
    chosen: str = Field(description="label of the way to ship")
    reason: str
    equals: tuple[str, ...] = Field(
        description="eligible ways that cannot be told from the chosen one"
    )
    hysteresis: str
    fallback: Fallback | None = Field(description="null where off is chosen")
    measure_next: tuple[str, ...] = Field(description="what would narrow the answer; may be empty")

    def way(self, label: str) -> Way:
        """The way of this label."""
        return next(each for each in self.ways if each.label == label)

    @property
    def shipped(self) -> Way:
        """The way to ship."""
        return self.way(self.chosen)
