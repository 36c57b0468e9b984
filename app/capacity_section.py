"""The largest load within the objective, off and on, and the replicas of a rate or a day."""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from app import words
from app.figure import show_figure
from app.job import Advance, finished_job, start_job
from app.kept_section import read_kept, show_keep, show_kept_results
from app.meaning import show_meanings
from simcore.errors import ScenarioError
from simcore.planner.capacity import DEFAULT_SEEDS, find_capacity
from simcore.planner.capacity_document import Capacity, LoadCurve, ReplicaPlan
from simcore.planner.economics import GivenFigures
from simcore.planner.fleet_curve import fleet_curves
from simcore.planner.load_curve import example_curve, parse_curve
from simcore.planner.replicas import check_demand, find_replicas
from simcore.profile.schema import Frozen
from simcore.profile.store import StoredProfile
from simcore.report.capacity_figures import capacity_figure, daily_figure
from simcore.report.capacity_text import (
    ROW_MEANINGS,
    capacity_rows,
    fleet_rows,
    ledger_sentence,
)
from simcore.report.fleet_figures import fleet_figure
from simcore.scenario import Scenario
from simcore.workload.load import mean_rate_per_s

KEY = "capacity.found"
DEMANDS = {
    "none": "only the largest load",
    "rate": "also replicas for a rate",
    "day": "also replicas through an example day",
    "own": "also replicas through a day of yours (CSV)",
}


@dataclass(frozen=True)
class Asked:
    """What the form says beside the scenario."""

    seeds: int
    demand: str
    rate_per_s: float
    given: GivenFigures
    day: tuple[str, bytes] | None  # name and content of a CSV


class Found(Frozen):
    """The capacity, and the fleets where they were asked for."""

    asked: Scenario
    capacity: Capacity
    fleets: ReplicaPlan | None


def show_capacity(stored: StoredProfile, scenario: Scenario) -> None:
    """The form, the progress, and the last search."""
    asked = _form(scenario)
    if asked is not None:
        start_job(KEY, lambda advance: _find(stored, scenario, asked, advance), scenario)
    show_kept_results("capacity", KEY, _read)
    job = finished_job(KEY)
    if job is None:
        if KEY not in st.session_state:
            st.info(
                "Set the objective in the sidebar (Deployment and objective) and press Find the "
                "capacity."
            )
        return
    if job.asked != scenario:
        st.warning("The inputs have changed since this search. Find the capacity again.")
    _show(job.result)
    show_keep("capacity", job.result.asked.name, job.result.model_dump_json)


def _form(scenario: Scenario) -> Asked | None:
    """What was asked, at the moment when the button is pressed."""
    with st.form("capacity.form"):
        first, second, third = st.columns(3)
        seeds = first.number_input(
            "Seeds at every load",
            min_value=2,
            max_value=200,
            value=DEFAULT_SEEDS,
            key="capacity.seeds",
            help=words.REPLICATIONS,
        )
        price = second.number_input(
            "Device price (USD an hour; 0: profile's)",
            min_value=0.0,
            value=0.0,
            step=0.5,
            key="capacity.price",
            help=words.PRICE,
        )
        power = third.number_input(
            "Device power (W; 0: profile's)",
            min_value=0.0,
            value=0.0,
            step=50.0,
            key="capacity.power",
            help=words.POWER,
        )
        first, second, third = st.columns(3, vertical_alignment="bottom")
        demand = first.selectbox(
            "Replicas",
            list(DEMANDS),
            format_func=DEMANDS.__getitem__,
            key="capacity.demand",
            help=words.DEMAND,
        )
        rate_per_s = second.number_input(
            "Rate, or peak of the day (requests/s)",
            min_value=0.01,
            value=mean_rate_per_s(scenario.workload) or 1.0,
            key=f"capacity.{scenario.name}.rate",
            help=words.LOAD,
        )
        day = st.file_uploader(
            "A day of yours: hour (0 to 23) or timestamp, and rate_per_s",
            type="csv",
            key="capacity.day_file",
            help=words.DAY,
        )
        if not third.form_submit_button("Find the capacity", type="primary", width="stretch"):
            return None
    given = GivenFigures(price_usd_per_hour=price or None, power_w=power or None)
    own = None if day is None else (day.name, day.getvalue())
    return Asked(int(seeds), demand, rate_per_s, given, own)


def _find(stored: StoredProfile, scenario: Scenario, asked: Asked, advance: Advance) -> Found:
    """Raises ScenarioError, before any search where nothing can be found."""
    demand = _demand(asked)
    if demand is not None:
        check_demand(scenario, demand)
    capacity = find_capacity(
        scenario, stored=stored, num_seeds=asked.seeds, given=asked.given, progress=advance
    )
    if demand is None:
        return Found(asked=scenario, capacity=capacity, fleets=None)
    fleets = find_replicas(
        scenario,
        demand,
        stored=stored,
        num_seeds=asked.seeds,
        given=asked.given,
        one=capacity if scenario.deployment.replicas == 1 else None,
        progress=advance,
    )
    return Found(asked=scenario, capacity=capacity, fleets=fleets)


def _demand(asked: Asked) -> float | LoadCurve | None:
    """What replicas are wanted for; None: nothing. Raises ScenarioError."""
    if asked.demand == "own":
        if asked.day is None:
            raise ScenarioError("no day was uploaded; choose a CSV, or another kind of replicas")
        name, content = asked.day
        return parse_curve(content.decode("utf-8-sig", errors="replace"), name)
    if asked.demand == "day":
        return example_curve(asked.rate_per_s)
    return asked.rate_per_s if asked.demand == "rate" else None


def _read(content: str, name: str) -> tuple[Scenario, Found]:
    """Raises SpecplanError."""
    found = read_kept(Found, content, name)
    return found.asked, found


def _show(found: Found) -> None:
    capacity = found.capacity
    sentence = capacity.gain.sentence
    st.subheader(f"{sentence[0].upper()}{sentence[1:]}.")
    show_figure(capacity_figure(capacity), key="capacity.curve")
    _table(capacity_rows(capacity), (capacity.off.label, capacity.on.label))
    if curves := fleet_curves(capacity):
        show_figure(fleet_figure(curves), key="capacity.fleet")
        st.caption(words.BY_DIVISION)
    st.markdown(f"**What speculation takes.** {ledger_sentence(capacity)}")
    if found.fleets is not None:
        st.subheader("Replicas", divider="gray")
        if found.fleets.curve is not None:
            show_figure(daily_figure(found.fleets), key="capacity.day")
        _table(fleet_rows(found.fleets), (found.fleets.off.label, found.fleets.on.label))
    for caveat in capacity.caveats:
        st.warning(caveat)
    st.caption(words.origin_line(capacity.origin))


def _table(rows: list[tuple[str, list[str]]], labels: tuple[str, str]) -> None:
    """Both services side by side; where they are the same, once."""
    columns = dict(zip(labels, zip(*(cells for _, cells in rows), strict=True), strict=False))
    names = [name for name, _ in rows]
    st.table(pd.DataFrame(columns, index=names))
    show_meanings(names, ROW_MEANINGS)
