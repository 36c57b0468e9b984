"""What goes wrong on a page is one sentence there and everything in the log."""

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app.launch import ENTRY


def test_a_fault_of_a_page_shows_no_detail_and_logs_them_all(monkeypatch, caplog):
    def fail():
        raise ZeroDivisionError("a secret path")

    monkeypatch.setattr("simcore.truth.truth", fail)
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    at.switch_page("app_pages/truth.py").run()
    assert not at.exception
    assert [each.value for each in at.error] == [
        "Something went wrong in specplan; the server's log has the details."
    ]
    assert "a secret path" in caplog.text
    assert "Traceback" in caplog.text
    caplog.clear()
