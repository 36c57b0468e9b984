"""Up to four services side by side under the same requests."""

from functools import lru_cache

import pandas as pd
import streamlit as st

from app import library, words
from app.errors import shown_errors
from app.figure import show_figure
from app.job import Advance, finished_job, start_job
from app.kept_section import read_kept, show_keep, show_kept_results
from app.link import refuse_files
from app.meaning import show_meanings
from app.session import own_profiles
from simcore.errors import ScenarioError
from simcore.planner.compare import compare, draft_lengths
from simcore.planner.comparison import Comparison
from simcore.profile.schema import Frozen
from simcore.profile.store import StoredProfile
from simcore.report.comparison_figures import comparison_figure
from simcore.report.comparison_text import (
    ROW_MEANINGS,
    comparison_rows,
    difference_sentences,
)
from simcore.scenario import Scenario, read_scenario

KEY = "compare.run"
MOST_READ = 256
MOST = 4  # more cannot be told apart in one picture
IN_FORCE = "as in the sidebar"
SAVED = "saved: "
DEFAULT_SEEDS = 5
LOADS = {"offered": "the same offered load", "admitted": "the same admitted rate"}


class Kept(Frozen):
    """A comparison, and the scenario that was in force."""

    asked: Scenario
    found: Comparison


def show_comparison(stored: StoredProfile, scenario: Scenario, gammas: tuple[int, ...]) -> None:
    """The form, the progress, and the last comparison."""
    with shown_errors():
        offered = _offered(scenario, gammas)
    with st.form("compare.form"):
        chosen = st.multiselect(
            f"What to compare (up to {MOST}; the first is the reference)",
            list(offered),
            default=[name for name in ("off", IN_FORCE) if name in offered],
            max_selections=MOST,
            key="compare.chosen",
            help=words.COMPARED,
        )
        left, middle, right = st.columns(3, vertical_alignment="bottom")
        at = left.radio(
            "At", list(LOADS), format_func=LOADS.__getitem__, key="compare.at", help=words.AT_LOAD
        )
        seeds = middle.number_input(
            "Seeds",
            min_value=2,
            max_value=200,
            value=DEFAULT_SEEDS,
            key="compare.seeds",
            help=words.REPLICATIONS,
        )
        if right.form_submit_button("Compare", type="primary", width="stretch"):
            asked = {name: offered[name] for name in chosen}
            profiles = own_profiles() | {stored.profile.name: stored}
            start_job(
                KEY, lambda advance: _compare(profiles, asked, at, int(seeds), advance), scenario
            )
    show_kept_results("comparison", KEY, _read)
    job = finished_job(KEY)
    if job is None:
        if KEY not in st.session_state:
            st.info("Choose what to compare and press Compare.")
        return
    if job.asked != scenario:
        st.warning("The inputs have changed since this comparison. Press Compare again.")
    _show(job.result)
    kept = Kept(asked=job.asked, found=job.result)
    show_keep("comparison", job.asked.name, kept.model_dump_json)


def _offered(scenario: Scenario, gammas: tuple[int, ...]) -> dict[str, Scenario]:
    """Off, the scenario in force, every other measured length, and what was saved."""
    own = draft_lengths(scenario, (), (0, *gammas))
    offered = {"off": own.pop("off"), IN_FORCE: scenario} | own
    for each in library.saved("scenario"):
        try:
            saved = _read_saved(each.content, each.name)
        except ScenarioError:
            continue  # opening it from the sidebar says why
        # What serves is taken over; who asks, and what is promised, stays as it is.
        offered[SAVED + each.name] = scenario.with_(
            profile=saved.profile,
            deployment=saved.deployment.model_dump(mode="json"),
            speculation=saved.speculation.model_dump(mode="json"),
        )
    return offered


@lru_cache(maxsize=MOST_READ)
def _read_saved(content: str, name: str) -> Scenario:
    """A saved scenario, read once for all runs of the page. Raises ScenarioError."""
    scenario = read_scenario(content, name)
    refuse_files(scenario, name)
    return scenario


def _compare(
    profiles: dict[str, StoredProfile],
    asked: dict[str, Scenario],
    at: str,
    num_seeds: int,
    advance: Advance,
) -> Comparison:
    """Raises ScenarioError."""
    if len(asked) < 2:  # noqa: PLR2004  a reference and another
        raise ScenarioError(f"{len(asked)} chosen; expected two to {MOST} services to compare")
    return compare(
        asked,
        at=at,  # type: ignore[arg-type]  # the radio offers no other
        num_seeds=num_seeds,
        profiles=profiles,
        progress=advance,
    )


def _read(content: str, name: str) -> tuple[Scenario, Comparison]:
    """Raises SpecplanError."""
    kept = read_kept(Kept, content, name)
    return kept.asked, kept.found


def _show(found: Comparison) -> None:
    show_figure(comparison_figure(found), key="compare.figure")
    st.caption(words.CHANGES)
    labels = [each.label for each in found.services]
    rows = comparison_rows(found.services)
    st.table(pd.DataFrame({name: values for name, *values in rows}, index=labels).T)
    show_meanings([name for name, *_ in rows], ROW_MEANINGS)
    for service in found.services[1:]:
        with st.expander(f"{service.label} against {labels[0]}, in sentences"):
            st.markdown("\n".join(f"- {line}" for line in difference_sentences(service)))
    for caveat in found.caveats:
        st.warning(caveat)
    st.caption(words.origin_line(found.services[-1].summary.origin))
