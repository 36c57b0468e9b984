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


@pytest.fixture(autouse=True)
def no_fault(caplog):
    """A page hides its faults from visitors; a test must not."""
    yield
    faults = [each for each in caplog.get_records("call") if each.name == "app.errors"]
    assert not faults, faults[0].exc_text or faults[0].getMessage()


@pytest.fixture
def finish() -> "Callable[[AppTest, str], AppTest]":
    """Wait for the work under a key of the session, and draw the page with what it made."""

    def wait(at: "AppTest", key: str) -> "AppTest":
        at.session_state[key].wait()
        at.run()
        assert not at.exception, at.exception
        return at

    return wait
