"""The validation of the serving loop: what is predicted, kept, refused and compared."""

import json
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from typer.testing import CliRunner

from calibration.contracts.named import contract_named
from calibration.errors import CalibrationError
from calibration.model.target import load_decoder
from calibration.proposers.ngram import NgramProposer
from calibration.serve.proposing import by_draft_model, by_lookup
from calibration.serve.run import serve
from calibration.validation.cli import app
from calibration.validation.compare import (
    ComparedCell,
    Comparison,
    compare_cell,
    decide,
    load_runs,
    with_own_acceptance,
)
from calibration.validation.figures import NAMES, figures_of
from calibration.validation.kept_run import KeptRun
from calibration.validation.plan import OFF, CellName, Plan
from calibration.validation.predict import Prediction, predict
from calibration.validation.questions import check_disjoint, read_questions
from calibration.validation.rows import Row, read_rows, write_rows
from calibration.validation.runs import REPEATS, Bed, run_missing, run_path
from calibration.validation.step_account import step_accounts
from calibration.validation.workload import make_rows, prompts_of, requests_of
from tests.factories import Recording, cost_law, make_profile

pytestmark = pytest.mark.torch
PLAN = Plan(gammas={"ngram": 2, "draft_model": 2}, loads={"light": 0.3, "heavy": 0.9}, seeds=(0, 1))
ONE_CELL = PLAN.model_copy(update={"gammas": {}, "loads": {"light": 0.3}})
TEXTS = [f"Question {n}: how many boats are in harbour number {n}, and why?" for n in range(4)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The public data sets' files with questions of our own."""
    folder = tmp_path_factory.mktemp("data")
    import gzip

    def lines(entries):
        return "".join(json.dumps(entry) + "\n" for entry in entries)

    files = {
        "mt_bench/question.jsonl": lines([{"question_id": 1, "turns": [TEXTS[0]]}]),
        "gsm8k/test.jsonl": lines([{"question": TEXTS[1], "answer": "2"}]),
        "spec_bench/question.jsonl": lines(
            [
                {"question_id": 1, "category": "writing", "turns": [TEXTS[0]]},
                {"question_id": 9, "category": "qa", "turns": [TEXTS[2]]},
            ]
        ),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir()
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "humaneval").mkdir()
    packed = gzip.compress(lines([{"task_id": "HumanEval/0", "prompt": TEXTS[3]}]).encode())
    (folder / "humaneval/HumanEval.jsonl.gz").write_bytes(packed)
    return folder


@pytest.fixture(scope="module")
def models(tiny_pair):
    return [load_decoder(path, "float64", "cpu") for path in (tiny_pair.target, tiny_pair.draft)]


@pytest.fixture(scope="module")
def bed(data, models, tmp_path_factory) -> Bed:
    """A prediction and everything that serves it."""
    target, draft = models
    folder = tmp_path_factory.mktemp("loop")
    rows = make_rows(PLAN, data, target, 4, seed=3)
    write_rows(folder / "requests.csv", rows)
    stored = make_profile(folder / "profile", Recording())
    prediction = predict(PLAN, stored, folder / "requests.csv", ["predict", "--folder", "/a/b"])
    proposing = {"ngram": by_lookup(NgramProposer), "draft_model": by_draft_model(draft)}
    return Bed(prediction, rows, prompts_of(rows, data, target), target, proposing)


@pytest.fixture
def half_written(tmp_path, bed):
    """A folder with a prediction whose requests are missing."""
    (tmp_path / "prediction.json").write_text(bed.prediction.model_dump_json(), encoding="utf-8")
    return tmp_path


def refusal(*arguments: str) -> str:
    """The one line that a command of the validation ends with."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    return line


def test_missing_and_half_written_files_are_refused_in_one_line(tmp_path, half_written):
    there = ["--folder", str(half_written)]
    nowhere = ["--folder", str(tmp_path / "nowhere")]
    assert "there is none; expected a prediction: run `predict`" in refusal("run", *nowhere)
    assert "cannot read" in refusal("run", *there)
    assert "run `predict --own-prompts`" in refusal("compare", *there)
    assert "holds a prediction" in refusal("predict", *there)
    assert "holds a prediction" in refusal("workload", *there)
    path = half_written / "prediction.json"
    path.write_text(path.read_text()[:500])
    assert "it cannot be read" in refusal("run", *there)


@pytest.mark.parametrize("text", ["", "half", "source,number\nmt_bench,1\n"])
def test_requests_that_are_not_whole_are_refused(tmp_path, text):
    (tmp_path / "requests.csv").write_text(text)
    with pytest.raises(CalibrationError, match="expected the requests that `workload` writes"):
        read_rows(tmp_path / "requests.csv")


def test_no_requests_are_no_workload(data, models):
    with pytest.raises(CalibrationError, match="requests is 0"):
        make_rows(PLAN, data, models[0], 0, seed=0)


def test_a_file_that_is_no_run_is_refused(tmp_path):
    name = CellName("light", OFF)
    run_path(tmp_path, name, 0).write_bytes(b"half a run")
    with pytest.raises(CalibrationError, match="is no finished run"):
        load_runs(tmp_path, name)


def test_a_prompt_that_was_calibrated_on_is_refused():
    seen = ["One two three four five six seven eight nine ten eleven twelve thirteen."]
    check_disjoint(["One two three four five six seven eight nine ten eleven."], seen)
    with pytest.raises(CalibrationError, match="shares 12 words"):
        check_disjoint(
            ["He said: two three four five six seven eight nine ten eleven twelve thirteen."], seen
        )
    with pytest.raises(CalibrationError, match="shares"):
        check_disjoint(["Say hello"], ["say  Hello"])


def test_no_question_comes_from_two_data_sets(data):
    found = [(question.source, question.text) for question in read_questions(data)]
    assert [source for source, _ in found] == ["mt_bench", "gsm8k", "humaneval", "spec_bench"]
    assert len({text for _, text in found}) == len(found)


def test_rows_hold_lengths_and_hashes_and_no_text(bed, data, tmp_path):
    write_rows(tmp_path / "requests.csv", bed.rows)
    assert read_rows(tmp_path / "requests.csv") == bed.rows
    written = (tmp_path / "requests.csv").read_text(encoding="utf-8")
    assert not any(text in written for text in TEXTS)
    assert bed.rows[0].arrival_s == 0.0
    assert [row.prompt_tokens for row in bed.rows] == [len(ids) for ids in bed.prompts]


def test_other_texts_than_those_recorded_are_refused(bed, data, models):
    rows = [replace(bed.rows[0], prompt_sha256="0" * 64)]
    with pytest.raises(CalibrationError, match="is not the one that was recorded"):
        prompts_of(rows, data, models[0])


def test_the_prediction_is_made_of_lengths_and_says_of_which(bed):
    written = bed.prediction.model_dump_json()
    assert Prediction.model_validate_json(written) == bed.prediction
    assert "/a/b" not in written
    cells = bed.prediction.cells
    assert [(cell.load, cell.proposer) for cell in cells] == [tuple(n) for n in PLAN.cells()]
    rates = {cell.load: cell.rate_per_s for cell in cells}
    assert rates["heavy"] == pytest.approx(3 * rates["light"], rel=0.05)
    off = bed.prediction.cell(CellName("light", OFF))
    assert off.figures.accepted_tokens_per_cycle == 0.0
    assert all(value == 0.0 for value in off.deviation.model_dump().values())  # nothing is drawn


def test_a_killed_validation_repeats_nothing(bed, tmp_path):
    num_runs = REPEATS * len(PLAN.cells())
    assert run_missing(bed, tmp_path, max_s=0.0) == num_runs
    told: list[str] = []

    def killing(line: str) -> None:
        told.append(line)
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_missing(bed, tmp_path, 600.0, killing, min_core_share=0.0)
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert set(kept) == {"light-off-0.npz", "light-ngram-0.npz"}
    assert run_missing(bed, tmp_path, 600.0, told.append, min_core_share=0.0) == 0
    assert len(told) == num_runs
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in kept} == kept


def test_a_run_that_shared_its_core_is_set_aside_and_still_missing(bed, tmp_path):
    one = replace(bed, prediction=bed.prediction.model_copy(update={"plan": ONE_CELL}))
    for time in range(2):
        left = run_missing(one, tmp_path, 600.0, min_core_share=2.0)  # nobody has two cores
        assert left == REPEATS
        assert len(list(tmp_path.glob("*.shared-*.npz"))) == REPEATS * (time + 1)
    assert run_missing(one, tmp_path, 600.0, min_core_share=0.0) == 0


def test_on_and_off_emit_alike_and_own_acceptance_leaves_cost_alone(bed, tmp_path):
    for proposer in (OFF, "ngram", "draft_model"):
        name = CellName("heavy", proposer)
        served = serve(bed.service(name), contract_named("greedy", is_chain=True))
        for repeat in range(REPEATS):
            KeptRun.of(served, 0.98).save(run_path(tmp_path, name, repeat))
        runs = load_runs(tmp_path, name)
        emitted = runs[0].requests["emitted_tokens"].tolist()
        assert emitted == [row.output_tokens for row in bed.rows]
        law = cost_law()
        own = with_own_acceptance(bed, name, runs[0], law)
        real = figures_of(runs[0].requests, runs[0].steps)
        if proposer != OFF:  # whose cycles are the same ones, whatever they cost
            assert own.accepted_tokens_per_cycle == real.accepted_tokens_per_cycle
        accounts = step_accounts(bed, name, runs[0], law)
        busy_s = sum(account.measured_s for account in accounts)
        steps = runs[0].steps
        assert busy_s == pytest.approx((steps["end_s"] - steps["begin_s"]).sum())
        assert {account.kind for account in accounts} >= {"prefill", "decode"}
        counts = {account.kind: account.num_steps for account in accounts}
        assert sum(counts.values()) == len(steps)
        assert all(a.padded_s >= a.priced_s for a in accounts)  # padding is never cheaper
        cell = compare_cell((bed.prediction, bed.prediction), name, runs, own, accounts)
        assert cell.numbers["e2e_p50_s"].noise == 0.0
        assert cell.numbers["e2e_p50_s"].error == pytest.approx(
            bed.prediction.cell(name).figures.e2e_p50_s / real.e2e_p50_s - 1.0
        )


def number(predicted: float, *measured: float, second: float | None = None) -> Comparison:
    mean = sum(measured) / len(measured)
    second = predicted if second is None else second
    return Comparison(
        predicted=predicted,
        measured=measured,
        error=predicted / mean - 1.0,
        noise=(max(measured) - min(measured)) / mean if len(measured) > 1 else None,
        own_prompts_error=second / mean - 1.0,
        explained_error=0.0,
    )


def cell(proposer: str, e2e: Comparison) -> ComparedCell:
    return ComparedCell(
        load="light",
        proposer=proposer,
        rate_per_s=1.0,
        core_shares=(1.0,),
        numbers=dict.fromkeys(NAMES, e2e),
        steps=(),
    )


def test_a_decision_is_right_where_the_sign_is_and_the_noise_of_both_cells_lets_one_tell():
    cells = [
        cell(OFF, number(1.0, 0.99, 1.01)),
        cell("ngram", number(0.9, 0.75, 0.85)),
        cell("draft_model", number(0.9, 1.15, 1.25, second=1.15)),
        cell("lookahead", number(0.9, 1.02, 1.06)),
        cell("suffix", number(1.1, 1.02)),
    ]
    ngram, draft, lookahead, suffix = decide(cells)
    assert ngram.verdict == "right"
    assert ngram.predicted_change == pytest.approx(-0.1)
    assert ngram.measured_change == pytest.approx(-0.2)
    assert ngram.noise == pytest.approx(0.125 + 0.02)
    assert draft.verdict == "wrong"
    assert draft.own_prompts_verdict == "right"
    assert draft.own_prompts_change == pytest.approx(0.15)
    assert lookahead.measured_change == pytest.approx(0.04)  # more than its own noise, not both's
    assert lookahead.verdict == "too close"
    assert suffix.verdict == "right"
    assert suffix.noise is None  # it ran once: nothing says how far its runs lie apart


def test_requests_of_a_rate_come_as_much_closer_as_it_is_higher(bed):
    slow, fast = (requests_of(bed.rows, bed.prompts, rate) for rate in (1.0, 4.0))
    assert [4.0 * request.arrival_s for request in fast] == pytest.approx(
        [request.arrival_s for request in slow]
    )
    assert [request.max_tokens for request in fast] == [row.output_tokens for row in bed.rows]


def test_too_few_prompts_are_refused(data, models):
    with pytest.raises(CalibrationError, match="expected 9"):
        make_rows(PLAN, data, models[0], 9, seed=0)


def test_rows_keep_the_calibrations_domain(bed):
    assert {row.source: row.domain for row in bed.rows} == {
        "mt_bench": "chat",
        "gsm8k": "chat",
        "humaneval": "code",
        "spec_bench": "chat",
    }
    assert isinstance(bed.rows[0], Row)
