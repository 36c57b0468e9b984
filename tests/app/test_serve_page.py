"""The page Serve: what it shows is what simulate and summarise say."""

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import link, words
from app.launch import ENTRY
from simcore.metrics.summary import Summary, summarise
from simcore.report.metric_words import meaning
from simcore.report.units import digits, percent, rate, seconds
from simcore.scenario import Scenario
from simcore.scenario_files import open_scenario
from simcore.serving.simulation import simulate

FEW_REQUESTS = 200
KEY = "serve.runs"


def _visit(scenario: Scenario) -> AppTest:
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(scenario)
    at.run().switch_page("app_pages/serve.py").run()
    assert not at.exception, at.exception
    return at


def _scenario(gamma: int = 3, **changes: object) -> Scenario:
    changes = {"workload.num_requests": FEW_REQUESTS, **changes}
    return open_scenario("h100_chat").with_(
        **{"speculation.num_speculative_tokens": gamma, **changes}
    )


def _captions(at: AppTest) -> str:
    return "\n".join(each.value for each in at.caption)


def _written(summary: Summary) -> dict[str, str]:
    """The page's table of one run."""
    kv, length = summary.kv, summary.tokens.mean_acceptance_length
    return {
        "First token, TTFT: p50": seconds(summary.ttft.p50_s),
        "First token, TTFT: p95": seconds(summary.ttft.p95_s),
        "Time per token, TPOT: p50": seconds(summary.tpot.p50_s),
        "Time per token, TPOT: p95": seconds(summary.tpot.p95_s),
        "Whole request, E2E: mean": seconds(summary.e2e.mean_s),
        "Whole request, E2E: p50": seconds(summary.e2e.p50_s),
        "Whole request, E2E: p95": seconds(summary.e2e.p95_s),
        "Throughput": rate(summary.request_rate_per_s),
        "Output": f"{summary.output_rate_tokens_per_s:,.4g} tokens/s",
        "Goodput": f"{rate(summary.goodput_per_s)} ({percent(summary.goodput_fraction)} in time)",
        "Mean acceptance length": f"{length:.2f} tokens a cycle",
        "Mean batch": f"{summary.mean_batch_size:.1f} requests",
        "KV cache at its fullest": f"{percent(kv.peak_used_fraction)} of {kv.total_tokens:,} "
        "tokens a replica",
        "Requests finished": f"{FEW_REQUESTS}",
    }


@pytest.mark.parametrize("gamma", [0, 3])
def test_simulate_shows_the_numbers_of_simulate_and_summarise(finish, gamma):
    at = _visit(_scenario(gamma))
    at.button(key="serve.simulate").click().run()
    finish(at, KEY)
    assert not at.error
    table = at.table[0].value
    assert len(table.columns) == (1 if gamma == 0 else 2)
    for column, used in zip(table.columns, (0, gamma), strict=False):
        scenario = at.session_state["scenario"].with_(
            **{"speculation.num_speculative_tokens": used}
        )
        summary = summarise(simulate(scenario))
        assert table[column].to_dict() == _written(summary)
    cards = {each.label: (each.value, each.help) for each in at.metric}
    assert cards == {
        "TTFT p95": (seconds(summary.ttft.p95_s), meaning("ttft.p95_s")),
        "TPOT p50": (seconds(summary.tpot.p50_s), meaning("tpot.p50_s")),
        "E2E p50": (seconds(summary.e2e.p50_s), meaning("e2e.p50_s")),
        "Requests/s": (digits(summary.request_rate_per_s), meaning("request_rate_per_s")),
    }
    text = "\n".join(each.value for each in at.markdown)
    for metric in ("ttft", "e2e", "goodput_per_s", "kv.peak_used_fraction", "mean_batch_size"):
        assert meaning(metric) in text
    assert len(at.get("plotly_chart")) == 4


def test_results_say_what_was_simulated_and_when_the_inputs_have_changed(finish):
    at = _visit(_scenario())
    at.button(key="serve.simulate").click().run()
    finish(at, KEY)
    for part in ("llama31_8b_h100", "published", "seed 1", "specplan 0.", "greedy equality"):
        assert part in _captions(at)
    assert not at.warning
    key = next(each.key for each in at.number_input if each.key.endswith(".seed"))
    at.number_input(key=key).set_value(9).run()
    assert "inputs have changed" in at.warning[0].value


def test_every_fallback_is_shown_with_its_reason(finish):
    scenario = open_scenario("burst").with_(**{"workload.num_requests": 500})
    at = _visit(scenario)
    at.button(key="serve.simulate").click().run()
    finish(at, KEY)
    assert list(at.table[0].value.columns) == ["off", "eagle, γ = 3, batch size table"]
    assert words.ONE_RUN in _captions(at)
    (changes,) = (each.value for each in at.dataframe)
    expected = simulate(at.session_state["scenario"]).policy_changes
    assert len(expected) > 0
    assert changes["reason"].tolist() == expected["reason"].tolist()
    assert changes["time_s"].tolist() == expected["time_s"].tolist()


def test_a_refused_simulation_is_one_sentence(finish):
    at = _visit(_scenario(**{"deployment.max_num_seqs": 4096}))
    at.button(key="serve.simulate").click().run()
    finish(at, KEY)
    assert "max_num_batched_tokens" in at.error[0].value


def test_recorded_lengths_are_simulated(finish):
    scenario = open_scenario("cpu_chat").with_(
        **{
            "workload.lengths": {"kind": "recorded"},
            "workload.num_requests": FEW_REQUESTS,
            "speculation.proposer": "ngram",
            "speculation.num_speculative_tokens": 3,
        }
    )
    at = _visit(scenario)
    at.button(key="serve.simulate").click().run()
    finish(at, KEY)
    summary = summarise(simulate(at.session_state["scenario"]))
    shown = at.table[0].value.iloc[:, 1]
    assert shown["Whole request, E2E: p50"] == seconds(summary.e2e.p50_s)
    assert shown["Whole request, E2E: mean"] == seconds(summary.e2e.mean_s)
    assert "acceptance model trace" in _captions(at)


def test_a_run_with_a_tree_says_so(finish):
    tree = {"proposer": "ngram", "num_speculative_tokens": 2, "tree": [-1, -1, 0, 1]}
    scenario = open_scenario("cpu_chat").with_(
        speculation=tree, **{"workload.num_requests": FEW_REQUESTS}
    )
    at = _visit(scenario)
    at.button(key="serve.simulate").click().run()
    finish(at, KEY)
    assert list(at.table[0].value.columns) == ["off", "ngram, tree of 4, 2 deep"]
