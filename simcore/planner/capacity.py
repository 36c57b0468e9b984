"""find_capacity: the largest load that meets the SLO, without and with speculation side by side."""

import math
from typing import Literal

from simcore.errors import ScenarioError
from simcore.matching import fitting_proposers, usable_gammas
from simcore.metrics.estimate import Estimate, estimate
from simcore.metrics.headlines import HEADLINES
from simcore.metrics.replicated import ReplicatedSummary, seeds_of
from simcore.planner.capacity_document import (
    Capacity,
    Gain,
    ServiceCapacity,
    TestedLoad,
)
from simcore.planner.economics import GivenFigures, economics, with_given
from simcore.planner.estimate import estimate as closed_form
from simcore.planner.ledger import reserved_tokens, speculation_ledger
from simcore.planner.limit_search import MAX_LOOKS, Judgement, LimitSearch
from simcore.planner.load_bench import (
    KEEPS_UP,
    MOST_USERS_PER_SEAT,
    LoadBench,
    check_searchable,
)
from simcore.planner.replication import Progress, at_fixed_length, run_counter
from simcore.planner.saturation import SESSION_LIVES, session_life_s
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import EVERY_LIMIT, Scenario
from simcore.serving.simulation import origin

DEFAULT_SEEDS = 5
USUAL_RUNS = 2 * 90  # of both services, for the progress bar
MISSES_BEHIND_A_SHARE = 200  # counted requests that may miss in a run at the limit
RELAXATIONS = 40  # see num_requests_of
MAX_REQUESTS = 20_000
MAX_GAMMA = 8
AT_CAPACITY = (*(each.metric for each in HEADLINES), "mean_context_tokens")
WHAT_IS_MISSED = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "itl_s": "the longest gap (ITL)",
    "e2e_s": "E2E",
    EVERY_LIMIT: "the share of requests within every limit",
}


def find_capacity(
    scenario: Scenario,
    *,
    stored: StoredProfile | None = None,
    num_seeds: int = DEFAULT_SEEDS,
    proposer: str | None = None,
    num_speculative_tokens: int | None = None,
    given: GivenFigures | None = None,
    progress: Progress | None = None,
) -> Capacity:
    """The largest rate (or number of users of a closed loop) that meets the scenario's SLO.

    "On" is the scenario's own speculation, or `num_speculative_tokens` drafts of `proposer`; where
    neither says anything, the draft length with the best closed-form speed-up at the batch and
    context at which off runs at its capacity. Both services meet the same requests under the same
    seeds. Raises ScenarioError for a batch, an SLO without limits, or a profile that does not fit.
    """
    check_searchable(scenario, num_seeds)
    given = given or GivenFigures()
    stored = with_given(stored or load_profile(scenario.profile), given)
    count = run_counter(progress, USUAL_RUNS)

    def bench(service: Scenario) -> LoadBench:
        return LoadBench(service, stored, num_seeds, count)

    plain = at_fixed_length(scenario, scenario.seed, proposer or scenario.speculation.proposer, 0)
    plain = plain.with_(**{"workload.num_requests": num_requests_of(bench(plain))})
    stated = _stated(plain, scenario, stored, proposer, num_speculative_tokens)
    off = _capacity_of(bench(plain), "off", stored, given)
    speculating = (
        stated if isinstance(stated, Scenario) else _best_by_closed_form(stated, plain, stored, off)
    )
    same = speculating.speculation.num_speculative_tokens == 0
    on = off if same else _capacity_of(bench(speculating), _label(speculating), stored, given)
    if progress is not None:
        progress(USUAL_RUNS, USUAL_RUNS)
    return Capacity(
        origin=origin(scenario, stored),
        slo=scenario.slo,
        required_shares=scenario.slo.required_shares(),
        num_requests=plain.workload.num_requests or 0,
        seeds=tuple(seeds_of(scenario, num_seeds)),
        off=off,
        on=on,
        gain=gain(off, on),
        ledger=speculation_ledger(stored, plain, speculating, on.at_capacity),
        caveats=_caveats(stored, scenario, off, on),
    )


def num_requests_of(bench: LoadBench) -> int | None:
    """Requests of every run, the same at every load.

    At least the workload's own; enough that MISSES_BEHIND_A_SHARE counted requests may miss the
    tightest share; and enough for the queue to forget how it began: a queue that drains at a rate S
    and keeps a limit L on its wait at the usual percentiles forgets within about 0.44 (S L)²
    requests (relaxation time of M/M/1 at 1 - ρ = 3 / (S L)), of which a run holds some 90. Sessions
    take SESSION_LIVES of their own thinking besides. At most MAX_REQUESTS, but never fewer than the
    workload's own. A recorded file gives what it holds.
    """
    workload, slo = bench.scenario.workload, bench.scenario.slo
    if workload.recording is not None:
        return workload.num_requests
    own = workload.num_requests or 0
    counted = 1.0 - bench.scenario.warmup_fraction
    wanted = MISSES_BEHIND_A_SHARE / (1.0 - max(slo.required_shares().values())) / counted
    if (life_s := session_life_s(workload)) > 0.0:
        wanted = max(wanted, SESSION_LIVES * bench.saturation_rate_per_s() * life_s)
    waits_s = [limit for limit in (slo.ttft_s, slo.e2e_s) if limit is not None]
    if waits_s and not bench.is_closed_loop:
        drained = bench.saturation_rate_per_s() * min(waits_s)
        wanted = max(wanted, RELAXATIONS * drained**2)
    return max(own, math.ceil(min(wanted, MAX_REQUESTS)))


