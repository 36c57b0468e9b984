"""Every kind of lengths against its law; rows of a file stay together."""

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from scipy import stats

from simcore.errors import ScenarioError
from simcore.workload.sampling import sample_requests
from tests.workload.conftest import DATA

BATCH = {"kind": "batch"}
TABLE = pd.DataFrame({"p": [5, 50, 500, 5000], "o": [1, 2, 3, 4], "note": ["a", "b", "c", "d"]})
ROWS = [(10.0, 11, 2), (12.0, 12, 3), (12.0, 13, 4), (20.0, 14, 5)]


def _draw(workload, seed=1):
    return sample_requests(workload, ("a",), None, seed=seed)


def _empirical(file, **changes):
    columns = {"prompt_column": "p", "output_column": "o"}
    return {"kind": "empirical", "path": str(file)} | columns | changes


@pytest.fixture(params=["csv", "parquet"])
def table_file(request, tmp_path):
    path = tmp_path / f"lengths.{request.param}"
    if request.param == "csv":
        TABLE.to_csv(path, index=False)
    else:
        TABLE.to_parquet(path)
    return path


def test_fixed_lengths_are_all_alike(make_workload):
    lengths = {"kind": "fixed", "prompt_tokens": 7, "output_tokens": 3}
    batch = _draw(make_workload(BATCH, 50, lengths))
    assert set(batch.prompt_tokens) == {7}
    assert set(batch.output_tokens) == {3}


def test_rows_of_a_table_come_together_and_equally_often(make_workload, table_file):
    batch = _draw(make_workload(BATCH, 20_000, _empirical(table_file)))
    row = batch.output_tokens - 1
    assert np.array_equal(batch.prompt_tokens, TABLE["p"].to_numpy()[row])
    assert stats.chisquare(np.bincount(row)).pvalue > 1e-3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_column": "q"}, "no column 'q'; expected it once, found p, o, note"),
        ({"prompt_column": "note"}, "column 'note' holds"),
        ({"path": "/nowhere.csv"}, "is not there"),
    ],
)
def test_a_table_without_the_named_numbers_is_refused(make_workload, table_file, changes, message):
    with pytest.raises(ScenarioError, match=message):
        _draw(make_workload(BATCH, 5, _empirical(table_file, **changes)))


@pytest.mark.parametrize("value", [0, -1, 2.5, None, 1e12])
def test_a_length_that_is_none_is_refused_with_its_row(make_workload, tmp_path, value):
    path = tmp_path / "lengths.parquet"
    pd.DataFrame({"p": [5, 6, value], "o": [1, 2, 3]}).to_parquet(path)
    with pytest.raises(ScenarioError, match=r"row 3: prompt of .* tokens; expected a whole"):
        _draw(make_workload(BATCH, 5, _empirical(path)))


@pytest.mark.parametrize("kept", [4, 60, 0.5])
def test_a_damaged_parquet_file_is_refused(make_workload, tmp_path, kept):
    path = tmp_path / "lengths.parquet"
    TABLE.to_parquet(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) if kept < 1 else kept])
    with pytest.raises(ScenarioError, match="is a damaged Parquet file"):
        _draw(make_workload(BATCH, 5, _empirical(path)))


def test_the_public_arxiv_lengths_are_drawn_with_their_published_mean(make_workload, shared_data):
    lengths = {
        "kind": "empirical",
        "path": str(shared_data / "arxiv_summarization_lengths/arxiv_summarization_lengths.csv"),
        "prompt_column": "num_prefill_tokens",
        "output_column": "num_decode_tokens",
    }
    batch = _draw(make_workload(BATCH, 50_000, lengths))
    for tokens, mean in ((batch.prompt_tokens, 2588), (batch.output_tokens, 291)):
        assert abs(tokens.mean() - mean) < 4 * tokens.std() / np.sqrt(len(tokens)) + 0.5


# --- rows of a recorded file ---------------------------------------------------------------------


def test_times_and_lengths_of_a_row_stay_together(make_workload, request_file):
    arrivals = {"kind": "recorded", "path": request_file(ROWS), "start_s": 1.0, "rate_scale": 2.0}
    batch = _draw(make_workload(arrivals, None, {"kind": "file_rows"}))
    assert batch.arrival_s.tolist() == [0.5, 0.5, 4.5]
    assert batch.prompt_tokens.tolist() == [12, 13, 14]
    assert batch.output_tokens.tolist() == [3, 4, 5]


def test_recorded_times_go_with_lengths_of_any_other_kind(make_workload, request_file):
    batch = _draw(make_workload({"kind": "recorded", "path": request_file(ROWS)}, 3))
    assert batch.arrival_s.tolist() == [0.0, 2.0, 2.0]
    assert set(batch.prompt_tokens) == {12}


@pytest.mark.parametrize("arrivals", [BATCH, {"kind": "poisson", "rate_per_s": 2.0}])
def test_lengths_of_a_benchmark_without_times_go_with_other_arrivals(make_workload, arrivals):
    lengths = {"kind": "file_rows", "file": {"path": str(DATA / "sglang_bench.jsonl")}}
    batch = _draw(make_workload(arrivals, None, lengths))
    assert batch.prompt_tokens.tolist() == [12, 34, 56]
    assert batch.output_tokens.tolist() == [5, 6, 7]


def test_a_file_of_times_has_no_lengths(make_workload, tmp_path):
    path = tmp_path / "times.csv"
    path.write_text("arrival_s\n1\n2\n")
    arrivals = {"kind": "recorded", "path": str(path)}
    with pytest.raises(ScenarioError, match="holds no prompt lengths; use another kind"):
        _draw(make_workload(arrivals, None, {"kind": "file_rows"}))


@pytest.mark.parametrize(
    ("arrivals", "lengths", "message"),
    [
        (BATCH, {"kind": "file_rows"}, "name no file; add lengths.file"),
        (
            {"kind": "recorded", "path": "a.csv"},
            {"kind": "file_rows", "file": {"path": "b.csv"}},
            "leave lengths.file out",
        ),
        (BATCH, {"kind": "fixed", "prompt_tokens": 0, "output_tokens": 1}, "greater than or equal"),
        (BATCH, {"kind": "fixed", "prompt_tokens": 1, "output_tokens": 0}, "greater than or equal"),
        (BATCH, {"kind": "empirical", "path": ""}, "at least 1 character"),
    ],
)
def test_lengths_that_contradict_the_workload_are_refused(
    make_workload, arrivals, lengths, message
):
    with pytest.raises(ValidationError, match=message):
        make_workload(arrivals, 5, lengths)
