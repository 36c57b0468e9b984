"""A scenario in the page's address."""

import base64
import string
import zlib

import pytest
from hypothesis import assume, given
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


CHANGES = {  # other values than any bundled scenario's, of every kind that a field can be
    "name": st.text(min_size=1, max_size=120),
    "target": st.text(max_size=50),
    "profile": st.text(max_size=50),
    "warmup_fraction": st.floats(0.0, 1.0, exclude_max=True),
    "allow_mismatch": st.booleans(),
    "seed": st.integers(0, 2**63 - 1),
    "workload.num_requests": st.integers(1, 10_000_000),
    "workload.patience_s": st.none() | st.floats(1e-300, 1e300),
    "workload.domains": st.dictionaries(st.text(max_size=20), st.floats(1e-9, 1e9), max_size=5),
    "workload.arrivals.rate_per_s": st.floats(1e-6, 1000.0),
    "workload.lengths.prompt.cv": st.floats(0.0, 10.0),
    "deployment.preset": st.sampled_from(["vllm", "sglang", "plain"]),
    "deployment.watermark": st.floats(0.0, 1.0, exclude_max=True),
    "deployment.max_queue": st.none() | st.integers(0, 10**9),
    "deployment.failures": st.fixed_dictionaries(
        {
            "outages": st.lists(
                st.builds(dict, replica=st.just(0), at_s=st.just(3), for_s=st.just(1.5)), max_size=1
            )
        }
    ),
    "speculation.plain_fraction": st.floats(0.0, 1.0),
    "slo.percentile": st.none() | st.floats(0.001, 99.999),
    "slo.e2e_s": st.none() | st.floats(1e-9, 1e9),
}


@given(st.fixed_dictionaries({}, optional=CHANGES))
def test_a_link_brings_back_any_scenario_field_by_field(changes):
    try:
        scenario = open_scenario("h100_chat").with_(**changes)
    except ScenarioError:
        assume(False)
    assert link.decode(link.encode(scenario)) == scenario


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
