"""specplan import: what becomes of files, with nothing half written."""

import json
import shutil

import pytest
import yaml

from simcore.errors import ProfileError
from simcore.profile.importers import IMPORTERS
from simcore.profile.store import load_profile, load_profile_or_part
from simcore.scenario import dump_scenario
from tests.factories import invented_identity, make_scenario
from tests.profile.importers.conftest import INVENTED, REAL
from tests.profile.importers.test_traces_and_steps import HEADER, SHAPES, _rows

LOG = str(REAL / "llamacpp.log")
SAID = ("--proposer", "draft_model", "--temperature", "1", "--domain", "import")


@pytest.fixture
def step_times(tmp_path):
    """A CSV of timed steps."""
    path = tmp_path / "steps.csv"
    path.write_text(HEADER + _rows(SHAPES))
    return str(path)


@pytest.fixture
def identity(tmp_path):
    """An identity as JSON."""
    path = tmp_path / "identity.json"
    path.write_text(invented_identity().model_dump_json())
    return str(path)


def _scenario_file(stored, tmp_path, folder, **changes):
    scenario = make_scenario(
        stored,
        **{
            "contract": "exact_sampling",
            "sampling": {"temperature": 1.0},
            "workload.num_requests": 20,
            "workload.domains": {"import": 1.0},
            "workload.lengths": {"kind": "fixed", "prompt_tokens": 20, "output_tokens": 30},
            "speculation.proposer": "draft_model",
            "speculation.num_speculative_tokens": 3,
        },
    )
    raw = yaml.safe_load(dump_scenario(scenario)) | {"profile": str(folder)} | changes
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(raw))
    return str(path)


