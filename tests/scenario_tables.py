"""The tables of docs/reference/scenarios.md, made from the scenarios and from runs of them."""

import sys
from functools import cache

from simcore import Scenario, Summary, make_plan, open_scenario, simulate, summarise
from simcore.planner.document import Plan
from simcore.report.units import percent, ratio, seconds
from simcore.report.view import edge_name
from simcore.scenario_files import bundled_scenarios
from simcore.workload.load import mean_rate_per_s

NAMES = sorted(bundled_scenarios())
# What cpu_chat, which leaves the choice to the plan, is run with.
UNNAMED = {"proposer": "ngram", "num_speculative_tokens": 7}

INPUTS = ("scenario", "profile", "load", "SLO")
RUNS = (
    *("scenario", "drafts", "mean E2E off → on", "TPOT p50 off → on", "within SLO off → on"),
    *("preemptions off → on", "stitched", "extrapolated steps"),
)
PLANS = ("scenario", "decision", "way to serve, speed-up of mean E2E (95 % interval)", "up to")


def drafting(scenario: Scenario) -> Scenario:
    """The scenario with its own drafts on."""
    if scenario.speculation.num_speculative_tokens > 0:
        return scenario
    return scenario.with_(speculation=UNNAMED)


def off(scenario: Scenario) -> Scenario:
    """The same without drafts; on the same proposer's recordings."""
    return scenario.with_(speculation={"proposer": drafting(scenario).speculation.proposer})


@cache
def summary_of(name: str, *, drafts: bool) -> Summary:
    """One run under the scenario's seed."""
    scenario = open_scenario(name)
    return summarise(simulate(drafting(scenario) if drafts else off(scenario)))


def input_row(name: str) -> tuple[str, ...]:
    """Profile, load and limits."""
    scenario = open_scenario(name)
    rate, slo = mean_rate_per_s(scenario.workload), scenario.slo
    count = f"{scenario.workload.num_requests:,} requests"
    load = f"{count} at once" if rate is None else f"{rate:.3g} requests/s, {count}"
    limits = (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s), ("E2E", slo.e2e_s))
    asked = ", ".join(f"{what} {seconds(limit)}" for what, limit in limits if limit is not None)
    return f"`{name}`", f"`{scenario.profile}`", load, asked


def run_row(name: str) -> tuple[str, ...]:
    """What `specplan simulate` gives, without drafts and with the scenario's own."""
    plain, drafted = summary_of(name, drafts=False), summary_of(name, drafts=True)
    speculation = drafting(open_scenario(name)).speculation
    policy = "" if speculation.policy.kind == "fixed" else ", batch-size table"
    tokens = drafted.tokens
    return (
        f"`{name}`",
        f"{speculation.proposer}, γ = {speculation.num_speculative_tokens}{policy}",
        f"{seconds(plain.e2e.mean_s)} → {seconds(drafted.e2e.mean_s)}",
        f"{seconds(plain.tpot.p50_s)} → {seconds(drafted.tpot.p50_s)}",
        f"{percent(plain.goodput_fraction)} → {percent(drafted.goodput_fraction)}",
        f"{plain.num_preemptions} → {drafted.num_preemptions}",
        percent(tokens.stitched_tokens / tokens.emitted_tokens),
        percent(drafted.extrapolated_step_fraction),
    )


def plan_row(name: str, plan: Plan | None = None) -> tuple[str, ...]:
    """What `specplan plan` decides."""
    plan = plan or make_plan(open_scenario(name))
    edge, (low, high) = plan.break_even, plan.speedup.interval
    end = "every load that it sustains" if plan.decision.choice == "speculate" else "–"
    if edge.rate_per_s is not None:
        end = f"{edge.rate_per_s:.3g} requests/s"
        if edge.interval is not None:
            end += f" ({edge.interval[0]:.3g} to {edge.interval[1]:.3g})"
    return (
        f"`{name}`",
        f"{plan.decision.choice}: {plan.decision.verdict.replace('_', ' ')}",
        f"{edge_name(plan)}: {ratio(plan.speedup.value)} ({low:.3f} to {high:.3f})",
        end,
    )


def line(cells: tuple[str, ...]) -> str:
    """One row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    return "\n".join([line(header), line(("---",) * len(header)), *map(line, rows)])


if __name__ == "__main__":
    for head, make in ((INPUTS, input_row), (RUNS, run_row), (PLANS, plan_row)):
        sys.stdout.write(table(head, [make(name) for name in NAMES]) + "\n\n")
