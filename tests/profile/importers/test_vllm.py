"""vLLM's formats and the traps in them."""

import re

import pytest

from simcore.errors import ConversionError, EngineFileError
from simcore.profile.conversions import survival_from_counts
from tests.profile.importers.conftest import INVENTED, REAL, only, read_json, read_paths, read_text


def scrape(drafts=20000, drafted=60000, accepted=27000, positions=(14000, 8400, 4600), **more):
    """A scrape of one rank and model; more: generated, requests, engine, model, created."""
    labels = f'engine="{more.get("engine", 0)}",model_name="{more.get("model", "acme/tgt-8b")}"'
    values = {
        "spec_decode_num_drafts": drafts,
        "spec_decode_num_draft_tokens": drafted,
        "spec_decode_num_accepted_tokens": accepted,
        "generation_tokens": more.get("generated"),
        "request_success": more.get("requests"),
    }
    lines = [
        f"vllm:{name}_total{{{labels}}} {float(value)}"
        for name, value in values.items()
        if value is not None
    ]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{k}"}} {float(n)}'
        for k, n in enumerate(positions)
    ]
    if "created" in more:
        lines.append(f"vllm:spec_decode_num_drafts_created{{{labels}}} {more['created']}")
    return "\n".join(lines) + "\n"


def test_counters_since_the_start_are_position_counters_and_say_that_warm_up_is_in_them():
    reading = read_text("vllm_prometheus", scrape())
    gamma, counts = only(reading)
    assert (gamma, counts.num_drafts, counts.accepted_per_position) == (
        3,
        20000,
        (14000, 8400, 4600),
    )
    assert reading.figures["tokens a cycle with a draft"] == pytest.approx(2.35)
    assert reading.records[0].scope == "lifetime"
    assert "warm-up" in reading.notes[0]
    assert reading.model == "acme/tgt-8b"


def test_two_scrapes_count_what_lies_between_them():
    before = scrape(5000, 15000, 6000, (3000, 2000, 1000))
    reading = read_text("vllm_prometheus", before, scrape())
    _, counts = only(reading)
    assert (counts.num_drafts, counts.accepted_per_position) == (15000, (11000, 6400, 3600))
    assert reading.records[0].scope == "difference"


def test_ranks_are_summed_and_never_averaged():
    one, other = scrape(engine=0), scrape(1000, 3000, 300, (200, 60, 40), engine=1)
    _, counts = only(read_text("vllm_prometheus", one + other))
    assert counts.num_drafts == 21000
    assert counts.accepted_per_position == (14200, 8460, 4640)


def test_the_restart_of_one_rank_is_seen_though_the_sum_still_grew():
    before = scrape(engine=0) + scrape(1000, 3000, 300, (200, 60, 40), engine=1)
    after = scrape(40000, 120000, 54000, (28000, 16800, 9200), engine=0)
    after += scrape(10, 30, 3, (1, 1, 1), engine=1)
    with pytest.raises(EngineFileError, match="restarted"):
        read_text("vllm_prometheus", before, after)


def test_a_restart_is_seen_by_its_creation_time_though_every_counter_grew():
    before = scrape(10, 30, 3, (1, 1, 1), created=100.0)
    with pytest.raises(EngineFileError, match="restarted"):
        read_text("vllm_prometheus", before, scrape(created=200.0))


def test_scrapes_in_the_wrong_order_are_refused():
    with pytest.raises(EngineFileError, match="wrong order"):
        read_text("vllm_prometheus", scrape(), scrape(10, 30, 3, (1, 1, 1)))


def test_a_rank_that_vanished_between_scrapes_is_refused():
    with pytest.raises(EngineFileError, match="gone"):
        read_text("vllm_prometheus", scrape() + scrape(engine=1), scrape())


def test_positions_divided_by_the_number_of_ranks_are_refused():
    with pytest.raises(EngineFileError, match="positions sum to 13500"):
        read_text("vllm_prometheus", scrape(positions=(7000, 4200, 2300)))


def test_counters_of_another_meaning_are_refused_where_they_break_the_identities():
    """Diffusion models count denoising steps and canvas tokens under the same names."""
    with pytest.raises(EngineFileError):
        read_text("vllm_prometheus", scrape(drafts=8, drafted=256, accepted=300, positions=(300,)))


def test_draft_lengths_that_varied_give_counts_and_no_survival():
    _, counts = only(read_text("vllm_prometheus", scrape(drafted=41000)))
    with pytest.raises(ConversionError, match="draft lengths varied"):
        survival_from_counts(counts, 3)