def test_a_dry_run_says_what_it_understood_and_writes_nothing(specplan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = specplan("import", "auto", LOG, "--dry-run")
    assert (code, err) == (0, "")
    assert out.startswith("llamacpp_log: llama.cpp")
    assert "survival by position 0.600 0.410 0.295" in out
    assert "conditional acceptance 0.600 0.683 0.721" in out
    assert "Missing: what a step costs" in out
    assert list(tmp_path.iterdir()) == []


def test_an_import_merged_into_a_profile_is_simulated_and_planned_with(
    specplan, recorded_profile, tmp_path
):
    out = tmp_path / "merged"
    code, text, _ = specplan(
        "import", "auto", LOG, "--into", str(recorded_profile.folder), "-o", str(out), *SAID
    )
    assert code == 0
    assert "Nothing is missing" in text
    stored = load_profile(out)
    assert stored.profile.source.value == "imported"
    assert stored.traces.equals(recorded_profile.traces)
    assert stored.requests.num_rows == 6
    record = stored.profile.acceptance[-1]
    assert (record.kind, record.num_requests, record.origin.engine) == (
        "request_counters",
        6,
        "llama.cpp",
    )
    scenario = _scenario_file(recorded_profile, tmp_path, out)
    code, text, err = specplan("simulate", scenario, "--json")
    assert (code, err) == (0, "")
    assert json.loads(text)["origin"]["acceptance_model"] == "positional"
    code, text, _ = specplan("plan", scenario, "--replications", "2", "--json")
    assert code == 0
    assert json.loads(text)["profile"]["source"] == "imported"


def test_an_import_without_a_profile_is_a_part_that_nothing_can_be_planned_with(
    specplan, recorded_profile, tmp_path
):
    out = tmp_path / "part"
    code, text, _ = specplan("import", "auto", LOG, "-o", str(out), *SAID)
    assert code == 0
    assert "Missing: the target and the machine" in text
    part, _ = load_profile_or_part(out)
    assert part.missing == ("identity", "cost")
    code, _, err = specplan("simulate", _scenario_file(recorded_profile, tmp_path, out))
    assert code == 2
    assert "without identity and cost" in err
    assert err.count("\n") == 1


def test_acceptance_cost_and_identity_together_are_a_whole_profile(
    specplan, recorded_profile, tmp_path, step_times, identity
):
    part, whole = tmp_path / "part", tmp_path / "whole"
    assert specplan("import", "auto", LOG, "-o", str(part), *SAID)[0] == 0
    code, text, _ = specplan(
        "import", "step_cost_csv", step_times, "--into", str(part), "--identity", identity,
        "-o", str(whole),
    )  # fmt: skip
    assert code == 0
    assert "proposing with draft_model is free" in text
    stored = load_profile(whole)
    assert stored.profile.source.value == "imported"
    assert stored.cost_samples.num_rows == len(SHAPES)
    assert stored.requests.num_rows == 6
    code, _, err = specplan("simulate", _scenario_file(recorded_profile, tmp_path, whole))
    assert (code, err) == (0, "")


def test_target_passes_replace_the_targets_cost_and_leave_the_proposers(
    specplan, recorded_profile, tmp_path, step_times
):
    out = tmp_path / "merged"
    into = ("--into", str(recorded_profile.folder), "-o", str(out))
    assert specplan("import", "auto", step_times, *into)[0] == 0
    held, merged = recorded_profile.profile.cost, load_profile(out).profile.cost
    assert merged.target != held.target
    assert (merged.propose, merged.reconcile, merged.overhead_s) == (
        held.propose,
        held.reconcile,
        held.overhead_s,
    )


def test_whole_steps_of_one_proposer_do_not_price_a_profile_with_two(
    specplan, recorded_profile, tmp_path
):
    log = str(INVENTED / "sglang.log")
    into = ("--into", str(recorded_profile.folder), "-o", str(tmp_path / "merged"))
    code, _, err = specplan("import", "auto", log, "--gamma", "3", *SAID, *into)
    assert code == 2
    assert "drafting of one proposer" in err


def test_cost_alone_is_a_part_without_acceptance(specplan, tmp_path, step_times):
    code, _, _ = specplan("import", "auto", step_times, "-o", str(tmp_path / "part"))
    assert code == 0
    part, _ = load_profile_or_part(tmp_path / "part")
    assert part.missing == ("identity", "acceptance")
    with pytest.raises(ProfileError, match="without identity and acceptance"):
        load_profile(tmp_path / "part")


def test_a_trace_that_was_imported_is_replayed(specplan, recorded_profile, tmp_path):
    trace = tmp_path / "trace.jsonl"
    lines = [{"acc": [2, 1, 0, 3, 2, 1, 0, 0], "domain": "import"}] * 4
    trace.write_text("\n".join(map(json.dumps, lines)))
    out = tmp_path / "merged"
    code, _, err = specplan(
        "import", "acceptance_trace", str(trace), "--per", "position", "--into",
        str(recorded_profile.folder), "-o", str(out), *SAID,
    )  # fmt: skip
    assert (code, err) == (0, "")
    stored = load_profile(out)
    assert stored.profile.acceptance[-1].counted_at == "every_position"
    assert stored.traces.num_rows == recorded_profile.traces.num_rows + 32
    kept = stored.traces.slice(0, recorded_profile.traces.num_rows)
    assert kept.equals(recorded_profile.traces)
    code, text, _ = specplan("simulate", _scenario_file(recorded_profile, tmp_path, out), "--json")
    assert json.loads(text)["origin"]["acceptance_model"] == "trace"


def test_another_draft_length_joins_and_the_same_one_is_refused_unless_it_replaces(
    specplan, recorded_profile, tmp_path
):
    run = {
        "completed": 5,
        "model_id": "invented-100m",
        "num_prompts": 5,
        "mean_tpot_ms": 1.0,
        "spec_decode_num_drafts": 100,
        "spec_decode_accepted_tokens": 90,
    }
    lengths = {2: [0.5, 0.4], 3: [0.5, 0.3, 0.1]}
    for gamma, rates in lengths.items():
        found = {
            "spec_decode_draft_tokens": 100 * gamma,
            "spec_decode_per_position_acceptance_rates": rates,
        }
        (tmp_path / f"{gamma}.json").write_text(json.dumps(run | found))
    one, two = tmp_path / "one", tmp_path / "two"
    first = ("import", "auto", str(tmp_path / "2.json"), *SAID)
    again = ("--into", str(one), "-o", str(two))
    assert specplan(*first, "--into", str(recorded_profile.folder), "-o", str(one))[0] == 0
    assert specplan("import", "auto", str(tmp_path / "3.json"), *SAID, *again)[0] == 0
    assert load_profile(two).profile.acceptance[-1].gammas() == (2, 3)
    code, _, err = specplan(*first, *again)
    assert (code, "--replace" in err) == (2, True)
    assert specplan(*first, *again, "--replace")[0] == 0
    assert load_profile(two).profile.acceptance[-1].gammas() == (2,)


def test_a_replaced_trace_takes_its_rows_along(specplan, recorded_profile, tmp_path):
    out = tmp_path / "merged"
    code, _, err = specplan(
        "import", "auto", LOG, "--into", str(recorded_profile.folder), "-o", str(out),
        "--proposer", "draft_model", "--temperature", "1", "--domain", "code", "--replace",
    )  # fmt: skip
    assert (code, err) == (0, "")
    stored = load_profile(out)
    assert len(stored.profile.acceptance) == len(recorded_profile.profile.acceptance)
    assert stored.traces.num_rows < recorded_profile.traces.num_rows


BAD = {
    "no such file": (("nowhere.log",), (), "not there"),
    "nowhere to write": ((LOG,), None, "--output"),
    "an unknown kind": ((LOG,), ("--kind", "vllm"), "no kind 'vllm'"),
    "a file twice": ((LOG, LOG), (), "are the same"),
    "files of two kinds": ((LOG, str(REAL / "vllm.log")), (), "one kind at a time"),
    "no proposer": ((LOG,), ("--temperature", "1"), "--proposer"),
    "no temperature": ((LOG,), ("--proposer", "eagle"), "--temperature"),
    "a hot temperature": ((LOG,), ("--temperature", "99"), "temperature"),
    "a γ of 0": ((LOG,), ("--gamma", "0"), "gamma"),
    "another γ": ((LOG,), ("--gamma", "2"), "--gamma says 2"),
    "a new proposer of no kind": (
        (LOG,),
        ("--proposer", "medusa", "--temperature", "1"),
        "--proposer-kind",
    ),
    "a mean and nothing else": (
        (str(INVENTED / "sglang_bench.jsonl"),),
        SAID,
        "a mean alone gives no survival",
    ),
    "no profile to merge into": ((LOG,), (*SAID, "--into", "nowhere"), "no profile 'nowhere'"),
    "no identity": ((LOG,), (*SAID, "--identity", "nowhere.json"), "nowhere.json"),
}


@pytest.mark.parametrize(("files", "options", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_exit_code_two_and_no_folder(
    specplan, tmp_path, files, options, message
):
    out = tmp_path / "out"
    options = list(options) if options is not None else None
    kind = "auto"
    if options and options[0] == "--kind":
        kind, options = options[1], []
    written = [] if options is None else ["-o", str(out), *options]
    code, stdout, err = specplan("import", kind, *files, *written)
    assert (code, stdout) == (2, "")
    assert message in err
    assert err.startswith("specplan: ")
    assert err.count("\n") == 1
    assert not out.exists()


MISMATCHES = {
    "another target": ((), "--target invented-100m"),
    "another quantization": (
        ("--target", "invented-100m", "--target-quantization", "fp8"),
        "never mix",
    ),
    "an unpriced proposer": (
        ("--target", "invented-100m", "--proposer", "eagle"),
        "no cost of proposing",
    ),
    "another kind of proposer": (
        ("--target", "invented-100m", "--proposer-kind", "ngram"),
        "expected the same",
    ),
}


@pytest.mark.parametrize(("options", "message"), MISMATCHES.values(), ids=MISMATCHES)
def test_what_belongs_to_another_model_is_not_merged(
    specplan, recorded_profile, tmp_path, options, message
):
    scrapes = [str(REAL / f"vllm_draft_{when}.prom") for when in ("before", "after")]
    out = tmp_path / "out"
    code, _, err = specplan(
        "import", "auto", *scrapes, *SAID, "--into", str(recorded_profile.folder), "-o", str(out),
        *options,
    )  # fmt: skip
    assert code == 2
    assert message in err
    assert not out.exists()


def test_a_folder_of_something_else_is_left_alone(specplan, tmp_path):
    (tmp_path / "thesis.txt").write_text("do not lose me")
    code, _, err = specplan("import", "auto", LOG, "-o", str(tmp_path), *SAID)
    assert code == 2
    assert "holds no profile" in err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_request_table_at_odds_with_its_record_is_refused(specplan, tmp_path):
    out = tmp_path / "part"
    specplan("import", "auto", LOG, "-o", str(out), *SAID)
    other = tmp_path / "other"
    answers = str(REAL / "vllm_draft_requests.jsonl")
    specplan("import", "auto", answers, "-o", str(other), *SAID)
    raw = json.loads((out / "profile.json").read_text())
    raw["tables"]["requests"] = json.loads((other / "profile.json").read_text())["tables"][
        "requests"
    ]
    (out / "profile.json").write_text(json.dumps(raw))
    shutil.copy(other / "requests.parquet", out / "requests.parquet")
    code, _, err = specplan(
        "import", "auto", answers, "--into", str(out), "-o", str(tmp_path / "new"), *SAID
    )
    assert code == 2
    assert "the records say" in err


def test_the_kinds_are_listed_with_their_versions(specplan):
    code, out, _ = specplan("import", "--kinds")
    assert code == 0
    assert [line.split(" (")[0] for line in out.splitlines()] == list(IMPORTERS)


def test_json_is_one_object_with_counts_survival_and_what_is_missing(specplan):
    scrapes = [str(REAL / f"vllm_ngram_{when}.prom") for when in ("before", "after")]
    code, out, err = specplan(
        "import", "auto", *scrapes, "--dry-run", "--json", "--proposer", "ngram"
    )
    assert (code, err) == (0, "")
    found = json.loads(out)
    counts = found["records"][0]["gammas"]["4"]
    assert counts["num_cycles"] == 288
    assert counts["survival"] is None
    assert "draft lengths varied" in counts["reason"]
    assert found["written"] is None
    assert len(found["missing"]) == 3


def test_lists_by_cycle_bring_their_own_temperatures_domains_and_lengths(
    specplan, shared_data, tmp_path
):
    path = str(shared_data / "accept_traces" / "tiny_model_t0_t1_g8.jsonl")
    out = tmp_path / "part"
    said = ("--proposer", "draft_model", "-o", str(out), "--context", "64", "192")
    code, _, err = specplan("import", "auto", path, *said)
    assert (code, err) == (0, "")
    part, _ = load_profile_or_part(out)
    assert {record.sampling.temperature for record in part.acceptance} == {0.0, 1.0}
    assert {record.domain for record in part.acceptance} == {"code", "math", "prose"}
    assert {record.origin.context_tokens for record in part.acceptance} == {(64, 192)}
    for wrong, message in (("--temperature", "temperature 0"), ("--gamma", "as --gamma says")):
        code, _, err = specplan("import", "auto", path, *said, wrong, "1")
        assert code == 2
        assert message in err


def test_a_published_trace_becomes_part_of_a_bundled_profile_and_is_simulated(
    specplan, shared_data, recorded_profile, tmp_path
):
    path = str(shared_data / "specdecode-bench" / "llama31_8b_h100_gsm8k.parquet")
    out = tmp_path / "merged"
    code, _, err = specplan(
        "import", "acceptance_trace", path, "--column", "emitted_eagle", "--counts", "emitted",
        "--per", "position", "--gamma", "8", "--proposer", "eagle", "--temperature", "0",
        "--domain", "import", "--into", "llama31_8b_h100", "-o", str(out),
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert load_profile(out).profile.source.value == "published"  # its cost still is
    changes = {
        "contract": "greedy_equality",
        "sampling": {"temperature": 0.0},
        "speculation": {"proposer": "eagle", "num_speculative_tokens": 3},
    }
    scenario = _scenario_file(recorded_profile, tmp_path, out, **changes)
    code, text, err = specplan("simulate", scenario, "--json")
    assert (code, err) == (0, "")
    assert json.loads(text)["origin"]["acceptance_model"] == "trace"