def gain(off: ServiceCapacity, on: ServiceCapacity) -> Gain:
    """On against off; from the ends of both intervals, so that it is on the safe side."""
    a, b = _bounds(off), _bounds(on)
    if off == on:
        return Gain(ratio=1.0, interval=(1.0, 1.0), verdict="same", sentence="on is off: γ = 0")
    if _most(off) <= 0.0 or a[0] <= 0.0:
        verdict: Literal["more", "unknown"] = "more" if _most(on) > 0.0 else "unknown"
        sentence = "off meets the SLO at no load"
        sentence += "; with speculation it is met" if verdict == "more" else ", and neither does on"
        return Gain(ratio=None, interval=None, verdict=verdict, sentence=sentence)
    ratio, low, high = _most(on) / _most(off), b[0] / a[1], b[1] / a[0]
    found: Literal["more", "less", "indistinguishable"] = "indistinguishable"
    if low > 1.0:
        found = "more"
    elif high < 1.0:
        found = "less"
    spread = f"{ratio:.3f} times the load ({low:.3f} to {high:.3f})"
    start = "indistinguishable: " if found == "indistinguishable" else ""
    sentence = f"{start}with {on.label} the service bears {spread}"
    return Gain(ratio=ratio, interval=(low, high), verdict=found, sentence=sentence)


def _most(found: ServiceCapacity) -> float:
    return float(found.max_users if found.max_users is not None else found.max_rate_per_s or 0.0)


def _bounds(found: ServiceCapacity) -> tuple[float, float]:
    bounds = found.users_interval or found.interval
    assert bounds is not None
    return float(bounds[0]), float(bounds[1])


def _label(scenario: Scenario) -> str:
    speculation = scenario.speculation
    return f"{speculation.proposer} {speculation.served.replace(' = ', '=')}"


def _capacity_of(
    bench: LoadBench, label: str, stored: StoredProfile, given: GivenFigures
) -> ServiceCapacity:
    found = bench.search()
    best = found.best if found.met is not None else 0.0
    if bench.is_closed_loop:
        best = float(math.floor(best))
    metrics: dict[str, Estimate] = {}
    if best > 0.0:
        metrics = _kept(bench.summary(best, MAX_LOOKS * bench.num_seeds))
    speculation = bench.scenario.speculation
    interval = _interval(found)
    users = (round(interval[0]), round(interval[1])) if bench.is_closed_loop else None
    asked = metrics["request_rate_per_s"].mean if metrics else 0.0
    return ServiceCapacity(
        label=label,
        proposer=speculation.proposer if speculation.num_speculative_tokens else None,
        num_speculative_tokens=speculation.num_speculative_tokens,
        policy=speculation.policy.kind,
        max_rate_per_s=asked if bench.is_closed_loop else best,
        interval=None if bench.is_closed_loop else interval,
        max_users=round(best) if bench.is_closed_loop else None,
        users_interval=users,
        by_seed=found.by_seed(bench.num_seeds) if found.met is not None else (),
        bound_by=_bound_by(bench, found),
        reason=_reason(bench, found),
        saturation_rate_per_s=None if bench.is_closed_loop else estimate(bench.saturations_per_s()),
        tested=tuple(_tested(bench, each) for each in found.tried),
        at_capacity=metrics,
        economics=economics(stored, bench.scenario, given, metrics) if metrics else None,
        scenario=bench.at(best) if best > 0.0 else bench.scenario,
    )


def _kept(summary: ReplicatedSummary) -> dict[str, Estimate]:
    return {name: summary.metrics[name] for name in AT_CAPACITY}


def _interval(found: LimitSearch) -> tuple[float, float]:
    """Highest load surely met, lowest surely missed; open ends stay where the search ended."""
    low = found.met.load if found.met is not None else 0.0
    missed = [each.load for each in found.tried if each.verdict == "missed"]
    high = found.missed.load if found.missed is not None else found.tried[-1].load
    return low, min(missed) if found.met is None and missed else high


def _bound_by(bench: LoadBench, found: LimitSearch) -> str | None:
    first = found.missed or (found.tried[0] if found.met is None else None)
    return None if first is None else list(bench.requirements())[first.worst]


