"""Where drafting ends, by batch and by load, and what keeps a service from flapping there."""

from simcore.errors import InfeasibleError, ScenarioError
from simcore.planner.batch_table import TokenTimes, off_from
from simcore.planner.break_even import BreakEven, at_rate
from simcore.planner.load_estimate import LoadBasis, estimate_load
from simcore.planner.recommendation import Fallback
from simcore.planner.ways import WayToServe
from simcore.scenario import Scenario
from simcore.speculation import AcceptanceGate, AdaptiveEMA, GoodputPolicy, MemoryPressure, Policy

NUM_HALVINGS = 30


def fallback_of(
    way: WayToServe, times: TokenTimes, edge: BreakEven, scenario: Scenario, basis: LoadBasis
) -> Fallback | None:
    """Of the way that is shipped; None for off. `times`, `edge` are of the plan's best length."""
    if way.kind == "off":
        return None
    zero = next((row.first for row in way.rows if row.num_speculative_tokens == 0), None)
    if zero is not None:
        rate = _rate_at_batch(way, zero, scenario, basis)
        return Fallback(
            batch_size=zero,
            batch_reason=f"the table drafts nothing from {zero} running requests on",
            is_automatic=True,
            off_above_rate_per_s=rate,
            on_below_rate_per_s=rate,
            rate_reason="the load at which the mean batch is that large, by the closed form"
            if rate is not None
            else "no load that the service sustains makes its mean batch that large",
        )
    batch, reason = _off_batch(way, times)
    off_above, on_below, rate_reason = _rates(edge)
    return Fallback(
        batch_size=batch,
        batch_reason=reason,
        is_automatic=False,
        off_above_rate_per_s=off_above,
        on_below_rate_per_s=on_below,
        rate_reason=rate_reason,
    )


def hysteresis_of(way: WayToServe, edge: BreakEven) -> str:
    """What keeps the shipped way from going back and forth."""
    if way.kind == "off":
        return "none: nothing is drafted"
    if way.rows:
        return _table_hysteresis(max(row.gain for row in way.rows[1:]))
    if way.speculation.policy.kind != "fixed":
        return _policy_hysteresis(way.speculation.policy)
    if edge.interval is None:
        return "one draft length at every load; nothing switches"
    return (
        f"one draft length; the operator's switch: off above {edge.interval[1]:.3g} requests a "
        f"second, on again below {edge.interval[0]:.3g}, the ends of the break-even's interval"
    )


def _table_hysteresis(largest_gain: float) -> str:
    return (
        "none in the engine, which reads the table at the batch of the step before: at a threshold "
        "both lengths are equally fast, so a batch that moves across it loses next to nothing; at "
        f"the far end of a row the shorter length gains up to {100 * (largest_gain - 1):.1f} %"
    )


def _policy_hysteresis(policy: Policy) -> str:
    match policy:
        case AdaptiveEMA():
            return (
                f"steps up above candidate − 0.5 + {policy.up_hysteresis:g} accepted tokens, down "
                f"below candidate − 0.5 + ({policy.down_hysteresis:g}), every "
                f"{policy.update_interval} steps after {policy.warmup_steps}"
            )
        case AcceptanceGate():
            return "the gate closes for good; a restart opens it"
        case GoodputPolicy():
            return f"changes only for a gain beyond {100 * policy.hysteresis:g} %"
        case MemoryPressure():
            return f"a rung is left once {100 * policy.hysteresis:g} % more of the blocks are free"
    return "the policy's own"


def _off_batch(way: WayToServe, times: TokenTimes) -> tuple[int | None, str]:
    """By the closed form, of the way's longest chain."""
    length = way.speculation.num_speculative_tokens
    seats = int(times.batch_sizes[-1])
    if way.kind == "tree" or length not in times.lengths:
        return None, "the closed form here knows chains of one proposer only"
    found = off_from(times, length)
    if found is None:
        return None, f"it decodes faster than off at every batch up to {seats}, by the cost law"
    return found, f"from {found} running requests on off decodes as fast, by the cost law"


def _rates(edge: BreakEven) -> tuple[float | None, float | None, str]:
    if edge.rate_per_s is None:
        return None, None, edge.reason
    low, high = edge.interval or (edge.rate_per_s, edge.rate_per_s)
    return high, low, edge.reason


def _rate_at_batch(
    way: WayToServe, batch: int, scenario: Scenario, basis: LoadBasis
) -> float | None:
    """The load whose mean batch of one replica is `batch`; None where no stable load has it."""
    asked = scenario.with_(speculation=way.speculation.model_dump(mode="json"))

    def batch_at(rate_per_s: float) -> float:
        return estimate_load(basis.stored, at_rate(asked, rate_per_s), basis).batch_size

    try:
        high = 0.99 * estimate_load(basis.stored, asked, basis).max_rate_per_s
        if batch_at(high) < batch:
            return None
        low = high / 1e4
        for _ in range(NUM_HALVINGS):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if batch_at(middle) < batch else (low, middle)
    except (ScenarioError, InfeasibleError):
        return None
    return high
