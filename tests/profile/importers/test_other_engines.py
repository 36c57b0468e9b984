"""SGLang, TensorRT-LLM, llama.cpp, AIPerf: their formats and the traps in them."""

import json

import pytest

from simcore.cost.fit import fit_imported
from simcore.errors import ConversionError, EngineFileError
from simcore.profile.conversions import survival_from_counts
from tests.profile.importers.conftest import (
    INVENTED,
    REAL,
    only,
    read_json,
    read_paths,
    read_text,
)

# --- SGLang -------------------------------------------------------------------------------------

META = {
    "id": "a",
    "completion_tokens": 101,
    "spec_verify_ct": 40,
    "spec_accept_length": 2.525,
    "spec_num_correct_drafts": 60,
    "spec_num_proposed_drafts": 120,
    "spec_correct_drafts_histogram": [8, 12, 12, 8],
}


def test_sglangs_mean_counts_the_prefills_token_and_the_histogram_does_not():
    _, counts = only(read_json("sglang_meta_info", {"meta_info": META}))
    assert 1 + counts.num_accepted_tokens / counts.num_drafts == 2.5  # not 2.525
    assert survival_from_counts(counts, 3) == pytest.approx([0.8, 0.5, 0.2])


def test_sglang_answers_are_pooled_and_a_histogram_that_ends_early_is_filled_up():
    gamma, counts = only(read_paths("sglang_meta_info", INVENTED / "sglang_meta_info.jsonl"))
    assert (gamma, counts.accepted_lengths) == (3, (20, 18, 14, 8))


def test_sglangs_older_names_are_read():
    old = {
        "spec_verify_ct": 40,
        "spec_accepted_drafts": 60,
        "spec_proposed_drafts": 120,
        "spec_accept_histogram": [8, 12, 12, 8],
    }
    assert only(read_json("sglang_meta_info", {"meta_info": old}))[1].num_draft_tokens == 120


def test_a_tree_is_not_taken_for_a_chain():
    tree = META | {"spec_num_proposed_drafts": 40 * 7}  # 7 nodes, 3 deep
    with pytest.raises(EngineFileError, match="a tree"):
        read_json("sglang_meta_info", {"meta_info": tree})
    with pytest.raises(EngineFileError, match="tree's counts"):
        read_json("sglang_meta_info", {"meta_info": tree}, gamma=3)


def test_a_chain_that_never_accepted_its_last_draft_needs_its_length_said():
    cut = {
        "spec_verify_ct": 20,
        "spec_num_correct_drafts": 10,
        "spec_num_proposed_drafts": 60,
        "spec_correct_drafts_histogram": [12, 6, 2],
    }
    with pytest.raises(EngineFileError, match="--gamma"):
        read_json("sglang_meta_info", {"meta_info": cut})
    assert only(read_json("sglang_meta_info", {"meta_info": cut}, gamma=3))[0] == 3


def test_a_histogram_that_contradicts_its_totals_is_refused():
    with pytest.raises(EngineFileError, match="histogram"):
        read_json("sglang_meta_info", {"meta_info": META | {"spec_num_correct_drafts": 61}})


def test_sglangs_log_stores_no_acceptance_but_shows_it():
    reading = read_paths("sglang_log", INVENTED / "sglang.log")
    assert reading.records == ()
    assert reading.samples is None
    assert reading.figures["longest mean acceptance length of an interval"] == 2.5


def test_sglangs_throughput_gives_a_step_only_where_no_prefill_lies_between():
    reading = read_paths("sglang_log", INVENTED / "sglang.log", gamma=3)
    samples = reading.samples.sort_values("batch_size")
    assert samples["batch_size"].tolist() == [2, 2, 3]
    assert samples["median_s"].tolist() == pytest.approx([0.02] * len(samples))
    assert set(samples["num_query_tokens"]) == {4}


def test_sglangs_rate_of_older_builds_is_told_by_recomputing_it():
    new = "Decode batch, #running-req: 2, #token: 9, accept len: 2.17, accept rate: {}, gen throughput (token/s): 9"  # noqa: E501 - one log line
    for rate in ("0.39", "0.54"):  # (2.17 - 1) / 3 and 2.17 / 4
        assert read_text("sglang_log", new.format(rate), gamma=3).figures["decode lines"] == 1.0
    with pytest.raises(EngineFileError, match="a tree, or another"):
        read_text("sglang_log", new.format("0.17"), gamma=3)
    with pytest.raises(EngineFileError, match="at most"):
        read_text("sglang_log", new.format("0.39"), gamma=1)