def _reason(bench: LoadBench, found: LimitSearch) -> str:
    bound = _bound_by(bench, found)
    unit = "users" if bench.is_closed_loop else "requests/s"
    if found.met is None:
        first = found.tried[0]
        share = bench.requirements()[bound or EVERY_LIMIT]
        return (
            f"no load is surely within the SLO: at {first.load:.3g} {unit}, an almost idle "
            f"service, {WHAT_IS_MISSED.get(bound or '', 'a limit')} holds for "
            f"{first.mean_margin + share:.1%} of the requests, {share:.1%} are asked for"
        )
    if found.missed is None:
        at = f"{found.tried[-1].load:.4g} {unit}"
        least = f", {MOST_USERS_PER_SEAT} a seat" if bench.is_closed_loop else ""
        return f"no limit was found up to {at}{least}: nothing in the SLO bounds the queue"
    if bound == KEEPS_UP:
        return "beyond, the service falls behind whatever the SLO: it finishes fewer than come"
    return f"beyond, {WHAT_IS_MISSED[bound or EVERY_LIMIT]} falls short"


def _tested(bench: LoadBench, tried: Judgement) -> TestedLoad:
    required = bench.requirements()
    return TestedLoad(
        load=tried.load,
        verdict=tried.verdict,
        required=required,
        attained={
            name: estimate((tried.margins[:, column] + share).tolist())
            for column, (name, share) in enumerate(required.items())
        },
    )


Candidates = dict[str, tuple[int, ...]]  # proposer -> draft lengths


def _stated(
    plain: Scenario,
    asked: Scenario,
    stored: StoredProfile,
    proposer: str | None,
    gamma: int | None,
) -> Scenario | Candidates:
    """The service that speculates, as far as it is stated: else what the closed form chooses of.

    Raises what its simulation would, before anything is searched.
    """
    own = asked.speculation
    found = plain
    if proposer is None and gamma is None and own.num_speculative_tokens > 0:
        found = plain.with_(speculation=own.model_dump(mode="json"))
    elif gamma != 0:
        candidates = _candidates(plain, stored, proposer or own.proposer, gamma)
        if sum(map(len, candidates.values())) > 1:
            return candidates
        ((name, (length,)),) = candidates.items()
        found = at_fixed_length(plain, plain.seed, name, length)
    reserved_tokens(found, stored)  # sets the service up
    return found


def _candidates(
    plain: Scenario, stored: StoredProfile, proposer: str | None, gamma: int | None
) -> Candidates:
    names = (proposer,) if proposer is not None else fitting_proposers(stored, plain)
    known = {name: usable_gammas(stored, plain, name) for name in names}
    found = {}
    for name, lengths in known.items():
        wanted = [
            each for each in lengths if each == gamma or (gamma is None and each <= MAX_GAMMA)
        ]
        if wanted:
            found[name] = tuple(wanted)
    if not found:
        measured = "; ".join(f"{name}: {list(lengths)}" for name, lengths in known.items())
        raise ScenarioError(
            f"no proposer was measured at γ = {gamma or f'1 to {MAX_GAMMA}'}; measured are "
            f"{measured}: choose one of these"
        )
    return found


def _best_by_closed_form(
    candidates: Candidates, plain: Scenario, stored: StoredProfile, off: ServiceCapacity
) -> Scenario:
    """The best speed-up of a cycle at off's mean batch and context."""
    batch = max(1, round(_mean(off, "mean_batch_size")))
    context = max(1, round(_mean(off, "mean_context_tokens")))
    speedups: dict[tuple[str, int], float] = {}
    for name, lengths in candidates.items():
        found = closed_form(stored, plain, name, batch_sizes=(batch,), context_tokens=context)
        points = (each for each in found.points[batch] if each.gamma in lengths)
        speedups |= {(name, each.gamma): each.speedup for each in points}
    best = max(speedups, key=lambda key: speedups[key])
    return at_fixed_length(plain, plain.seed, *best)


def _mean(off: ServiceCapacity, metric: str) -> float:
    found = off.at_capacity.get(metric)
    return 1.0 if found is None or found.mean is None else found.mean


def _caveats(
    stored: StoredProfile, scenario: Scenario, off: ServiceCapacity, on: ServiceCapacity
) -> tuple[str, ...]:
    """What a reader must know first; each only where it applies."""
    found = []
    if stored.profile.source.value != "measured":
        found.append(
            f"The profile's numbers are {stored.profile.source.value}, not measured on your "
            "machine."
        )
    if scenario.speculation.num_speculative_tokens == 0 and on is not off:
        found.append(
            f"The scenario does not speculate; {on.label} has the best closed-form speed-up at the "
            "batch of off's capacity, or was asked for."
        )
    for each in dict.fromkeys((off.label, on.label)):
        service = off if each == off.label else on
        share = service.at_capacity.get("extrapolated_step_fraction")
        if share is not None and share.mean:
            found.append(
                f"{share.mean:.1%} of the steps of {each} at its capacity lie outside the measured "
                "cost domain; their time is extrapolated."
            )
    if scenario.workload.recording is not None:
        found.append("Every run replays the recorded file: only luck differs between seeds.")
    found.append(
        "The intervals hold what differs between seeds, not the profile's own errors; a plan's do."
    )
    return tuple(found)
