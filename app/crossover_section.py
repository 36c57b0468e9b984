"""Where speculation pays over two inputs at once: four maps, in closed form or simulated."""

import streamlit as st

from app import words
from app.figure import show_figure
from app.job import finished_job, start_job
from simcore.planner.crossover import crossover_map
from simcore.planner.crossover_document import MAP_KINDS, CrossoverMap
from simcore.profile.store import StoredProfile
from simcore.report.map_figures import crossover_figure
from simcore.report.map_text import METRIC_WORDS, break_even_words, refusal_words
from simcore.scenario import Scenario

KEY = "speculate.crossover"
NUM_COLUMNS = {False: 20, True: 8}  # by whether every cell is simulated


def show_crossover(stored: StoredProfile, scenario: Scenario) -> None:
    """The form, the progress, and the last map."""
    st.subheader("Where it pays in service", divider="gray", help=words.CROSSOVER)
    with st.form(f"{KEY}.form"):
        first, second, third, fourth = st.columns([3, 2, 3, 2], vertical_alignment="bottom")
        kind = first.selectbox(
            "Map", MAP_KINDS, format_func=words.MAPS.get, key=f"{KEY}.kind", help=words.MAP
        )
        metric = second.selectbox(
            "Of", list(METRIC_WORDS), format_func=METRIC_WORDS.get, key=f"{KEY}.metric"
        )
        simulated = third.checkbox(
            "Simulate every cell", key=f"{KEY}.simulated", help=words.SIMULATED_MAP
        )
        if fourth.form_submit_button("Draw the map", type="primary", width="stretch"):
            start_job(
                KEY,
                lambda advance: crossover_map(
                    stored,
                    scenario,
                    kind,
                    metric=metric,
                    num_columns=NUM_COLUMNS[simulated],
                    simulated=simulated,
                    progress=advance,
                ),
                scenario,
                unit="columns",
            )
    job = finished_job(KEY)
    if job is None:
        if KEY not in st.session_state:
            st.info(
                "Choose two inputs and press Draw the map to see where a loaded service gains. "
                "The closed form takes about a second."
            )
        return
    if job.asked != scenario:
        st.warning("The inputs have changed since this map. Draw the map again.")
    _show(job.result)


def _show(found: CrossoverMap) -> None:
    show_figure(crossover_figure(found), key=f"{KEY}.figure")
    with st.expander("The break-even line in numbers, and how the map was made"):
        lines = [*break_even_words(found), *refusal_words(found), *found.notes]
        st.markdown("\n".join(f"- {line}" for line in lines))
    st.caption(words.origin_line(found.origin, found.is_simulated))