def test_a_lookup_without_generated_tokens_has_no_survival():
    _, counts = only(read_text("vllm_prometheus", scrape(), proposer_kind="ngram"))
    with pytest.raises(ConversionError, match="cycles without a draft"):
        survival_from_counts(counts, 3)


def test_a_lookups_cycles_follow_from_generated_tokens_accepted_drafts_and_requests():
    text = scrape(generated=67_200, requests=200)
    reading = read_text("vllm_prometheus", text, proposer_kind="ngram")
    _, counts = only(reading)
    assert counts.num_cycles == 67_200 - 27_000 - 200
    assert survival_from_counts(counts, 3) == pytest.approx([0.35, 0.21, 0.115])


def test_a_model_that_did_not_draft_in_every_step_is_noted():
    reading = read_text("vllm_prometheus", scrape(generated=67_200, requests=200))
    assert any("had no draft" in note for note in reading.notes)


def test_drafts_counted_before_outputs_are_cut_are_noted():
    reading = read_text("vllm_prometheus", scrape(generated=46_900, requests=200))
    assert any("before an output is cut" in note for note in reading.notes)


def test_several_models_are_told_apart_by_their_label():
    text = scrape() + scrape(100, 300, 60, (40, 15, 5), model="other")
    with pytest.raises(EngineFileError, match="--target"):
        read_text("vllm_prometheus", text)
    _, counts = only(read_text("vllm_prometheus", text, target="other"))
    assert counts.num_drafts == 100


BAD_SCRAPES = {
    "cut in a line": (scrape()[:-20], "cut"),
    "cut after the totals": (scrape(positions=()), "positions"),
    "a position lost": (scrape().replace('position="1"', 'position="7"'), "gaps"),
    "no position label": (scrape().replace('position="1"', 'place="1"'), "position"),
    "two scrapes in one file": (scrape() + scrape(), "repeats"),
    "no number": (scrape().replace("20000.0", "many"), "a number"),
    "a broken count": (scrape().replace("27000.0", "27000.5"), "whole number"),
    "not a number": (scrape().replace("27000.0", "NaN"), "whole number"),
    "nothing drafted": (scrape(0, 0, 0, (0, 0, 0)), "nothing was drafted"),
    "more positions than γ": (scrape(), "--gamma says 2"),
}


@pytest.mark.parametrize(("text", "message"), BAD_SCRAPES.values(), ids=BAD_SCRAPES)
def test_a_damaged_scrape_is_refused(text, message):
    gamma = 2 if "--gamma" in message else None
    with pytest.raises(EngineFileError, match=re.escape(message)):
        read_text("vllm_prometheus", text, gamma=gamma)


# --- the log ------------------------------------------------------------------------------------

LINE = (
    "INFO 09-01 10:00:10 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 2.35, "
    "Accepted throughput: 540.00 tokens/s, Drafted throughput: 1200.00 tokens/s, Accepted: 5400 "
    "tokens, Drafted: 12000 tokens, Per-position acceptance rate: 0.700, 0.420, 0.230, Avg Draft "
    "acceptance rate: 45.0%\n"
)


def test_a_line_is_read_by_its_keys_in_either_order():
    new = only(read_text("vllm_log", LINE))
    old = only(read_paths("vllm_log", INVENTED / "vllm_old_v1.log"))
    assert new == old
    assert new[1].num_drafts == 4000
    assert new[1].accepted_per_position == (2800, 1680, 920)


def test_intervals_are_summed_by_their_counts_not_averaged():
    second = LINE.replace("10:00:10", "10:00:20").replace("2.35", "1.30")
    second = second.replace("5400", "120").replace("12000", "1200")
    second = second.replace("0.700, 0.420, 0.230", "0.200, 0.080, 0.020")
    _, counts = only(read_text("vllm_log", LINE + second))
    assert counts.num_drafts == 4400
    assert counts.accepted_per_position == (2800 + 80, 1680 + 32, 920 + 8)


def test_a_repeated_line_of_one_moment_counts_once():
    reading = read_text("vllm_log", LINE + LINE)
    assert only(reading) == only(read_text("vllm_log", LINE))
    assert any("count once" in note for note in reading.notes)


def test_an_interval_without_drafts_is_no_interval():
    idle = LINE.replace("10:00:10", "10:00:20").replace("2.35", "nan").replace("5400", "0")
    idle = idle.replace("12000", "0").replace("0.700, 0.420, 0.230", "nan, nan, nan")
    assert only(read_text("vllm_log", LINE + idle)) == only(read_text("vllm_log", LINE))


def test_drafts_of_varying_length_are_inverted_from_the_mean_length():
    shorter = LINE.replace("12000", "9000")
    _, counts = only(read_text("vllm_log", shorter))
    assert counts.num_drafts == pytest.approx(4000, rel=0.01)
    with pytest.raises(ConversionError, match="varied"):
        survival_from_counts(counts, 3)


