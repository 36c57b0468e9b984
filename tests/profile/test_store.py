"""Profiles are validated on write and on read; damage is one clear sentence."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from simcore.errors import ProfileError
from simcore.profile.store import bundled_profiles, load_profile, write_profile
from tests.factories import Recording, make_profile


@pytest.fixture
def copy(recorded_profile, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(recorded_profile.folder, folder)
    return folder


def _edit(folder, change):
    path = folder / "profile.json"
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


def test_a_profile_comes_back_as_it_was_written(recorded_profile):
    again = load_profile(recorded_profile.folder)
    assert again.profile == recorded_profile.profile
    assert again.traces.equals(recorded_profile.traces)


@pytest.mark.parametrize("name", sorted(bundled_profiles()))
def test_every_bundled_profile_is_valid_with_its_tables(name):
    stored = load_profile(name)
    assert stored.profile.name == name
    if "traces" in stored.profile.tables:
        assert stored.traces.num_rows == stored.profile.tables["traces"].rows
    if "cost" in stored.profile.tables:
        assert stored.cost_samples.num_rows == stored.profile.tables["cost"].rows
    size_bytes = sum(path.stat().st_size for path in stored.folder.iterdir())
    assert size_bytes < 1_000_000


def test_a_truncated_table_is_refused(copy):
    path = copy / "traces.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ProfileError, match="truncated or was changed"):
        load_profile(copy)


def test_a_truncated_json_is_refused(copy):
    path = copy / "profile.json"
    path.write_text(path.read_text()[:500])
    with pytest.raises(ProfileError, match=r"whole profile\.json"):
        load_profile(copy)


def test_a_missing_table_is_refused(copy):
    (copy / "cost.parquet").unlink()
    with pytest.raises(ProfileError, match=r"cost.parquet is missing"):
        load_profile(copy)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_schema_version_is_refused(copy, version):
    _edit(copy, lambda raw: raw.update(schema_version=version))
    with pytest.raises(ProfileError, match="schema version"):
        load_profile(copy)


def test_an_unknown_field_is_refused_by_name(copy):
    _edit(copy, lambda raw: raw["cost"].update(speed="fast"))
    with pytest.raises(ProfileError, match=r"cost\.speed: unknown field"):
        load_profile(copy)


def test_nan_in_a_cost_law_is_refused(copy):
    _edit(copy, lambda raw: raw["cost"].update(overhead_s=float("nan")))
    with pytest.raises(ProfileError, match="overhead_s"):
        load_profile(copy)


def test_a_missing_profile_names_the_bundled_ones():
    with pytest.raises(ProfileError, match="llama31_8b_h100"):
        load_profile("no-such-profile")


def _tables(stored):
    return stored.cost_samples.to_pandas(), stored.traces.to_pandas()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("accepted", 9, "accepted <= proposed"),
        ("accepted", -1, "accepted"),
        ("start", 5, "out of order"),
        ("output_tokens", 3, "missing or out of order"),
    ],
)
def test_a_trace_that_contradicts_itself_is_refused_and_nothing_is_written(
    recorded_profile, tmp_path, column, value, message
):
    cost, traces = _tables(recorded_profile)
    traces.loc[10, column] = value
    with pytest.raises(ProfileError, match=message):
        write_profile(recorded_profile.profile, tmp_path / "bad", cost=cost, traces=traces)
    assert list(tmp_path.iterdir()) == []


def test_nan_in_a_ratio_is_refused(recorded_profile, tmp_path):
    cost, traces = _tables(recorded_profile)
    row = int(np.flatnonzero(traces["ratio"].notna())[0])
    traces.at[row, "ratio"] = np.array([np.nan, 1.0], dtype=np.float32)
    with pytest.raises(ProfileError, match="NaN"):
        write_profile(recorded_profile.profile, tmp_path / "bad", cost=cost, traces=traces)


def test_nan_seconds_are_refused(recorded_profile, tmp_path):
    cost, traces = _tables(recorded_profile)
    cost.loc[0, "median_s"] = np.nan
    with pytest.raises(ProfileError, match="median_s"):
        write_profile(recorded_profile.profile, tmp_path / "bad", cost=cost, traces=traces)


def test_an_empty_trace_is_refused(recorded_profile, tmp_path):
    cost, traces = _tables(recorded_profile)
    with pytest.raises(ProfileError, match="empty"):
        write_profile(recorded_profile.profile, tmp_path / "bad", cost=cost, traces=traces.head(0))


def test_a_measured_profile_without_cost_samples_is_refused(recorded_profile, tmp_path):
    _, traces = _tables(recorded_profile)
    with pytest.raises(ProfileError, match="cost"):
        write_profile(recorded_profile.profile, tmp_path / "bad", cost=None, traces=traces)


def test_a_missing_column_is_named(recorded_profile, tmp_path):
    cost, traces = _tables(recorded_profile)
    with pytest.raises(ProfileError, match="rank"):
        write_profile(
            recorded_profile.profile,
            tmp_path / "bad",
            cost=cost,
            traces=pd.DataFrame(traces.drop(columns="rank")),
        )


def test_writing_over_a_folder_of_something_else_is_refused(recorded_profile, tmp_path):
    (tmp_path / "thesis.txt").write_text("do not lose me")
    cost, traces = _tables(recorded_profile)
    with pytest.raises(ProfileError, match="holds no profile"):
        write_profile(recorded_profile.profile, tmp_path, cost=cost, traces=traces)
    assert (tmp_path / "thesis.txt").read_text() == "do not lose me"


def test_a_profile_is_replaced_as_a_whole(tmp_path):
    first_hash = make_profile(tmp_path / "one", Recording(seed=1)).content_hash
    second_hash = make_profile(tmp_path / "one", Recording(seed=2)).content_hash
    assert first_hash != second_hash
    assert {path.name for path in (tmp_path).iterdir()} == {"one"}
