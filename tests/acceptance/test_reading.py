"""Reading recorded lists: right, or one clear sentence."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.reading import read_lists
from simcore.errors import AcceptanceError

ROWS = [{"acc": [2, 0, 1], "output_tokens": 3}, {"acc": [0, 1], "output_tokens": 2}]


def _write(folder, rows, name="lists.jsonl"):
    path = folder / name
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif name.endswith(".json"):
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["lists.jsonl", "lists.json", "lists.parquet"])
def test_every_format_holds_the_same_lists(tmp_path, name):
    found = read_lists(_write(tmp_path, ROWS, name))
    assert [each.tolist() for each in found.accepted] == [[2, 0, 1], [0, 1]]
    assert found.output_tokens.tolist() == [3, 2]
    assert found.per == "position"


def test_emitted_tokens_are_one_more_than_accepted_drafts(tmp_path):
    path = _write(tmp_path, [{"emitted": [3, 1, 2]}])
    assert read_lists(path).accepted[0].tolist() == [2, 0, 1]
    assert read_lists(path, counts="accepted").accepted[0].tolist() == [3, 1, 2]


def test_cycles_answer_at_the_draft_length_of_their_row(tmp_path):
    rows = [{"acc": [4, 0], "gamma": 4}, {"acc": [1, 1, 0], "gamma": 1}]
    lists = read_lists(_write(tmp_path, rows), column="acc", per="cycle")
    assert lists.gammas() == (1, 4)
    assert lists.cycles(4).accepted.tolist() == [4, 0]
    assert lists.cycles(1).output_tokens.tolist() == [5]
    with pytest.raises(AcceptanceError, match="recorded at γ 1, 4"):
        lists.cycles(3)


def test_the_profiles_trace_table_is_read_record_by_record(recorded_profile):
    path = recorded_profile.folder / "traces.parquet"
    table = pq.read_table(path).to_pandas()
    first = int(table.record.min())
    own = table[table.record == first]
    found = read_lists(path, record=first)
    assert found.num_requests == own.request.nunique()
    assert np.concatenate(found.accepted).tolist() == own.accepted.tolist()
    with pytest.raises(AcceptanceError, match="pick one"):
        read_lists(path)
    with pytest.raises(AcceptanceError, match="no record"):
        read_lists(path, record=999)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"acc": [1, 0], "prop": [1, 1]}], {}, "name one with --column"),
        ([{"acc": [1, 0]}], {"column": "other"}, "no column 'other'"),
        ([{"acc": [1, -1]}], {}, "negative"),
        ([{"acc": [1.5]}], {"column": "acc"}, "fractional"),
        ([{"acc": ["1"]}], {"column": "acc"}, "lists of whole numbers"),
        ([{"acc": [True]}], {"column": "acc"}, "lists of whole numbers"),
        ([{"acc": 3}], {"column": "acc"}, "lists of whole numbers"),
        ([{"acc": [1, None]}], {"column": "acc"}, "missing"),
        ([{"acc": [0]}, {"other": [0]}], {"column": "acc"}, "missing"),
        ([{"values": [1, 2]}], {}, "say --counts"),
        ([{"acc": [0, 2]}], {"counts": "emitted"}, "at least one token"),
        ([{"acc": [2], "prop": [1]}], {"column": "acc", "proposed": "prop"}, "at least as large"),
        ([{"acc": [2], "prop": [2, 2]}], {"column": "acc", "proposed": "prop"}, "one for each"),
        ([{"acc": [0], "gamma": 4}], {}, "--per cycle"),
        ([{"acc": [0], "output_tokens": "x"}], {}, "whole numbers"),
        ([{"acc": [0], "output_tokens": -1}], {}, "negative or huge"),
        ([{"acc": [0], "output_tokens": 2**62}], {}, "negative or huge"),
        ([{"acc": [0], "output_tokens": 10**20}], {}, "cannot be read"),
        ([{"acc": [10**20]}], {}, "cannot be read"),
        ([{"acc": [0], "gamma": -1}], {"per": "cycle"}, "negative or huge"),
        ([{"acc": [0]}], {"record": 1}, "trace table"),
        ([], {}, "no row"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, rows, options, message):
    with pytest.raises(AcceptanceError, match=message):
        read_lists(_write(tmp_path, rows, "lists.json"), **options)


def test_a_cut_or_reordered_trace_table_is_refused(recorded_profile, tmp_path):
    table = pq.read_table(recorded_profile.folder / "traces.parquet")
    path = tmp_path / "cut.parquet"
    pq.write_table(table.slice(1, 20), path)
    with pytest.raises(AcceptanceError, match="cut or reordered"):
        read_lists(path)


@given(content=st.binary(max_size=200), suffix=st.sampled_from([".jsonl", ".json", ".parquet"]))
def test_any_bytes_give_lists_or_one_sentence(tmp_path, content, suffix):
    path = tmp_path / f"any{suffix}"
    path.write_bytes(content)
    with pytest.raises(AcceptanceError, match="any"):
        read_lists(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(AcceptanceError, match="absent"):
        read_lists(tmp_path / "absent.parquet")
