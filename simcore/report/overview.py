"""What a notebook shows of a result: a heading, tables with units, and what a reader must know.

The words and cells are those of the reports and of the command line.
"""

from dataclasses import dataclass
from functools import singledispatch

from simcore.acceptance.statistics import CycleStatistics
from simcore.acceptance.survival import iid_mean_emitted_tokens
from simcore.metrics.replicated import ReplicatedSummary
from simcore.metrics.summary import Summary, summarise
from simcore.planner.capacity_document import Capacity, ReplicaPlan
from simcore.planner.comparison import Comparison
from simcore.planner.document import Plan
from simcore.planner.load_estimate import LoadEstimate
from simcore.planner.speedup import CycleSurvival
from simcore.planner.sweep_result import SweepResult
from simcore.planner.tree_choice import BestTree
from simcore.profile.store import StoredProfile
from simcore.report.acceptance_text import one_rate_sentence
from simcore.report.capacity_text import (
    capacity_basis,
    capacity_rows,
    capacity_sentences,
    fleet_rows,
    replicas_heading,
    replicas_sentences,
)
from simcore.report.comparison_text import (
    comparison_basis,
    comparison_rows,
    difference_sentences,
    service_line,
)
from simcore.report.load_text import HEADER, estimate_cells
from simcore.report.profile_view import scenario_rows
from simcore.report.replicated_text import (
    replicated_basis,
    replicated_header,
    replicated_notes,
    replicated_rows,
)
from simcore.report.slo_words import objective_words
from simcore.report.sweep_text import best_rows, sweep_basis, sweep_notes
from simcore.report.table import Table
from simcore.report.text import LATENCY_HEADER, account_lines, latency_rows, summary_basis
from simcore.report.tree_text import tree_origin
from simcore.report.units import NOTHING, count, mean_tokens, percent
from simcore.report.view import basis_sentence, verdict_sentence, view_of
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult

TREE_HEADER = (
    *("method", "candidates", "depth", "tokens a cycle", "95 % interval"),
    "chosen on half, replayed on the other",
)
SURVIVAL_HEADER = ("draft position", "survival s_k", "95 % interval")


@dataclass(frozen=True)
class Overview:
    """A result in the order of reading."""

    heading: str
    basis: tuple[str, ...]  # where the numbers come from
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()


@singledispatch
def overview(result: object) -> Overview:
    """The overview of a result. Raises TypeError for anything else."""
    raise TypeError(f"{type(result).__name__} has no overview; expected one of specplan's results")


@overview.register
def _scenario(scenario: Scenario) -> Overview:
    speculation = scenario.speculation
    drafts = "off"
    if speculation.num_speculative_tokens:
        drafts = (
            f"{speculation.proposer}, γ = {speculation.num_speculative_tokens}, policy "
            f"{speculation.policy.kind}"
        )
    rows = (*scenario_rows(scenario), ("speculation", drafts), ("profile", scenario.profile))
    table = Table("What is asked and what serves", ("field", "value"), rows, "")
    return Overview(f"Scenario {scenario.name}", (), (table,))


@overview.register
def _profile(stored: StoredProfile) -> Overview:
    profile = stored.profile
    identity, said = profile.identity, profile.provenance
    rows = tuple(
        (
            record.proposer,
            record.domain,
            record.contract.value,
            f"{record.sampling.temperature:g}",
            ", ".join(map(str, record.gammas())),
            f"{record.num_requests:,}" if record.num_requests else NOTHING,
        )
        for record in profile.acceptance
    )
    header = ("proposer", "domain", "contract", "temperature", "γ (draft tokens)", "requests")
    basis = (
        f"{profile.source.value}: {identity.target.name} on {identity.hardware.name}, "
        f"{identity.engine.name} {identity.engine.version}, {said.date}"
    )
    table = Table("Whose drafts were recorded, and under what", header, rows, "")
    return Overview(f"Profile {profile.name}: {profile.title}", (basis,), (table,), said.citations)


@overview.register
def _survival(survival: CycleSurvival) -> Overview:
    has_interval = survival.lower != survival.upper
    bounds = zip(survival.lower, survival.upper, strict=True)
    rows = tuple(
        (str(position), percent(share), f"{percent(low)} to {percent(high)}" * has_interval)
        for position, (share, (low, high)) in enumerate(
            zip(survival.survival, bounds, strict=True), start=1
        )
    )
    iid = iid_mean_emitted_tokens(survival.acceptance_rate, survival.gamma)
    basis = (
        f"{mean_tokens(survival.mean_emitted_tokens)} a cycle, the bonus included; one α = "
        f"{survival.acceptance_rate:.3f} would say {mean_tokens(iid)}",
        f"Over {count(survival.num_requests, 'requests')}"
        if survival.num_requests
        else "The source does not say over how many requests",
    )
    table = Table("Share of cycles that accept positions 1 to k", SURVIVAL_HEADER, rows, "")
    return Overview(f"Survival at γ = {survival.gamma}", basis, (table,))


