"""What changed between two plans: in what was asked, and in what came out."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, JsonValue

from simcore.metrics.headlines import HEADLINES, Unit
from simcore.metrics.replicated import numbers_of
from simcore.planner.capacity_document import Capacity, ServiceCapacity
from simcore.planner.document import BreakEvenReport, Candidate, Plan
from simcore.planner.recommendation import Recommendation
from simcore.profile.schema import Frozen
from simcore.scenario import Scenario

Interval = tuple[float, float]
Key = tuple[str | None, int]  # proposer and draft length of a candidate
SERVICES: tuple[Literal["off", "on"], ...] = ("off", "on")
UNITS: tuple[Literal["requests/s", "users"], ...] = ("requests/s", "users")
ORIGIN = ("specplan_version", "num_replications")
PROFILE = ("name", "title", "source", "sha256", "identity", "proposers", "provenance")


class InputChange(Frozen):
    """One field of what was asked that is not the same."""

    field: str = Field(description="dotted: scenario.…, profile.…, or of the plan's origin")
    a: JsonValue = Field(description="null where A has no such field, or holds null")
    b: JsonValue = Field(description="likewise")


class SpeedupChange(Frozen):
    """A speed-up of mean E2E that is not the same, with its 95 % intervals."""

    candidate: str
    a: float = Field(description="times; mean E2E off / on")
    a_interval: Interval = Field(description="times; lower and upper end")
    b: float = Field(description="times")
    b_interval: Interval = Field(description="times")
    verdict: Literal["higher", "lower", "indistinguishable"] = Field(
        description="of B; indistinguishable where the intervals overlap"
    )


class MetricChange(Frozen):
    """A headline number of one candidate's run that is not the same."""

    candidate: str
    metric: str = Field(description="dotted name, as in docs/reference/metrics.md")
    name: str
    unit: Unit
    a: float | None = Field(description="in `unit`; null where not observed")
    b: float | None = Field(description="in `unit`")
    relative: float | None = Field(description="share; b / a less one; null where a is 0 or absent")


class BreakEvenChange(Frozen):
    """The load where speculation stops paying, of both."""

    a: str = Field(description="proposer and draft length")
    b: str
    a_rate_per_s: float | None
    b_rate_per_s: float | None
    a_interval: Interval | None = Field(description="requests/s")
    b_interval: Interval | None = Field(description="requests/s")
    verdict: Literal["higher", "lower", "indistinguishable", "unknown"] = Field(
        description="of B's load; unknown where one has none, or no interval"
    )
    a_reason: str
    b_reason: str
    a_saturation_rate_per_s: float
    b_saturation_rate_per_s: float


class CapacityChange(Frozen):
    """The largest load of one service within the SLO, of both; null: not asked, or in other units.

    The load is in requests a second, or of a closed loop in users.
    """

    service: Literal["off", "on"]
    a: str | None = Field(description="label of the service")
    b: str | None = Field(description="likewise")
    unit: Literal["requests/s", "users"]
    a_load: float | None = Field(description="in `unit`")
    b_load: float | None = Field(description="in `unit`")
    a_interval: Interval | None = Field(description="in `unit`")
    b_interval: Interval | None = Field(description="in `unit`")
    verdict: Literal["higher", "lower", "indistinguishable", "unknown"] = Field(
        description="of B's load; unknown where one has none"
    )


class RecommendationChange(Frozen):
    """The way that ships, what it may lose and where it ends, of both; null: none was made."""

    a: str | None
    b: str | None
    a_expected_regret: float | None = Field(description="share of mean E2E, over three loads")
    b_expected_regret: float | None = Field(description="share, likewise")
    a_off_from_batch_size: int | None = Field(description="requests of a replica; null: none")
    b_off_from_batch_size: int | None = Field(description="requests of a replica; null: none")
    a_off_above_rate_per_s: float | None
    b_off_above_rate_per_s: float | None
    only_in_a: tuple[str, ...] = Field(description="ways that only A compared")
    only_in_b: tuple[str, ...] = Field(description="ways that only B compared")


class DecisionChange(Frozen):
    """What to ship, in words."""

    a: str
    b: str
    a_reason: str
    b_reason: str


