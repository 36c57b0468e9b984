"""The capacity of a service as documents: what `specplan capacity --json` prints."""

from typing import Any, Literal

from pydantic import Field

from simcore.metrics.estimate import CONFIDENCE, Estimate
from simcore.planner.limit_search import RESOLUTION
from simcore.profile.schema import Frozen
from simcore.scenario import SLO, Scenario

Origin = Literal["profile", "given", "not stated"]


class TestedLoad(Frozen):
    """One load that the search looked at."""

    __test__ = False  # no test of pytest's, whatever its name

    load: float = Field(description="requests a second, or users in a closed loop")
    verdict: Literal["met", "missed", "undecided"]
    attained: dict[str, Estimate] = Field(
        description="requirement -> share of the requests that met it; keeps_up: saturation / load"
    )
    required: dict[str, float] = Field(description="requirement -> share asked for")


class Economics(Frozen):
    """Devices, money and energy at one load; null where price or power is not stated."""

    num_devices: int = Field(description="replicas times the devices of one, draft devices too")
    price_usd_per_device_hour: float | None
    price_source: Origin
    cost_usd_per_million_output_tokens: float | None
    power_source: Origin
    average_power_w: float | None = Field(description="of all devices together")
    energy_j_per_output_token: float | None


class ServiceCapacity(Frozen):
    """The most that one service bears within the SLO."""

    label: str
    proposer: str | None
    num_speculative_tokens: int
    policy: str
    max_rate_per_s: float | None = Field(
        description="offered; in a closed loop what max_users ask, null where that is none"
    )
    interval: tuple[float, float] | None = Field(
        description="highest rate surely met, lowest surely missed; null in a closed loop"
    )
    max_users: int | None = Field(description="of a closed loop; null elsewhere")
    users_interval: tuple[int, int] | None = Field(description="users; likewise")
    by_seed: tuple[float, ...] = Field(description="the same under each of the first seeds alone")
    bound_by: str | None = Field(description="the requirement that is missed first")
    reason: str
    saturation_rate_per_s: Estimate | None = Field(
        description="finished when never idle; null in a closed loop"
    )
    tested: tuple[TestedLoad, ...]
    at_capacity: dict[str, Estimate] = Field(
        description="the run at max_rate_per_s, by dotted name as in docs/reference/metrics.md; "
        "empty at 0"
    )
    economics: Economics | None = Field(description="null at 0")
    scenario: Scenario


class Gain(Frozen):
    """What speculation changes of the capacity."""

    ratio: float | None = Field(description="on / off; null where off bears nothing")
    interval: tuple[float, float] | None = Field(description="from the ends of both intervals")
    verdict: Literal["more", "less", "indistinguishable", "same", "unknown"]
    sentence: str


class Ledger(Frozen):
    """What speculation takes of one replica, in KV tokens of the target, and in devices."""

    kv_tokens_off: int
    kv_tokens_on: int
    draft_weight_bytes: int
    draft_weight_tokens: int
    draft_kv_bytes_per_token: int
    draft_kv_tokens: int
    workspace_tokens: int
    reserved_tokens_per_request: tuple[int, int] = Field(
        description="beyond the committed ones, in a step; off and on"
    )
    reserved_tokens: float | None = Field(
        description="more than off holds back, at the mean batch of on's capacity"
    )
    lost_requests: float | None = Field(
        description="running requests that all of this room would hold, at their mean context"
    )
    draft_devices: int = Field(description="of one replica, for a proposer on a device of its own")


class Capacity(Frozen):
    """The largest load that meets the SLO, without and with speculation."""

    schema_version: Literal[1] = 1
    origin: dict[str, Any]
    slo: SLO
    required_shares: dict[str, float] = Field(description="limit -> share of the requests")
    num_requests: int = Field(description="of one run; more in a closed loop of many users")
    seeds: tuple[int, ...] = Field(description="of every load; in doubt two or three times as many")
    confidence: float = Field(CONFIDENCE, description="share, of the intervals")
    resolution: float = Field(RESOLUTION, description="share; the search ends that close")
    off: ServiceCapacity
    on: ServiceCapacity
    gain: Gain
    ledger: Ledger
    caveats: tuple[str, ...]


class HourNeed(Frozen):
    """One hour of a day."""

    hour: int = Field(ge=0, le=23)
    rate_per_s: float
    replicas: int


class Fleet(Frozen):
    """Replicas of one service for a rate, or through a day."""

    label: str
    proposer: str | None
    num_speculative_tokens: int
    one_replica_rate_per_s: float = Field(description="capacity of one, its interval beside it")
    one_replica_interval: tuple[float, float]
    replicas: int | None = Field(description="fewest that surely meet the SLO at the highest rate")
    at_least: int | None = Field(description="fewest that do not surely miss it there")
    by_division: int | None = Field(description="rate over the capacity of one, rounded up")
    reason: str
    num_devices: int | None
    hours: tuple[HourNeed, ...] = Field(description="of a daily curve; empty for one rate")
    hours_at: dict[int, int] = Field(description="replicas -> hours a day")
    static_device_hours: float | None = Field(description="a day, the peak's replicas all day")
    scaled_device_hours: float | None = Field(description="a day, each hour's own")
    static_cost_usd_per_day: float | None
    scaled_cost_usd_per_day: float | None


class LoadCurve(Frozen):
    """The load of a day, hour by hour."""

    name: str
    source: str
    rates_per_s: tuple[float, ...] = Field(min_length=24, max_length=24)


class ReplicaPlan(Frozen):
    """The fewest replicas for a rate or a day, without and with speculation."""

    schema_version: Literal[1] = 1
    origin: dict[str, Any]
    rate_per_s: float = Field(description="the highest")
    curve: LoadCurve | None
    seeds: tuple[int, ...]
    off: Fleet
    on: Fleet
    caveats: tuple[str, ...]
