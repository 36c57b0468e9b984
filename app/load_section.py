"""Off, fixed and adaptive from light load to saturation: instant lines, simulated marks."""

import streamlit as st

from app import words
from app.cache import acceptance_key, once, once_large
from app.errors import as_text
from app.figure import show_figure
from app.job import finished_job, start_job
from simcore.errors import SpecplanError
from simcore.planner.break_even import at_rate
from simcore.planner.load_estimate import LoadBasis, load_basis
from simcore.planner.rate_curves import (
    RateCurves,
    SimulatedPoint,
    rate_curves,
    simulated_curves,
    ways_to_serve,
)
from simcore.profile.store import StoredProfile
from simcore.report.rate_figures import goodput_rate_figure, tpot_rate_figure
from simcore.report.table import escape_markdown
from simcore.scenario import Scenario
from simcore.workload.load import mean_rate_per_s

KEY = "decide.curves"
NUM_SEEDS = 3
EVERY = 4  # of the closed form's rates, one is simulated


def show_load(stored: StoredProfile, scenario: Scenario) -> None:
    """The two pictures; what has no closed form says why."""
    st.subheader("Up to which load?", divider="gray")
    try:
        curves = _curves(stored, scenario)
    except SpecplanError as error:
        st.info(as_text(f"No curve over the load here: {error}"))
        return
    asked = st.button("Simulate the curve", key="decide.simulate_curve", help=words.CURVE)
    if asked:
        ways = {each.label: each.scenario for each in curves.curves}
        rates = curves.rates_per_s[1::EVERY]
        start_job(
            KEY,
            lambda advance: simulated_curves(
                stored, ways, rates, num_seeds=NUM_SEEDS, progress=advance
            ),
            scenario,
        )
    job = finished_job(KEY)
    points: tuple[SimulatedPoint, ...] = ()
    if job is not None and job.asked == scenario:
        points = job.result
    _show(scenario, curves, points)


def _show(scenario: Scenario, curves: RateCurves, points: tuple[SimulatedPoint, ...]) -> None:
    now_per_s = mean_rate_per_s(scenario.workload)
    left, right = st.columns(2)
    with left:
        show_figure(tpot_rate_figure(curves, points, now_per_s), key="decide.tpot")
    with right:
        if any(each.metrics["goodput_fraction"].mean is not None for each in points):
            show_figure(goodput_rate_figure(curves, points), key="decide.goodput")
        elif not scenario.slo.limits():
            st.info("Set a limit under Deployment and objective to see who meets it.")
        else:
            st.info("Press Simulate the curve to see the share of requests within the objective.")
    st.caption(words.CLOSED_LINES)
    caveats = {text: None for each in curves.curves for text in each.points[0].caveats}
    if caveats:
        st.caption(escape_markdown(f"The lines leave something out here: {'; '.join(caveats)}."))


def _curves(stored: StoredProfile, scenario: Scenario) -> RateCurves:
    """Kept for one service and workload: they are the same whatever its load is."""
    if mean_rate_per_s(scenario.workload) is not None:
        scenario = at_rate(scenario, 1.0)

    def make() -> RateCurves:
        basis = _basis(stored, scenario)
        ways = ways_to_serve(stored, scenario, basis=basis)
        # The basis may be of the same profile, read again.
        return rate_curves(basis.stored, ways, basis)

    key = ("rate curves", stored.content_hash, scenario.model_dump_json())
    found: RateCurves = once(key, make)
    return found


def _basis(stored: StoredProfile, scenario: Scenario) -> LoadBasis:
    """Kept for one acceptance and workload, whatever the load is."""
    workload = scenario.workload.model_dump_json(exclude={"arrivals"})
    key = ("load basis", *acceptance_key(stored, scenario), workload, scenario.seed)
    found: LoadBasis = once_large(key, lambda: load_basis(stored, scenario))
    return found
