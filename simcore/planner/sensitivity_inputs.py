"""The inputs of a decision: where they stand, how far they may plausibly lie off, how to move them.

A range is the profile's own uncertainty where it states one, else a stated factor.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.trace import TraceSet, walk
from simcore.errors import ScenarioError
from simcore.metrics.estimate import CONFIDENCE
from simcore.planner.case import Case
from simcore.planner.moves import (
    at_load,
    can_simulate_outputs,
    can_simulate_prompts,
    offered_rate_per_s,
    with_burstiness,
    with_clients,
    with_kv_room,
    with_off_tax,
    with_outputs,
    with_prompts,
    with_propose_cost,
    with_seats,
    with_target_slope,
)
from simcore.planner.replication import cost_spread
from simcore.planner.shifted_acceptance import (
    conditional_rates,
    mean_rate,
    shift_to,
    shifted,
)
from simcore.planner.speedup import NUM_BOOTSTRAP

TWICE = 2.0
HALF_MORE = 1.5
UNKNOWN_SHIFT = 0.5  # logits: 0.60 becomes 0.48 or 0.71
TAX = 0.22  # the highest share published for a loaded proposer that drafts nothing
CV_RANGE, FAR_CV = (0.5, 4.0), (0.1, 10.0)
FAR = 10.0  # times: how far a flip is looked for
NORMAL_95 = 1.96

Pair = tuple[Case, Case]  # off, on


@dataclass(frozen=True)
class Input:
    """One number of the scenario or its profile."""

    name: str
    unit: str
    base: float
    low: float
    high: float
    range_reason: str
    moved: Callable[[float], Pair]
    searched: tuple[float, float]  # for a flip: wider than plausible
    is_simulated: bool = True

    def grid(self, count: int) -> NDArray[np.float64]:
        """Values searched for a flip, range and base among them; by factors where above 0."""
        spaced = np.geomspace if self.searched[0] > 0.0 else np.linspace
        values = [*spaced(*self.searched, count), self.low, self.base, self.high]
        return np.unique(np.array(values, dtype=np.float64))


def inputs_of(case: Case, gamma: int) -> tuple[tuple[Input, ...], dict[str, str]]:
    """Every input that the case has, and of the others why not."""
    off, on = case.at_gamma(0), case.at_gamma(gamma)
    found, left_out = [], {}
    makers: dict[str, Callable[[Case, Case, int], Input]] = {
        "load": _load,
        "burstiness": _burstiness,
        "acceptance": _acceptance,
        "output length": _outputs,
        "prompt length": _prompts,
        "propose cost": _propose,
        "target cost slope": _slope,
        "max_num_seqs": _seats,
        "KV room": _kv,
        "off tax": _tax,
    }
    for name, make in makers.items():
        try:
            found.append(make(off, on, gamma))
        except ScenarioError as error:
            left_out[name] = str(error)
    return tuple(found), left_out


def _load(off: Case, on: Case, gamma: int) -> Input:
    rate = offered_rate_per_s(off)
    if rate is not None:
        moved = _times("offered load", "requests/s", rate, TWICE, off, on, _at_share_of(rate))
        most = max(case.estimate().max_rate_per_s for case in (off, on))
        return replace(moved, searched=(rate / FAR, max(most, rate)))
    arrivals = off.scenario.workload.arrivals
    if arrivals.kind != "closed_loop":
        raise ScenarioError(f"{arrivals.kind!r} arrivals have no rate")
    return _times("clients", "clients", arrivals.num_clients, TWICE, off, on, with_clients)


def _at_share_of(rate: float) -> Callable[[Case, float], Case]:
    return lambda case, factor: at_load(case, rate * factor)


def _burstiness(off: Case, on: Case, gamma: int) -> Input:
    arrivals = off.scenario.workload.arrivals
    if arrivals.kind not in ("poisson", "gamma"):
        raise ScenarioError(f"{arrivals.kind!r} arrivals have no coefficient of variation to move")
    base = arrivals.cv if arrivals.kind == "gamma" else 1.0
    return Input(
        "burstiness",
        "cv of gaps",
        base,
        min(CV_RANGE[0], base),
        max(CV_RANGE[1], base),
        f"from steady to bursts (assumed: {CV_RANGE[0]} to {CV_RANGE[1]})",
        lambda cv: (with_burstiness(off, cv), with_burstiness(on, cv)),
        searched=(min(FAR_CV[0], base), max(FAR_CV[1], base)),
    )


def _acceptance(off: Case, on: Case, gamma: int) -> Input:
    rates = conditional_rates(on, gamma)
    base = mean_rate(rates)
    traces = on.basis.traces
    if traces is not None:
        low, high = _rate_interval(traces, gamma)
        reason = (
            f"{CONFIDENCE:.0%} interval by bootstrap over {traces.num_requests} recorded requests"
        )
    else:
        low, high = (mean_rate(rates, sign * UNKNOWN_SHIFT) for sign in (-1.0, 1.0))
        reason = f"the source states no uncertainty; assumed: {UNKNOWN_SHIFT} logits to either side"
    return Input(
        "acceptance",
        "accepted / tested",
        base,
        min(low, base),
        max(high, base),
        reason,
        lambda rate: (
            off,
            on if rate == base else shifted(on, gamma, shift_to(rates, rate)),
        ),
        searched=(min(0.02, low), max(0.98, high)),
    )


def _rate_interval(traces: TraceSet, gamma: int) -> tuple[float, float]:
    """Percentile interval of accepted / tested, resampling whole requests of each domain."""
    rng = np.random.default_rng(0)
    samples = []
    for name in traces.domain_names:
        cycles = walk(traces, gamma, requests=traces.requests_of(name))
        tested = np.minimum(cycles.accepted + 1, cycles.proposed)
        count = len(traces.requests_of(name))
        sums = np.array(
            [
                np.bincount(cycles.request, weights=values, minlength=count)
                for values in (cycles.accepted, tested)
            ]
        )
        weights = rng.multinomial(count, np.full(count, 1.0 / count), NUM_BOOTSTRAP)
        accepted, of = sums @ weights.T
        samples.append(accepted / np.maximum(of, 1.0))
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(np.mean(samples, axis=0), (tail, 100.0 - tail))
    return float(np.clip(low, 1e-3, 1 - 1e-3)), float(np.clip(high, 1e-3, 1 - 1e-3))


def _outputs(off: Case, on: Case, gamma: int) -> Input:
    mean = float(off.basis.requests.output_tokens.mean())
    can = can_simulate_outputs(off)
    return _times("mean output", "tokens", mean, TWICE, off, on, with_outputs, is_simulated=can)


def _prompts(off: Case, on: Case, gamma: int) -> Input:
    mean = float(off.basis.requests.prompt_tokens.mean())
    can = can_simulate_prompts(off)
    return _times("mean prompt", "tokens", mean, TWICE, off, on, with_prompts, is_simulated=can)


def _propose(off: Case, on: Case, gamma: int) -> Input:
    factor, reason = _cost_range(on, "propose")
    return Input(
        "propose cost",
        "× the fit",
        1.0,
        1.0 / factor,
        factor,
        reason,
        lambda value: (off, with_propose_cost(on, value)),
        searched=(1.0 / FAR, FAR),
    )


def _slope(off: Case, on: Case, gamma: int) -> Input:
    factor, reason = _cost_range(on, "target")
    return Input(
        "target cost slope",
        "× the fit",
        1.0,
        1.0 / factor,
        factor,
        reason,
        lambda value: (with_target_slope(off, value), with_target_slope(on, value)),
        searched=(1.0 / FAR, FAR),
    )


def _cost_range(case: Case, phase: str) -> tuple[float, str]:
    """A factor to either side: 95 % of the held-out error, else a stated one."""
    error = case.stored.profile.cost.held_out_error.get(phase)
    if error is None:
        return HALF_MORE, f"the source states no error of this fit; assumed: ×÷ {HALF_MORE}"
    spread = max(cost_spread(case.stored, phase), 1e-6)
    return (
        float(np.exp(NORMAL_95 * spread)),
        f"held-out error of the fit: median {error.median_rel:.1%}, 90th percentile "
        f"{error.p90_rel:.1%}",
    )


def _seats(off: Case, on: Case, gamma: int) -> Input:
    seats = off.scenario.deployment.max_num_seqs
    return _times("max_num_seqs", "requests", seats, TWICE, off, on, with_seats)


def _kv(off: Case, on: Case, gamma: int) -> Input:
    if off.stored.profile.identity.target.kv_bytes_per_token == 0:
        raise ScenarioError("the profile states no KV bytes a token, so memory limits nothing")
    return _times("KV room", "× as it is", 1.0, TWICE, off, on, with_kv_room)


def _tax(off: Case, on: Case, gamma: int) -> Input:
    return Input(
        "off tax",
        "of a plain step",
        0.0,
        0.0,
        TAX,
        f"0: off loads no proposer; to {TAX:.0%}, the highest published for one that stays loaded",
        lambda share: (with_off_tax(off, share), on),
        searched=(0.0, 1.0),
    )


def _times(
    name: str,
    unit: str,
    base: float,
    factor: float,
    off: Case,
    on: Case,
    move: Callable[[Case, float], Case],
    *,
    is_simulated: bool = True,
) -> Input:
    """An input that both services share, moved by a stated factor."""

    def moved(value: float) -> Pair:
        return (off, on) if value == base else (move(off, value / base), move(on, value / base))

    reason = f"assumed: ×÷ {factor:g}"
    return Input(
        name,
        unit,
        base,
        base / factor,
        base * factor,
        reason,
        moved,
        searched=(base / FAR, base * FAR),
        is_simulated=is_simulated,
    )