BAD_LINES = {
    "of the V0 engine": (LINE + "System efficiency: 0.5\n", "V0"),
    "rates in percent": (LINE.replace("0.700, 0.420, 0.230", "70.0, 42.0, 23.0"), "damaged"),
    "a rate that rises": (LINE.replace("0.700, 0.420, 0.230", "0.420, 0.700, 0.230"), "increases"),
    "rates divided by ranks": (LINE.replace("0.700, 0.420, 0.230", ".350, .210, .115"), "damaged"),
    "cut": (LINE[:190], "Drafted"),
    "a length above γ + 1": (LINE.replace("2.35", "9.35"), "between 1 and 4"),
}


@pytest.mark.parametrize(("text", "message"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_damaged_line_is_refused(text, message):
    with pytest.raises(EngineFileError, match=message):
        read_text("vllm_log", text)


ITERATION = (
    "Iteration({n}): {prefills} context requests, 0 context tokens, {requests} generation "
    "requests, {tokens} generation tokens, iteration elapsed time: {ms:.2f} ms, GPU KV cache "
    "usage: {usage:.1f}%{end}\n"
)


def _iterations(dummy=False):
    """Steps of 6 ms + 20 us a token + 0.03 us a KV token, of which the cache holds 500,000."""
    lines = ["GPU KV cache size: 500,000 tokens\n"]
    for n, (requests, width, usage) in enumerate(
        (r, w, u) for r in (1, 2, 4, 8, 16, 32) for w in (1, 4) for u in (10.0, 40.0)
    ):
        ms = 6.0 + 0.02 * requests * width + 3e-5 * usage * 5000
        lines.append(
            ITERATION.format(
                n=n, prefills=0, requests=requests, tokens=requests * width, ms=ms, usage=usage,
                end=" (dummy)" if dummy else "",
            )
        )  # fmt: skip
    return lines


def test_iteration_details_price_a_step_by_tokens_and_context():
    from simcore.cost.fit import fit_imported

    reading = read_text("vllm_log", "".join(_iterations()))
    law = fit_imported(reading.samples, ["eagle"])
    assert law.held_out_error["target"].median_rel < 0.01
    assert law.target.per_kv_token_plain_s == pytest.approx(3e-8, rel=0.05)
    # With one width, reading a KV token and pairing it with four queries cannot be told apart.
    verify_s = law.target.per_kv_token_verify_s + 4 * law.target.per_attention_pair_s
    assert verify_s == pytest.approx(3e-8, rel=0.05)
    assert law.propose["eagle"].base_s == 0.0


def test_steps_with_prefill_ragged_drafts_or_no_work_are_no_samples():
    base = {"n": 0, "prefills": 0, "requests": 4, "tokens": 16, "ms": 9.0, "usage": 1.0, "end": ""}
    odd = ({"prefills": 1}, {"tokens": 17}, {"requests": 0, "tokens": 0}, {"end": " (dummy)"})
    lines = [ITERATION.format(**base | each) for each in odd]
    with pytest.raises(EngineFileError, match="neither"):
        read_text("vllm_log", "".join(lines))
    reading = read_text("vllm_log", "".join([*lines, ITERATION.format(**base)]))
    assert reading.samples["repeats"].tolist() == [1]
    assert "4 with prefill" in reading.notes[0]


# --- per-request metrics ------------------------------------------------------------------------

RECORD = {
    "mean_acceptance_length": 2.5,
    "draft_acceptance_rate": 0.5,
    "acceptance_histogram": [10, 20, 20, 10],
    "num_spec_steps": 60,
    "num_accepted_draft_tokens": 90,
    "num_draft_tokens": 180,
    "num_spec_tokens": 3,
}


def _answer(name="a", output=151, **changes):
    return {
        "id": name,
        "model": "acme",
        "usage": {"completion_tokens": output},
        "metrics": {"speculative_decoding": RECORD | changes},
    }


def test_answers_are_pooled_by_their_counts_and_kept_one_by_one():
    other = {
        "acceptance_histogram": [9, 0, 0, 1],
        "num_spec_steps": 10,
        "num_accepted_draft_tokens": 3,
        "num_draft_tokens": 30,
        "mean_acceptance_length": 1.3,
        "draft_acceptance_rate": 0.1,
    }
    reading = read_json("vllm_requests", _answer(), _answer("b", 14, **other))
    _, counts = only(reading)
    assert counts.accepted_lengths == (19, 20, 20, 11)
    assert reading.records[0].rows["num_accepted_tokens"].tolist() == [90, 3]
    # The mean of the answers' means, 1.9, is not the mean over cycles.
    assert 1 + counts.num_accepted_tokens / counts.num_drafts == pytest.approx(1 + 93 / 70)


BAD_RECORDS = {
    "a histogram of other cycles": ({"acceptance_histogram": [10, 20, 20, 11]}, "histogram"),
    "a histogram too short": ({"acceptance_histogram": [10, 20, 30]}, "long"),
    "a rate in percent": ({"draft_acceptance_rate": 50.0}, "draft_acceptance_rate"),
    "a length without the bonus": ({"mean_acceptance_length": 1.5}, "mean_acceptance_length"),
    "cycles that the histogram does not count": ({"per_step_accepted": [1, 3, 0]}, "same cycles"),
    "another γ": ({"num_spec_tokens": 4}, "5, for 0 to 4"),
    "a text for a count": ({"num_spec_steps": "60"}, "a str"),
    "a truth for a count": ({"num_spec_steps": True}, "a bool"),
    "a negative count": ({"num_accepted_draft_tokens": -90}, "whole number"),
}


@pytest.mark.parametrize(("changes", "message"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_an_answer_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(EngineFileError, match=message):
        read_json("vllm_requests", _answer(**changes))


def test_an_answer_that_stands_twice_is_refused():
    with pytest.raises(EngineFileError, match="came before"):
        read_json("vllm_requests", _answer(), _answer())


def test_cycles_in_order_are_kept_where_the_engine_lists_them():
    reading = read_paths("vllm_requests", REAL / "vllm_ngram_requests.jsonl", proposer_kind="ngram")
    rows = reading.records[0].rows
    assert [sum(each) for each in rows["cycle_accepted"]] == rows["num_accepted_tokens"].tolist()
    assert [len(each) for each in rows["cycle_drafted"]] == rows["num_drafts"].tolist()


# --- benchmark ----------------------------------------------------------------------------------

RUN = {
    "model_id": "acme/tgt-8b",
    "num_prompts": 200,
    "request_rate": "inf",
    "completed": 200,
    "failed": 0,
    "total_output_tokens": 51200,
    "mean_tpot_ms": 11.9,
    "mean_itl_ms": 27.6,
    "spec_decode_acceptance_rate": 45.0,
    "spec_decode_acceptance_length": 2.35,
    "spec_decode_num_drafts": 20000,
    "spec_decode_draft_tokens": 60000,
    "spec_decode_accepted_tokens": 27000,
    "spec_decode_per_position_acceptance_rates": [0.70, 0.42, 0.23],
}


def test_a_run_gives_whole_counts_by_position():
    reading = read_json("vllm_bench", RUN)
    assert only(reading)[1].accepted_per_position == (14000, 8400, 4600)
    assert reading.figures["tokens a chunk, by ITL / TPOT"] == pytest.approx(2.32, abs=0.01)


BAD_RUNS = {
    "the rate as a fraction": ({"spec_decode_acceptance_rate": 0.45}, "percent"),
    "positions in percent": (
        {"spec_decode_per_position_acceptance_rates": [70.0, 42.0, 23.0]},
        "not percent",
    ),
    "positions by rank": (
        {"spec_decode_per_position_acceptance_rates": [0.35, 0.21, 0.115]},
        "not by rank",
    ),
    "a length without the bonus": ({"spec_decode_acceptance_length": 1.35}, "bonus included"),
    "no speculation": ({"spec_decode_num_drafts": None}, "no speculation"),
}


@pytest.mark.parametrize(("changes", "message"), BAD_RUNS.values(), ids=BAD_RUNS)
def test_a_run_in_other_units_is_refused(changes, message):
    with pytest.raises(EngineFileError, match=message):
        read_json("vllm_bench", RUN | changes)


def test_runs_of_one_length_are_summed_and_runs_of_another_stand_apart():
    longer = RUN | {
        "spec_decode_draft_tokens": 100000,
        "spec_decode_acceptance_rate": 27.0,
        "spec_decode_per_position_acceptance_rates": [0.70, 0.42, 0.23, 0.0, 0.0],
    }
    plain = {k: v for k, v in RUN.items() if not k.startswith("spec")}
    reading = read_json("vllm_bench", RUN, RUN, longer, plain)
    assert [*reading.records[0].counts] == [3]
    assert reading.records[0].counts[3].num_drafts == 40000
    assert [*reading.records[1].counts] == [5]
    assert any("1 runs without" in note for note in reading.notes)


def test_other_traffic_and_failures_are_noted():
    reading = read_json("vllm_bench", RUN | {"total_output_tokens": 40000, "failed": 3})
    assert any("other traffic" in note for note in reading.notes)
    assert any("3 requests failed" in note for note in reading.notes)
