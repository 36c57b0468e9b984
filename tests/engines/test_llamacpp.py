"""The whole way on the tiny pair, with small counts; no time is an assertion."""

import json
import urllib.error
from dataclasses import replace

import numpy as np
import pytest

from simcore.profile.store import load_profile
from tests.engines.calibrate import calibrate, import_profiles
from tests.engines.client import Prompt, run_load, scrape
from tests.engines.figures import NAMES
from tests.engines.measure import REPEATS, measure
from tests.engines.predict import predict
from tests.engines.server import serve
from tests.engines.studies import TINY, prompt_texts
from tests.engines.table import compare, decisions, render

pytestmark = pytest.mark.usefixtures("engine")

OFF, DRAFT, HIGH = TINY.conditions[:3]
SMALL = replace(
    TINY,
    conditions=(OFF, DRAFT, HIGH),
    loads={"heavy": 0.5},
    num_requests=16,
    output_tokens=(16, 32),
    contexts=(16, 48),
    prefills=(4, 8, 16, 24, 32, 48),
    steps=6,
    rounds=1,
    calibration_output_tokens=96,
    cores=None,
)


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """The folder of a small study: calibrated, predicted, measured."""
    folder = tmp_path_factory.mktemp("engines") / "tiny"
    calibrate(SMALL, folder)
    import_profiles(SMALL, folder)
    ids = prompt_texts("tiny")
    predicted = predict(SMALL, ids, folder)
    (folder / "predicted.json").write_text(json.dumps(predicted))
    for condition in SMALL.conditions:
        found = measure(SMALL, condition, ids, predicted["rates_per_s"])
        (folder / f"measured_{condition.name}.json").write_text(json.dumps(found))
    return folder


def test_dialled_acceptance_is_imported_within_its_standard_error(studied):
    records = load_profile(str(studied / "draft_model")).profile.acceptance
    (record,) = (each for each in records if each.domain == HIGH.domain)
    counts = record.counts[HIGH.gamma]
    assert counts.num_cycles == counts.num_drafts
    tried = np.array([counts.num_drafts, *counts.accepted_per_position[:-1]])
    dialled = np.array(HIGH.synth_rates) / np.array([1.0, *HIGH.synth_rates[:-1]])
    error = np.sqrt(dialled * (1.0 - dialled) / tried)
    # Drafts cut at a request's end were never tried at their later positions.
    cut = HIGH.gamma - counts.num_draft_tokens / counts.num_drafts
    found = np.array(counts.accepted_per_position) / tried
    assert (np.abs(found - dialled) <= 4.0 * error + cut).all()


def test_the_engine_emits_as_many_tokens_a_cycle_as_are_dialled(studied):
    cell = compare(studied)[f"{HIGH.name}/heavy"]["tokens_per_cycle"]
    # Cycles near the end draft less; standard error of accepted tokens over some 130 cycles.
    assert cell.mean == pytest.approx(1.0 + sum(HIGH.synth_rates), abs=0.5)
    assert cell.predicted == pytest.approx(1.0 + sum(HIGH.synth_rates), abs=0.5)


def test_every_cell_has_every_figure_on_both_sides(studied):
    cells = compare(studied)
    assert set(cells) == {f"{condition.name}/heavy" for condition in SMALL.conditions}
    for cell in cells.values():
        assert set(cell) == set(NAMES)
        for found in cell.values():
            assert len(found.measured) == REPEATS
            assert min(found.predicted, *found.measured) > 0.0
    assert set(decisions(cells)) == {f"{DRAFT.name}/heavy", f"{HIGH.name}/heavy"}
    assert all(f"| {cell} |" in render(studied.parent) for cell in cells)


def test_plain_decoding_emits_one_token_a_cycle_on_both_sides(studied):
    cell = compare(studied)["off/heavy"]["tokens_per_cycle"]
    assert cell.predicted == 1.0
    assert cell.measured == (1.0, 1.0)


def test_a_stopped_server_is_gone_and_had_counted_what_was_asked():
    with serve(SMALL.setup(OFF)) as address:
        before = _generated(scrape(address))
        prompts = [Prompt((5, 6, 7), tokens, seed=0) for tokens in (4, 9, 2)]
        answers = run_load(address, prompts, [0.0, 0.01, 0.02])
        assert [each.output_tokens for each in answers] == [4, 9, 2]
        assert _generated(scrape(address)) - before == 15
        assert all(each.sent_s < each.first_s <= each.last_s for each in answers)
    with pytest.raises(urllib.error.URLError):
        scrape(address)


def test_a_server_that_cannot_start_says_why(tmp_path):
    with (
        pytest.raises(RuntimeError, match="did not start"),
        serve(replace(SMALL.setup(OFF), target=tmp_path / "none.gguf")),
    ):
        pass


def _generated(text: str) -> int:
    line = next(
        each for each in text.splitlines() if each.startswith("llamacpp:tokens_predicted_total")
    )
    return int(line.split()[1])
