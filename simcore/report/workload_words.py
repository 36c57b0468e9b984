"""A workload in words."""

import json
from typing import Any

from simcore.planner.document import Plan
from simcore.report.units import count, given_rate, rate
from simcore.scenario import LognormalTokens, Workload

Rows = list[tuple[str, ...]]


def load_words(plan: Plan) -> str:
    """The load in a few words, for a sentence."""
    arrivals, offered = plan.scenario.workload.arrivals, offered_rate_per_s(plan)
    if arrivals.kind == "batch":
        return "an offline batch"
    if offered is None:
        return _kind(arrivals)
    if arrivals.kind == "poisson":
        return given_rate(offered)
    return f"{rate(offered)} ({_kind(arrivals)} arrivals)"


def offered_rate_per_s(plan: Plan) -> float | None:
    """Mean request rate of the scenario; None where all requests arrive at one moment."""
    arrivals = plan.scenario.workload.arrivals
    if arrivals.kind == "poisson":
        return float(arrivals.rate_per_s)
    if arrivals.kind == "batch" or not plan.candidates:
        return None
    return plan.candidates[0].summary.offered_rate_per_s


def workload_rows(workload: Workload, num_requests: int | None = None) -> Rows:
    """Arrivals and lengths, as (field, value); `num_requests` where the workload states none."""
    number = workload.num_requests or num_requests
    total = "as many requests as recorded" if number is None else count(number, "requests")
    rows: Rows = [("arrivals", f"{_arrivals(workload.arrivals)}, {total}")]
    lengths = workload.lengths
    if lengths.kind == "lognormal":
        rows += [("prompt", _lognormal(lengths.prompt)), ("output", _lognormal(lengths.output))]
    else:
        recorded = lengths.kind == "recorded"
        rows.append(("lengths", "of recorded requests" if recorded else _with_fields(lengths)))
    return rows


def _arrivals(arrivals: Any) -> str:
    if arrivals.kind == "poisson":
        return f"Poisson, {given_rate(arrivals.rate_per_s)}"
    if arrivals.kind == "batch":
        return "all at time 0 (offline batch)"
    return _with_fields(arrivals)


def _kind(model: Any) -> str:
    return str(model.kind).replace("_", "-")


def _with_fields(model: Any) -> str:
    fields = model.model_dump(mode="json", exclude={"kind"}, exclude_none=True)
    said = ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in fields.items()
    )
    return f"{_kind(model)}: {said}" if said else _kind(model)


def _lognormal(tokens: LognormalTokens) -> str:
    return (
        f"lognormal, mean {tokens.mean_tokens:g} tokens, coefficient of variation {tokens.cv:g}, "
        f"at most {count(tokens.max_tokens, 'tokens')}"
    )