class PlanDiff(Frozen):
    """Only what differs between A and B; everything empty where nothing does."""

    schema_version: Literal[1] = 1
    a: str = Field(description="name of A's scenario")
    b: str
    has_results: bool = Field(description="false: two scenarios, of which nothing was planned")
    inputs: tuple[InputChange, ...]
    decision: DecisionChange | None = None
    recommendation: RecommendationChange | None = None
    break_even: BreakEvenChange | None = None
    capacity: tuple[CapacityChange, ...] = ()
    speedups: tuple[SpeedupChange, ...] = ()
    metrics: tuple[MetricChange, ...] = ()
    only_in_a: tuple[str, ...] = Field((), description="candidates")
    only_in_b: tuple[str, ...] = Field((), description="candidates")
    caveats_only_in_a: tuple[str, ...] = ()
    caveats_only_in_b: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether A and B are the same in all that is compared."""
        same = PlanDiff(a=self.a, b=self.b, has_results=self.has_results, inputs=())
        return self == same


def diff_plans(a: Plan, b: Plan) -> PlanDiff:
    """What differs between two plans, inputs first.

    A speed-up or a break-even load of B is higher or lower only where its 95 % interval lies apart
    from A's. That is a careful rule: it may miss a difference that runs paired by seed would show
    (`compare`), and it tells none that is not there more often than the intervals err.
    """
    one, other = _candidates(a), _candidates(b)
    both = [key for key in one if key in other]
    caveats_a, caveats_b = dict.fromkeys(a.caveats), dict.fromkeys(b.caveats)
    return PlanDiff(
        a=a.scenario.name,
        b=b.scenario.name,
        has_results=True,
        inputs=_changes(_inputs(a), _inputs(b)),
        decision=_decision(a, b),
        recommendation=_recommendation(a.recommendation, b.recommendation),
        break_even=_break_even(a.break_even, b.break_even),
        capacity=tuple(_capacity(a.capacity, b.capacity)),
        speedups=tuple(c for key in both if (c := _speedup(one[key], other[key])) is not None),
        metrics=tuple(c for key in both for c in _metrics(one[key], other[key])),
        only_in_a=tuple(_name(key) for key in one if key not in other),
        only_in_b=tuple(_name(key) for key in other if key not in one),
        caveats_only_in_a=tuple(text for text in caveats_a if text not in caveats_b),
        caveats_only_in_b=tuple(text for text in caveats_b if text not in caveats_a),
    )


def diff_scenarios(a: Scenario, b: Scenario) -> PlanDiff:
    """What differs between two scenarios of which nothing was planned."""
    return PlanDiff(
        a=a.name,
        b=b.name,
        has_results=False,
        inputs=_changes(dict(_scenario_leaves(a)), dict(_scenario_leaves(b))),
    )


def _candidates(plan: Plan) -> dict[Key, Candidate]:
    return {(each.proposer, each.num_speculative_tokens): each for each in plan.candidates}


def _name(key: Key) -> str:
    return "off" if key[0] is None else f"{key[0]}, γ = {key[1]}"


def _inputs(plan: Plan) -> dict[tuple[str, ...], Any]:
    found = {(name,): plan.origin.get(name) for name in ORIGIN}
    card = plan.profile.model_dump(mode="json", include=set(PROFILE))
    return found | dict(_leaves(card, ("profile",))) | dict(_scenario_leaves(plan.scenario))


def _scenario_leaves(scenario: Scenario) -> Iterator[tuple[tuple[str, ...], Any]]:
    return _leaves(scenario.model_dump(mode="json"), ("scenario",))


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value inside mappings by its path; a list is one value."""
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _leaves(each, (*path, str(key)))
    else:
        yield path, value


def _changes(
    a: Mapping[tuple[str, ...], Any], b: Mapping[tuple[str, ...], Any]
) -> tuple[InputChange, ...]:
    return tuple(
        InputChange(field=".".join(path), a=a.get(path), b=b.get(path))
        for path in dict.fromkeys([*a, *b])
        if a.get(path) != b.get(path)
    )


def _decision(a: Plan, b: Plan) -> DecisionChange | None:
    if a.decision == b.decision:
        return None
    return DecisionChange(
        a=_decision_words(a),
        b=_decision_words(b),
        a_reason=a.decision.reason,
        b_reason=b.decision.reason,
    )


