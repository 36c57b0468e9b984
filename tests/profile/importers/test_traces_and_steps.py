"""One's own lists and tables: acceptance traces, and timed steps."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simcore.acceptance.survival import mean_emitted_tokens, survival_from_cycles
from simcore.acceptance.trace import trace_set_from_rows, walk
from simcore.cost.fit import fit_imported
from simcore.errors import EngineFileError
from simcore.profile.conversions import survival_from_counts
from simcore.profile.tables import to_arrow
from tests.profile.importers.conftest import read_json, read_paths, read_text


def _parquet(**columns) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


POSITIONS = {"column": "emitted", "accepted_or_emitted": "emitted", "per": "position"}


def test_emitted_tokens_by_position_become_a_trace_of_accepted_drafts():
    content = _parquet(emitted=[[3, 2, 1, 1], [1, 1]], prompt_tokens=[7, 8])
    (record,) = read_text("acceptance_trace", content, **POSITIONS).records
    assert (record.kind, record.max_gamma, record.num_requests) == ("trace", 2, 2)
    assert record.traces["accepted"].tolist() == [2, 1, 0, 0, 0, 0]
    assert record.traces["proposed"].tolist() == [2] * 6
    assert record.traces["output_tokens"].tolist() == [4, 4, 4, 4, 2, 2]


def test_what_a_list_counts_must_be_said():
    content = _parquet(emitted=[[3, 2, 1, 1]])
    for missing, message in (("per", "--per"), ("accepted_or_emitted", "--counts")):
        said = {key: value for key, value in POSITIONS.items() if key != missing}
        with pytest.raises(EngineFileError, match=message):
            read_text("acceptance_trace", content, **said)
    with pytest.raises(EngineFileError, match="expected one of emitted"):
        read_text("acceptance_trace", content, **POSITIONS | {"column": "accepted"})


def test_accepted_drafts_taken_for_emitted_tokens_are_refused():
    with pytest.raises(EngineFileError, match="these are accepted drafts"):
        read_text("acceptance_trace", _parquet(emitted=[[2, 0, 1]]), **POSITIONS)


def test_lists_by_cycle_are_counted_by_length_domain_and_temperature():
    lines = [
        {"domain": "code", "gamma": 2, "temp": 0, "acc": [2, 0, 1], "prop": [2, 0, 2]},
        {"domain": "code", "gamma": 2, "temp": 0, "acc": [0], "prop": [1]},
        {"domain": "chat", "gamma": 4, "temp": 1, "acc": [4, 0], "prop": [4, 4]},
    ]
    code, chat = read_json("acceptance_trace", *lines).records
    assert (code.domain, code.temperature, chat.temperature) == ("code", 0.0, 1.0)
    assert code.counts[2].accepted_lengths == (1, 1, 1)
    assert code.counts[2].num_cycles == 4
    assert survival_from_counts(code.counts[2], 2) == pytest.approx([0.5, 0.25])
    assert [*chat.counts] == [4]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"acc": [3]}, "at most"),
        ({"acc": [2], "prop": [1]}, "2 accepted of 1"),
        ({"acc": [1, 1]}, "2 entries"),
        ({"acc": []}, "empty"),
        ({"acc": [0.5]}, "whole number"),
        ({"gamma": 100}, "--gamma"),
    ],
)
def test_cycles_that_cannot_be_are_refused(changes, message):
    line = {"domain": "code", "gamma": 2, "temp": 0, "acc": [2], "prop": [2]} | changes
    with pytest.raises(EngineFileError, match=message):
        read_json("acceptance_trace", line)


def test_measured_cycles_keep_their_mean(shared_data):
    path = shared_data / "accept_traces" / "tiny_model_t1.jsonl"
    reading = read_paths("acceptance_trace", path)
    assert {gamma for record in reading.records for gamma in record.counts} == {1, 2, 4, 8}
    for record in reading.records:
        ((gamma, counts),) = record.counts.items()
        survival = survival_from_counts(counts, gamma)
        expected = counts.num_accepted_tokens / counts.num_cycles
        assert mean_emitted_tokens(survival) - 1.0 == pytest.approx(expected)


def test_a_published_trace_walks_as_published(shared_data):
    """EAGLE on GSM8K from position 0: 1.693, 2.379, 2.651, 2.750 emitted tokens a cycle."""
    path = shared_data / "specdecode-bench" / "llama31_8b_h100_gsm8k.parquet"
    (record,) = read_paths(
        "acceptance_trace",
        path,
        column="emitted_eagle",
        accepted_or_emitted="emitted",
        per="position",
    ).records
    table = to_arrow("traces", record.traces.assign(record=0))
    traces = trace_set_from_rows(table, {0: "gsm8k"}, record.max_gamma)
    for gamma, published in {1: 1.693, 3: 2.379, 5: 2.651, 7: 2.750}.items():
        emitted = walk(traces, gamma, start=0).emitted
        assert emitted.mean() == pytest.approx(published, abs=5e-4)


def test_a_mean_over_positions_is_not_what_a_trace_gives(shared_data):
    """n-gram on code edits, γ = 5: 2.29 tokens a cycle at cycle starts, 3.87 over positions."""
    path = shared_data / "specdecode-bench" / "llama31_8b_h100_instructcoder.parquet"
    (record,) = read_paths(
        "acceptance_trace",
        path,
        column="emitted_ngram",
        accepted_or_emitted="emitted",
        per="position",
        proposer_kind="ngram",
        gamma=5,
    ).records
    table = to_arrow("traces", record.traces.assign(record=0))
    traces = trace_set_from_rows(table, {0: "code"}, 5)
    by_start = mean_emitted_tokens(survival_from_cycles(walk(traces, 5, start=0).accepted, 5))
    assert by_start == pytest.approx(2.29, abs=0.005)
    assert 1.0 + record.traces["accepted"].mean() == pytest.approx(3.87, abs=0.005)


# --- timed steps --------------------------------------------------------------------------------

HEADER = "batch_size,num_query_tokens,context_tokens,median_ms,repeats\n"


def _rows(shapes):
    return "".join(f"{b},{q},{c},{6.0 + 0.02 * b * q + 3e-5 * b * c:.6f},9\n" for b, q, c in shapes)


SHAPES = [(b, q, c) for b in (1, 2, 4, 8, 16) for q in (1, 4) for c in (128, 2048)]


def test_milliseconds_are_read_by_the_columns_name():
    reading = read_text("step_cost_csv", HEADER + _rows(SHAPES))
    assert reading.samples["median_s"].iloc[0] == pytest.approx(6.02384e-3)
    law = fit_imported(reading.samples, ["eagle"])
    assert law.target.per_kv_token_plain_s == pytest.approx(3e-8, rel=0.02)
    assert law.domain.max_query_tokens_per_request == 4


def test_without_verify_samples_reading_the_cache_is_not_free_for_them():
    reading = read_text("step_cost_csv", HEADER + _rows([s for s in SHAPES if s[1] == 1] * 1))
    law = fit_imported(reading.samples, [])
    assert law.target.per_kv_token_verify_s == law.target.per_kv_token_plain_s > 0.0
    assert law.domain.max_query_tokens_per_request == 1


BAD_TABLES = {
    "a shape twice": (HEADER + _rows([(1, 1, 1), (1, 1, 1)]), "repeats an earlier shape"),
    "a negative time": (HEADER + "1,1,1,-3,9\n", "above 0"),
    "no number": (HEADER + "1,1,1,fast,9\n", "a number"),
    "too few values": (HEADER + "1,1,1\n", "too few"),
    "too many values": (HEADER + "1,1,1,1,1,1\n", "too many"),
    "no row": (HEADER, "no row"),
    "no unit": (HEADER.replace("_ms", "") + "1,1,1,1,1\n", "name the unit"),
    "a broken count": (HEADER + "1.5,1,1,1,1\n", "whole number"),
    "an unknown phase": ("phase," + HEADER + "dream,1,1,1,1,1\n", "phase"),
    "a proposal without proposer": ("phase," + HEADER + "propose,1,1,1,1,1\n", "--proposer"),
    "two regimes": ("execution," + HEADER + "graph,1,1,1,1,1\neager,2,1,1,1,1\n", "one regime"),
    "a ragged step": ("num_reqs,num_tokens,context_tokens,median_ms\n3,7,9,1\n", "ragged"),
}


@pytest.mark.parametrize(("text", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_a_wrong_table_is_refused(text, message):
    with pytest.raises(EngineFileError, match=message):
        read_text("step_cost_csv", text)


def test_captured_h100_steps_give_the_published_cost_of_a_kv_token(shared_data):
    """0.0356 us a KV token: the study's own constant and ours by least squares (0.03563)."""
    text = (shared_data / "vllm-step-cost" / "step_cost_h100_vllm.csv").read_text()
    header, *rows = text.splitlines()
    kept = [row for row in rows if "h100_e5" in row and "cudagraph" in row]
    assert len(kept) == 77
    reading = read_text("step_cost_csv", "\n".join([header, *kept]))
    law = fit_imported(reading.samples, [])
    assert law.target.per_kv_token_plain_s == pytest.approx(3.563e-8, rel=0.02)
    assert law.held_out_error["target"].median_rel < 0.01
    assert np.isfinite(law.target.knot_s).all()


def test_a_lookups_cycles_without_a_match_count_as_one_token(shared_data):
    """n-gram on Spec-Bench, γ = 8: 63 % of cycles had a match, 1.77 tokens over all cycles."""
    path = shared_data / "accept_traces" / "smollm2_ngram_specbench.jsonl"
    reading = read_paths("acceptance_trace", path, proposer_kind="ngram")
    counts = [each for record in reading.records for each in record.counts.values()]
    cycles = sum(each.num_cycles for each in counts)
    assert sum(each.num_drafts for each in counts) / cycles == pytest.approx(0.63, abs=0.005)
    accepted = sum(each.num_accepted_tokens for each in counts)
    assert 1.0 + accepted / cycles == pytest.approx(1.77, abs=0.005)
