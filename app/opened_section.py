"""What of an opened scenario is not as it was opened: nothing is replaced without a word."""

from collections.abc import Iterator
from typing import Any

import streamlit as st

from app.errors import as_text
from app.session import current_scenario, opened
from simcore.scenario import Scenario

COMPARED = "opened.compared"  # number of what was opened, and what was first shown of it


def show_replaced() -> None:
    """Fields that the profile's records do not answer, until an input is moved."""
    last, shown = opened(), current_scenario()
    if last is None or last.scenario.profile != shown.profile:
        return  # the sidebar says that the profile is missing
    number, first = st.session_state.get(COMPARED, (0, shown))
    if number != last.number:
        first = shown
        st.session_state[COMPARED] = (last.number, first)
    if shown == first and (fields := replaced_fields(last.scenario, shown)):
        lines = "".join(f"\n- {as_text(each)}" for each in fields)
        st.warning(
            "The profile's records do not answer all that the opened scenario asks for:" + lines
        )


def replaced_fields(asked: Scenario, shown: Scenario) -> list[str]:
    """In words, each with both values; what a scenario left open is not replaced."""
    before, after = (each.model_dump(mode="json") for each in (asked, shown))
    if not asked.workload.domains:
        before["workload"]["domains"] = after["workload"]["domains"]
    if asked.speculation.proposer is None:
        before["speculation"] = after["speculation"]
    return [f"{name}: {a} is asked for, {b} is shown" for name, a, b in _unlike("", before, after)]


def _unlike(name: str, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    """Dotted names of the innermost fields that differ, with both values."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key in a:
            yield from _unlike(f"{name}.{key}" if name else key, a[key], b[key])
    elif a != b:
        yield name, a, b