def _recommendation(
    a: Recommendation | None, b: Recommendation | None
) -> RecommendationChange | None:
    if a == b:
        return None
    found: dict[str, Any] = {}
    for side, each in (("a", a), ("b", b)):
        fallback = None if each is None else each.fallback
        found |= {
            side: None if each is None else each.chosen,
            f"{side}_expected_regret": None if each is None else each.shipped.expected_regret,
            f"{side}_off_from_batch_size": None if fallback is None else fallback.batch_size,
            f"{side}_off_above_rate_per_s": None
            if fallback is None
            else fallback.off_above_rate_per_s,
        }
    ways = [[way.label for way in each.ways] if each is not None else [] for each in (a, b)]
    return RecommendationChange(
        **found,
        only_in_a=tuple(label for label in ways[0] if label not in ways[1]),
        only_in_b=tuple(label for label in ways[1] if label not in ways[0]),
    )


def _decision_words(plan: Plan) -> str:
    decision = plan.decision
    chosen = "off"
    if plan.shipped is not None:
        chosen = plan.shipped.label
    elif decision.choice == "speculate":
        chosen = _name((decision.proposer, decision.num_speculative_tokens))
    return f"{chosen} ({decision.verdict.replace('_', ' ')})"


def _break_even(a: BreakEvenReport, b: BreakEvenReport) -> BreakEvenChange | None:
    if a == b:
        return None
    return BreakEvenChange(
        a=a.way or _name((a.proposer, a.num_speculative_tokens)),
        b=b.way or _name((b.proposer, b.num_speculative_tokens)),
        a_rate_per_s=a.rate_per_s,
        b_rate_per_s=b.rate_per_s,
        a_interval=a.interval,
        b_interval=b.interval,
        verdict="unknown"
        if a.interval is None or b.interval is None
        else _separation(a.interval, b.interval),
        a_reason=a.reason,
        b_reason=b.reason,
        a_saturation_rate_per_s=a.saturation_rate_per_s,
        b_saturation_rate_per_s=b.saturation_rate_per_s,
    )


def _capacity(a: Capacity | None, b: Capacity | None) -> Iterator[CapacityChange]:
    for service in SERVICES:
        sides = [None if each is None else _load(getattr(each, service)) for each in (a, b)]
        for unit in UNITS:
            one, other = (side if side is not None and side[1] == unit else None for side in sides)
            if one == other:
                continue
            yield CapacityChange(
                service=service,
                a=None if one is None else one[0],
                b=None if other is None else other[0],
                unit=unit,
                a_load=None if one is None else one[2],
                b_load=None if other is None else other[2],
                a_interval=None if one is None else one[3],
                b_interval=None if other is None else other[3],
                verdict="unknown"
                if one is None or other is None
                else _separation(one[3], other[3]),
            )


def _load(found: ServiceCapacity) -> tuple[str, str, float, Interval]:
    """Label, unit, load and its interval."""
    if found.max_users is not None and found.users_interval is not None:
        low, high = found.users_interval
        return found.label, "users", float(found.max_users), (float(low), float(high))
    assert found.interval is not None  # without users
    return found.label, "requests/s", found.max_rate_per_s or 0.0, found.interval


def _separation(a: Interval, b: Interval) -> Literal["higher", "lower", "indistinguishable"]:
    if b[0] > a[1]:
        return "higher"
    return "lower" if b[1] < a[0] else "indistinguishable"


def _speedup(a: Candidate, b: Candidate) -> SpeedupChange | None:
    one, other = a.speedup, b.speedup
    if (one.value, one.interval) == (other.value, other.interval):
        return None
    return SpeedupChange(
        candidate=_name((a.proposer, a.num_speculative_tokens)),
        a=one.value,
        a_interval=one.interval,
        b=other.value,
        b_interval=other.interval,
        verdict=_separation(one.interval, other.interval),
    )


def _metrics(a: Candidate, b: Candidate) -> Iterator[MetricChange]:
    one, other = numbers_of(a.summary), numbers_of(b.summary)
    for headline in HEADLINES:
        before, after = one[headline.metric], other[headline.metric]
        if before != after:
            yield MetricChange(
                candidate=_name((a.proposer, a.num_speculative_tokens)),
                metric=headline.metric,
                name=headline.name,
                unit=headline.unit,
                a=before,
                b=after,
                relative=after / before - 1.0 if before and after is not None else None,
            )
