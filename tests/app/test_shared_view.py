"""A link reproduces the view; two visitors do not meet."""

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import link
from app.launch import ENTRY
from simcore.scenario_files import bundled_scenarios, open_scenario


def _visit(**parameters: str) -> AppTest:
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    for name, value in parameters.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception, at.exception
    return at


def _link(at: AppTest) -> str:
    text = at.query_params[link.PARAMETER]
    return text if isinstance(text, str) else text[0]


@pytest.mark.parametrize("name", list(bundled_scenarios()))
def test_the_address_of_a_view_reproduces_it_for_another_visitor(name):
    asked = open_scenario(name)
    proposer = asked.speculation.proposer
    if proposer is None:
        pytest.skip(f"{name} leaves the proposer open; the page always names one")
    at = _visit(**{link.PARAMETER: link.encode(asked.with_(seed=77))})
    assert at.session_state["scenario"] == asked.with_(seed=77)
    assert link.decode(_link(at)) == asked.with_(seed=77)


TREE = {"num_speculative_tokens": 2, "tree": [-1, -1, 0, 0, 1]}
SPECULATIONS = {
    "tree": TREE,
    "tree proposed wider": TREE | {"num_proposed_tokens": 9, "tree_rule": "sequoia"},
    "tree with a table": TREE
    | {"policy": {"kind": "batch_size_table", "table": [[1, 4, 2], [5, 8, 0]]}},
    "tree with a ladder": TREE
    | {
        "policy": {
            "kind": "memory_pressure",
            "ladder": [
                {"below": 0.4, "num_draft_tokens": 2},
                {"below": 0.1, "num_speculative_tokens": 0},
            ],
        }
    },
    "fitted": {"num_speculative_tokens": 3, "acceptance": "heterogeneous", "plain_fraction": 0.137},
    "unmeasured length": {"num_speculative_tokens": 9, "acceptance": "iid"},
    "gate": {
        "num_speculative_tokens": 4,
        "policy": {"kind": "acceptance_gate", "threshold": 0.3141, "window_steps": 7},
    },
    "tiers": {
        "num_speculative_tokens": 7,
        "policy": {
            "kind": "adaptive_ema",
            "tiers": {"1": [1, 3, 7], "8": [0, 1]},
            "ema_alpha": 0.333,
        },
    },
    "goodput": {"num_speculative_tokens": 4, "policy": {"kind": "goodput", "candidates": [0, 2]}},
    "own ladder": {"num_speculative_tokens": 4, "policy": {"kind": "memory_pressure"}},
    "verification": {"num_speculative_tokens": 4, "policy": {"kind": "adaptive_verification"}},
    "oracle": {"num_speculative_tokens": 4, "policy": {"kind": "oracle"}, "acceptance": "trace"},
    "off": {"acceptance": "positional", "policy": {"kind": "goodput"}},
    "dynamic": {
        "num_speculative_tokens": 3,
        "dynamic_tree": {"topk": 2, "num_draft_tokens": 4},
        "policy": {"kind": "acceptance_gate", "threshold": 0.2},
    },
}


@pytest.mark.parametrize("name", list(SPECULATIONS))
def test_every_way_to_speculate_comes_through_the_sidebar_unchanged(name):
    speculation = {"proposer": "draft_model"} | SPECULATIONS[name]
    one = {"workload.domains": {"chat": 1.0}}  # a fitted model is fitted to every domain's requests
    asked = open_scenario("cpu_chat").with_(speculation=speculation, **one)
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(asked)
    at.run()
    assert not at.exception, at.exception
    assert at.session_state["scenario"].speculation == asked.speculation
    assert link.decode(_link(at)) == at.session_state["scenario"]


FARTHEST = {  # as far as a scenario goes, and a widget must too
    "smallest": {
        "workload.num_requests": 1,
        "workload.arrivals.rate_per_s": 1e-6,
        "deployment.max_num_seqs": 1,
        "slo": {"tpot_s": 1e-300, "percentile": 1e-7, "goodput_fraction": 1e-7},
    },
    "largest": {
        "workload.num_requests": 10_000_000,
        "workload.arrivals.rate_per_s": 1000.0,
        "workload.lengths.prompt": {"mean_tokens": 1e9, "cv": 10.0, "max_tokens": 10**9},
        "deployment.replicas": 1024,
        "deployment.max_num_seqs": 1_000_000,
        "slo": {"ttft_s": 1e300, "percentile": 99.99999, "goodput_fraction": 0.99999},
        "seed": 2**63 - 1,
    },
}


@pytest.mark.parametrize("name", list(FARTHEST))
def test_a_link_to_the_ends_of_what_a_scenario_may_be_opens_and_changes_nothing(name):
    asked = open_scenario("h100_chat").with_(**FARTHEST[name])
    at = _visit(**{link.PARAMETER: link.encode(asked)})
    assert not at.error, [each.value for each in at.error]
    assert at.session_state["scenario"] == asked


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"contract": "exact_sampling", "sampling.temperature": 0.77},
            "sampling.temperature: 0.77",
        ),
        ({"speculation.proposer": "other"}, "speculation.proposer: other is asked for, eagle is"),
        ({"workload.domains": {"other": 1.0}}, "workload.domains: {'other': 1.0} is asked for"),
    ],
)
def test_what_no_record_answers_is_not_replaced_without_a_word(changes, said):
    at = _visit(**{link.PARAMETER: link.encode(open_scenario("h100_chat").with_(**changes))})
    assert said in at.warning[0].value
    at.run()
    assert said in at.warning[0].value
    key = next(each.key for each in at.number_input if each.key.endswith(".seed"))
    at.number_input(key=key).set_value(4242).run()
    assert not at.warning


LEFT_OPEN = {"every domain": {"workload.domains": {}}, "the proposer": {"speculation": {}}}


@pytest.mark.parametrize("name", list(LEFT_OPEN))
def test_what_a_scenario_leaves_open_is_no_replacement(name):
    asked = open_scenario("h100_chat").with_(**LEFT_OPEN[name])
    at = _visit(**{link.PARAMETER: link.encode(asked)})
    assert at.session_state["scenario"] != asked
    assert not at.warning


def test_the_address_follows_the_inputs_and_not_the_other_visitors():
    one, other = _visit(), _visit()
    key = next(each.key for each in one.number_input if each.key.endswith(".seed"))
    one.number_input(key=key).set_value(4242).run()
    assert link.decode(_link(one)).seed == 4242
    other.run()
    assert link.decode(_link(other)).seed != 4242
    assert _visit(**{link.PARAMETER: _link(one)}).session_state["scenario"].seed == 4242


def test_a_broken_link_is_one_sentence_and_the_page_still_works():
    at = _visit(**{link.PARAMETER: "nonsense"})
    assert "link holds no scenario" in at.error[0].value
    assert at.session_state["scenario"].profile
    assert link.decode(_link(at)) == at.session_state["scenario"]


def test_a_link_to_a_profile_of_somebody_else_says_what_to_do():
    asked = open_scenario("h100_chat").with_(profile="elsewhere")
    at = _visit(**{link.PARAMETER: link.encode(asked)})
    assert any("no profile 'elsewhere' here" in each.value for each in at.warning)
