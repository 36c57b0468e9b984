"""A scenario in the page's address."""

import base64
import string
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import link
from simcore.errors import ScenarioError
from simcore.scenario_files import bundled_scenarios, open_scenario


@pytest.mark.parametrize("name", list(bundled_scenarios()))
def test_a_link_brings_back_every_bundled_scenario(name):
    scenario = open_scenario(name)
    text = link.encode(scenario)
    assert link.decode(text) == scenario
    assert set(text) <= set(string.ascii_letters + string.digits + "-_")
    assert len(text) < 2000  # what mail and chat programs keep whole


@given(st.text(max_size=200))
def test_any_other_text_is_one_clear_error(text):
    with pytest.raises(ScenarioError, match="link"):
        link.decode(text)


def _packed(raw: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(raw)).decode().rstrip("=")


@pytest.mark.parametrize("raw", [b"[]", b"null", b"{}", b"[" * 100_000, b" " * 10_000_000])
def test_a_packed_text_that_is_no_scenario_is_one_clear_error(raw):
    with pytest.raises(ScenarioError, match="link"):
        link.decode(_packed(raw))


def test_a_link_cannot_name_files_of_the_server():
    scenario = open_scenario("h100_chat").with_(
        **{"workload.arrivals": {"kind": "recorded", "path": "/etc/passwd"}}
    )
    with pytest.raises(ScenarioError, match=r"workload\.arrivals\.path"):
        link.decode(link.encode(scenario))
