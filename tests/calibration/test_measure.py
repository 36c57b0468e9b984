"""A whole small measurement on the tiny pair: it loads, validates, resumes and repeats nothing."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from typer.testing import CliRunner

from calibration.cells import VISITS
from calibration.cli import app
from calibration.errors import CalibrationError
from calibration.grid import Grid
from calibration.measure import measure
from calibration.settings import MeasureSettings
from simcore.profile.store import load_profile

pytestmark = pytest.mark.torch
GRID = Grid(batches=(1, 2), contexts=(8, 24), gammas=(0, 1, 2, 4), prefill_chunks=(16, 32))


@pytest.fixture(scope="module")
def settings(tiny_pair, prompts_file, tmp_path_factory) -> MeasureSettings:
    return MeasureSettings(
        output=tmp_path_factory.mktemp("measured") / "tiny",
        name="tiny",
        target=tiny_pair.target,
        draft=tiny_pair.draft,
        dtype="float64",
        threads=1,
        grid=GRID,
        num_rounds=2,
        max_tokens=12,
        prompts=prompts_file,
        prompts_per_domain=2,
        decoded_per_domain=1,
    )


@pytest.fixture(scope="module")
def stored(settings):
    measure(settings, ["measure", "--target", "/some/where/tiny"])
    return load_profile(settings.output)


def test_the_profile_names_what_was_measured(stored, settings):
    profile = stored.profile
    assert profile.source == "measured"
    assert set(profile.proposers) == {"ngram", "draft_model"}
    assert profile.identity.target.dtype == "float64"
    assert profile.identity.hardware.threads == 1
    assert "/some/where" not in profile.provenance.command
    assert profile.proposers["draft_model"].weight_bytes > 0
    assert len(profile.acceptance) == 2 * 2 * 2  # proposers, temperatures, domains
    assert str(settings.output.parent) not in profile.model_dump_json()


def test_every_cell_of_the_grid_was_timed_in_every_round(stored):
    samples = stored.cost_samples.to_pandas()
    shapes = len(GRID.shapes())
    target = samples[samples["phase"] == "target"]
    decoding = target["num_query_tokens"] == target["num_speculative_tokens"] + 1
    whole_prompts = {(shape.batch_size, shape.context_tokens, 0) for shape in GRID.shapes()}
    chunks = {(s.batch_size, s.chunk_tokens, s.context_tokens) for s in GRID.prefill_shapes()}
    columns = ["batch_size", "num_query_tokens", "context_tokens"]
    read = set(target.loc[~decoding, columns].itertuples(index=False, name=None))
    assert decoding.sum() == shapes * 4
    assert read == whole_prompts | chunks
    assert (samples["phase"] == "reconcile").sum() == shapes * 4
    proposals = samples[samples["phase"] == "propose"]
    assert (proposals["num_speculative_tokens"] > 0).sum() == shapes * 3 * 2
    prefill = proposals[proposals["num_speculative_tokens"] == 0]
    assert prefill["proposer"].tolist() == ["draft_model"] * len(read)
    assert stored.profile.cost.proposer_runs["draft_model"].per_prefill_token_s > 0.0
    assert (samples["repeats"] >= 2).all()
    drafting = samples["num_speculative_tokens"] > 0
    visits = 2 * VISITS * np.where(samples["phase"] == "propose", 1, 2)  # two services draft
    assert (samples["repeats"][drafting] == visits[drafting]).all()
    assert (samples["p10_s"] <= samples["median_s"]).all()
    assert (samples["median_s"] <= samples["p90_s"]).all()


def test_ratios_exist_only_where_a_stochastic_draft_was_sampled(stored):
    traces = stored.traces.to_pandas()
    for record in stored.profile.acceptance:
        rows = traces[traces["record"] == record.key]
        stochastic = record.proposer == "draft_model" and record.sampling.temperature > 0
        assert rows["ratio"].notna().all() == stochastic
        assert rows["ratio"].isna().all() != stochastic


def test_deterministic_records_agree_exactly_with_their_real_cycles(stored):
    for note in stored.profile.provenance.notes:
        if note.startswith("record") and ("ngram" in note or "T = 0" in note):
            real, walked = (part.split(" tokens a cycle")[0] for part in (note, note))
            figure = real.split(": ")[1]
            assert f"{figure} walking" in note, walked


def interrupting(after: int):
    """Tracks silently and stops the run like Ctrl-C before the given piece of decoding."""

    def track(items: Sequence, label: str) -> Iterable:
        for index, item in enumerate(items):
            if label == "decoding prompts" and index == after:
                raise KeyboardInterrupt
            yield item

    return track


def test_an_interrupted_run_is_taken_up_and_repeats_nothing_finished(settings, tmp_path):
    asked = replace(settings, output=tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        measure(asked, track=interrupting(after=5))
    assert not asked.output.exists()
    (work,) = tmp_path.glob(".out-work-*")
    before = {path.name: path.stat().st_mtime_ns for path in work.iterdir()}
    assert len(before) == asked.num_rounds + 5
    labels: list[str] = []
    seen: dict[str, int] = {}

    def watching(items: Sequence, label: str) -> Iterable:
        labels.append(label)
        yield from items
        seen.update({path.name: path.stat().st_mtime_ns for path in work.iterdir()})

    measure(asked, track=watching)
    assert labels == ["decoding prompts"]  # the timing rounds were all finished
    assert {name: seen[name] for name in before} == before
    assert not work.exists()
    assert load_profile(asked.output).profile.provenance.sample_counts["timing_rounds"] == 2


def test_resumed_and_uninterrupted_runs_give_the_same_traces(settings, stored, tmp_path):
    asked = replace(settings, output=tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        measure(asked, track=interrupting(after=7))
    measure(asked)
    assert load_profile(asked.output).traces.equals(stored.traces)


def test_texts_beyond_the_targets_context_are_refused_before_anything_is_timed(settings, tmp_path):
    labels: list[str] = []

    def watching(items: Sequence, label: str) -> Iterable:
        labels.append(label)
        yield from items

    asked = replace(settings, output=tmp_path / "out", max_tokens=10**6)
    with pytest.raises(CalibrationError, match="the target was made for"):
        measure(asked, track=watching)
    assert labels == []
    assert list(tmp_path.iterdir()) == []


def test_other_settings_do_not_take_up_a_foreign_run(settings, tmp_path):
    asked = replace(settings, output=tmp_path / "out", temperatures=(0.0,), num_rounds=1)
    with pytest.raises(KeyboardInterrupt):
        measure(asked, track=interrupting(after=1))
    measure(replace(asked, max_tokens=6))
    (left,) = tmp_path.glob(".out-work-*")  # the interrupted run's, still whole
    assert len(list(left.iterdir())) == 2
    traces = load_profile(asked.output).traces.to_pandas()
    assert np.all(traces["output_tokens"] <= 6)


def test_json_prints_one_object_and_nothing_else(settings, tiny_pair, prompts_file, tmp_path):
    result = CliRunner().invoke(
        app,
        [
            *("measure", "--output", str(tmp_path / "cli"), "--json"),
            *("--target", str(tiny_pair.target), "--draft", str(tiny_pair.draft)),
            *("--dtype", "float64", "--threads", "1", "--rounds", "1"),
            *("--batches", "1,2", "--contexts", "8", "--gammas", "0,1,2,3,4,5"),
            *("--max-tokens", "6", "--prompts", str(prompts_file), "--prompts-per-domain", "1"),
        ],
    )
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["profile"] == "cli"
    assert Path(summary["folder"]) == tmp_path / "cli"