@overview.register
def _tree(found: BestTree) -> Overview:
    rows = tuple(
        (
            each.method,
            str(each.num_nodes),
            str(each.depth),
            f"{each.mean_emitted_tokens.value:.3f}",
            "{:.3f} to {:.3f}".format(*each.mean_emitted_tokens.interval),
            NOTHING if each.held_out_tokens is None else f"{each.held_out_tokens:.3f}",
        )
        for each in found.candidates
    )
    table = Table("Three ways to choose candidates", TREE_HEADER, rows, "")
    if found.tree is None:
        heading = "No tree emits faster than plain decoding: stay off"
    else:
        heading = f"A tree of {found.tree.num_nodes} candidates, {found.tree.depth} deep"
    return Overview(heading, (tree_origin(found.origin),), (table,))


@overview.register
def _statistics(found: CycleStatistics) -> Overview:
    gamma = len(found.survival)
    bounds = zip(found.survival_low, found.survival_high, strict=True)
    rows = tuple(
        (str(position), percent(share), f"{percent(low)} to {percent(high)}")
        for position, (share, (low, high)) in enumerate(
            zip(found.survival, bounds, strict=True), start=1
        )
    )
    source = f"At {count(found.num_cycles, 'cycles')} starts; intervals resample whole requests."
    table = Table("Share of cycles that accept positions 1 to k", SURVIVAL_HEADER, rows, source)
    basis = (
        f"{mean_tokens(found.mean_emitted_tokens)} a cycle, the bonus included; slowest 5 % of "
        f"requests {mean_tokens(found.slowest)}"
    )
    heading = f"Acceptance at γ = {gamma}"
    return Overview(heading, (basis,), (table,), (one_rate_sentence(gamma, found),))


@overview.register
def _summary(summary: Summary) -> Overview:
    table = Table("What users feel", LATENCY_HEADER, tuple(latency_rows(summary)), "")
    basis = tuple(summary_basis(summary))
    return Overview("One simulated run", basis, (table,), tuple(account_lines(summary)))


@overview.register
def _run(result: SimulationResult) -> Overview:
    return overview(summarise(result))


@overview.register
def _replicated(found: ReplicatedSummary) -> Overview:
    rows = tuple(replicated_rows(found))
    table = Table("Every headline number", replicated_header(found), rows, "")
    heading = f"{count(len(found.seeds), 'simulated runs')} of one scenario"
    return Overview(heading, (replicated_basis(found),), (table,), tuple(replicated_notes(found)))


@overview.register
def _estimate(found: LoadEstimate) -> Overview:
    name = f"{found.proposer}, γ = {found.num_speculative_tokens}" if found.proposer else "off"
    rows = (estimate_cells(name, found),)
    source = (
        "Closed form, no simulation and no interval; docs/background/estimate.md has its measured "
        "error."
    )
    table = Table("Expected under load", HEADER, rows, source)
    return Overview("Estimate under load", (), (table,), found.caveats)


@overview.register
def _comparison(found: Comparison) -> Overview:
    first, *others = found.services
    header = ("", *(each.label for each in found.services))
    tables = [Table("Means over the seeds", header, tuple(comparison_rows(found.services)), "")]
    for each in others:
        rows = tuple((sentence,) for sentence in difference_sentences(each))
        tables.append(Table("What differs", (f"{each.label} against {first.label}",), rows, ""))
    basis = (comparison_basis(found), *(service_line(each) for each in found.services))
    heading = f"{count(len(found.services), 'services')} under the same requests"
    return Overview(heading, basis, tuple(tables), found.caveats)


@overview.register
def _capacity(found: Capacity) -> Overview:
    rows = tuple((name, *cells) for name, cells in capacity_rows(found))
    table = Table("Off and on", ("", found.off.label, found.on.label), rows, "")
    heading = f"Largest load within the SLO: {objective_words(found.slo)}"
    notes = (*capacity_sentences(found), *found.caveats)
    return Overview(heading, (capacity_basis(found),), (table,), notes)


@overview.register
def _replicas(found: ReplicaPlan) -> Overview:
    rows = tuple((name, *cells) for name, cells in fleet_rows(found))
    table = Table("Off and on", ("", found.off.label, found.on.label), rows, "")
    return Overview(replicas_heading(found), (), (table,), tuple(replicas_sentences(found)))


@overview.register
def _sweep(found: SweepResult) -> Overview:
    header, *rows = best_rows(found)
    source = f"The first {len(rows)} of {len(found.best)} loads." * (len(rows) < len(found.best))
    table = Table("The best of each load", header, tuple(rows), source)
    notes = tuple(sweep_notes(found))
    return Overview("A sweep", (sweep_basis(found),), (table,), notes)


@overview.register
def _plan(plan: Plan) -> Overview:
    sections = view_of(plan).sections
    tables = (*sections["candidates"], *sections["load"])
    basis = (basis_sentence(plan), f"Break-even: {plan.break_even.reason}.")
    return Overview(verdict_sentence(plan), basis, tables, plan.caveats)
