"""What goes wrong on a page is one sentence there and everything in the log."""

import base64
import json
import zlib

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import library, link
from app.launch import ENTRY
from simcore.errors import SpecplanError
from simcore.scenario import dump_scenario
from simcore.scenario_files import open_scenario


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


PICTURE = "![x](https://elsewhere.invalid/x.png)"


@pytest.mark.parametrize("field", ["profile", "contract"])
def test_what_a_link_says_is_quoted_as_text_and_fetches_nothing(field):
    scenario = open_scenario("h100_chat").model_dump(mode="json") | {field: PICTURE}
    packed = zlib.compress(json.dumps(scenario).encode())
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = base64.urlsafe_b64encode(packed).decode()
    at.run()
    shown = "\n".join(each.value for each in (*at.error, *at.warning))
    assert "elsewhere.invalid" in shown
    assert PICTURE not in shown


def test_a_library_that_cannot_be_used_is_one_sentence_in_a_callback_too(monkeypatch):
    library.save("scenario", "night", dump_scenario(open_scenario("h100_chat")))
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()

    def fail(*_each):
        raise SpecplanError("cannot use the file; got [a disk] that is full")

    monkeypatch.setattr("app.library.delete", fail)
    at.button(key="library.delete").click().run()
    assert not at.exception
    assert [each.value for each in at.error] == [
        r"cannot use the file; got \[a disk\] that is full"
    ]


def test_what_another_visitor_has_deleted_meanwhile_is_one_sentence():
    library.save("scenario", "night", dump_scenario(open_scenario("h100_chat")))
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    library.delete("scenario", "night")
    at.button(key="library.open").click().run()
    assert not at.exception
    assert "night is no longer there" in at.error[0].value
