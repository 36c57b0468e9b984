"""The dashboard under test keeps what it saves in a folder of the test's own."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


@pytest.fixture(autouse=True)
def own_data(monkeypatch, tmp_path):
    """An empty data folder."""
    folder = tmp_path / "data"
    monkeypatch.setenv("SPECPLAN_DATA", str(folder))
    return folder


@pytest.fixture
def finish() -> "Callable[[AppTest, str], AppTest]":
    """Wait for the work under a key of the session, and draw the page with what it made."""

    def wait(at: "AppTest", key: str) -> "AppTest":
        at.session_state[key].wait()
        at.run()
        assert not at.exception, at.exception
        return at

    return wait