def test_sglangs_benchmark_is_shown_with_what_is_wrong_with_it_and_not_stored():
    reading = read_paths("sglang_bench", INVENTED / "sglang_bench.jsonl")
    assert reading.records == ()
    text = " ".join(reading.notes)
    for part in ("lifetime", "no counts", "random prompts", "peak rate"):
        assert part in text
    assert reading.figures["step by length × TPOT, ms"] == pytest.approx(2.4 * 11.8)


def test_an_itl_that_is_not_split_over_tokens_is_noted():
    run = {"accept_length": 2.4, "mean_tpot_ms": 11.8, "mean_itl_ms": 27.6}
    assert any("2.34 times TPOT" in note for note in read_json("sglang_bench", run).notes)


# --- TensorRT-LLM -------------------------------------------------------------------------------


def _iterations():
    return json.loads((INVENTED / "trtllm_stats.json").read_text())


def test_iterations_are_summed_and_a_batchs_mean_gives_no_survival():
    _, counts = only(read_paths("trtllm_stats", INVENTED / "trtllm_stats.json"))
    drafting = [each["specDecodingStats"] for each in _iterations() if "specDecodingStats" in each]
    assert counts.num_accepted_tokens == sum(each["numAcceptedTokens"] for each in drafting)
    with pytest.raises(ConversionError, match="a mean alone"):
        survival_from_counts(counts, 3)


def test_the_inner_latency_is_drafting_alone():
    reading = read_paths("trtllm_stats", INVENTED / "trtllm_stats.json", proposer="eagle")
    propose = reading.samples[reading.samples["phase"] == "propose"]
    assert propose["median_s"].tolist() == pytest.approx([1.8e-3] * len(propose))
    law = fit_imported(reading.samples, ["eagle"])
    assert law.propose["eagle"].base_s + 3 * law.propose["eagle"].per_pass_s == pytest.approx(
        1.8e-3, rel=0.01
    )
    assert law.target.knot_s[0] == pytest.approx(6.02e-3, rel=0.01)


def test_iterations_with_prefill_are_no_decode_samples():
    with_prefill = [_iterations()[-1]]
    with pytest.raises(EngineFileError, match="no decode iteration"):
        read_text("trtllm_stats", json.dumps(with_prefill))


def test_a_length_without_the_bonus_is_refused():
    first = next(each for each in _iterations() if "specDecodingStats" in each)
    first["specDecodingStats"]["acceptanceLength"] -= 1.0
    with pytest.raises(EngineFileError, match="acceptanceLength"):
        read_text("trtllm_stats", json.dumps([first]))


def test_an_iteration_that_was_polled_twice_is_refused():
    with pytest.raises(EngineFileError, match="stands twice"):
        read_text("trtllm_stats", json.dumps(_iterations()[:3] + _iterations()[:1]))


def test_drafted_by_position_gives_survival_though_lengths_varied():
    _, counts = only(read_paths("trtllm_prometheus", INVENTED / "trtllm.prom"))
    assert survival_from_counts(counts, 3) == pytest.approx([0.7, 0.5, 0.4])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('token_position="1"} 600.0', 'token_position="7"} 600.0', "without gaps"),
        ('token_position="1"} 600.0', 'token_position="1"} 601.0', "expected the same"),
        ('tokens_total{model_name="acme",token_position="2"} 80.0', "x 1", "expected the same"),
    ],
)
def test_a_damaged_scrape_of_positions_is_refused(old, new, message):
    text = (INVENTED / "trtllm.prom").read_text()
    assert old in text
    with pytest.raises(EngineFileError, match=message):
        read_text("trtllm_prometheus", text.replace(old, new))


# --- llama.cpp ----------------------------------------------------------------------------------

TIMINGS = {"predicted_n": 200, "predicted_ms": 2500.0, "draft_n": 240, "draft_n_accepted": 120}


def test_timings_give_a_mean_over_all_steps_and_no_survival():
    reading = read_json("llamacpp_timings", {"timings": TIMINGS}, gamma=3)
    assert reading.figures["tokens a step, with or without a draft"] == pytest.approx(2.5)
    # predicted_ms runs from the first token on: 79 steps follow it.
    assert reading.figures["step, ms"] == pytest.approx(2500 / 79)
    _, counts = only(reading)
    assert counts.num_cycles == 79  # the first token is the prefill's
    with pytest.raises(ConversionError):
        survival_from_counts(counts, 3)


def test_generated_drafts_may_have_been_thrown_away_so_they_are_no_denominator():
    """Drafts shorter than n_min count in draft_n though nothing verified them."""
    _, counts = only(read_json("llamacpp_timings", {"timings": TIMINGS}, gamma=1))
    with pytest.raises(ConversionError, match="no cycle with a draft was counted"):
        survival_from_counts(counts, 1)


def test_timings_need_the_draft_length_and_a_draft():
    with pytest.raises(EngineFileError, match="--gamma"):
        read_json("llamacpp_timings", {"timings": TIMINGS})
    plain = {"predicted_n": 200, "predicted_ms": 2500.0}
    with pytest.raises(EngineFileError, match="draft_n above 0"):
        read_json("llamacpp_timings", {"timings": plain}, gamma=3)


def test_more_accepted_than_generated_is_refused():
    with pytest.raises(EngineFileError, match="draft_n_accepted"):
        read_json("llamacpp_timings", {"timings": TIMINGS | {"draft_n_accepted": 200}}, gamma=3)


CLOSING = (
    "slot print_timing: id  0 | task 7 | draft acceptance = 0.45000 (   54 accepted /   120 "
    "generated), mean len =  2.35\n"
)
POSITIONS = "slot print_timing: id  0 | task 7 |      acc per pos = (0.700, 0.420, 0.230)\n"


def test_closing_lines_with_positions_give_position_counters():
    gamma, counts = only(read_text("llamacpp_log", CLOSING + POSITIONS))
    assert (gamma, counts.num_drafts, counts.accepted_per_position) == (3, 40, (28, 17, 9))


def test_closing_lines_without_positions_give_a_mean_the_bonus_taken_off():
    reading = read_text("llamacpp_log", CLOSING, gamma=3)
    assert reading.records[0].kind == "totals"
    assert only(reading)[1].num_drafts == 40


def test_a_request_that_ends_twice_or_a_lost_line_is_refused():
    with pytest.raises(EngineFileError, match="ended before"):
        read_text("llamacpp_log", CLOSING + CLOSING, gamma=3)
    with pytest.raises(EngineFileError, match="before its counts"):
        read_text("llamacpp_log", POSITIONS + CLOSING)
    lines = (REAL / "llamacpp.log").read_text().splitlines(keepends=True)
    cycles = [index for index, line in enumerate(lines) if "draft tokens, new" in line]
    for changed in (lines[: cycles[2]] + lines[cycles[4] :], [*lines[:1], *lines]):
        with pytest.raises(EngineFileError, match=r"lost or repeated|ended before"):
            read_text("llamacpp_log", "".join(changed))


def test_llamacpp_positions_appear_with_the_first_finished_request():
    before = (REAL / "llamacpp_before.prom").read_text()
    assert "per_pos" not in before.replace("# ", "")
    with pytest.raises(EngineFileError, match="nothing was drafted"):
        read_text("llamacpp_prometheus", before)


# --- AIPerf -------------------------------------------------------------------------------------


def test_aiperf_passes_vllms_record_on_with_a_sparse_histogram():
    reading = read_paths("aiperf", INVENTED / "aiperf_vllm.jsonl")
    gamma, counts = only(reading)
    assert (gamma, counts.accepted_lengths) == (3, (25, 20, 20, 13))
    assert reading.figures["mean TPOT, ms"] == pytest.approx(11.9)


def test_a_bucket_beyond_the_draft_length_is_refused():
    line = json.loads((INVENTED / "aiperf_vllm.jsonl").read_text().splitlines()[0])
    line["spec_decode_acceptance"]["acceptance_histogram"]["4"] = 1
    with pytest.raises(EngineFileError, match="0 to 3"):
        read_json("aiperf", line)


def test_failed_requests_are_left_out():
    line = json.loads((INVENTED / "aiperf_vllm.jsonl").read_text().splitlines()[0])
    failed = {"metadata": {}, "metrics": {}, "error": {"message": "timeout"}}
    assert only(read_json("aiperf", failed, line))[1].num_drafts == 60
    with pytest.raises(EngineFileError, match="every request failed"):
        read_json("aiperf", failed)
