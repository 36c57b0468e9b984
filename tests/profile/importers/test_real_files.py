"""Files that real programs wrote; what they say by several ways must agree."""

import pytest

from simcore.profile.conversions import positions_from_histogram
from simcore.profile.importers import IMPORTERS
from simcore.profile.importers.engine_file import open_files
from tests.profile.importers.conftest import FIXTURES, REAL, only, read_paths, recognise

KINDS = {
    "vllm_draft_after.prom": "vllm_prometheus",
    "vllm_draft_requests.jsonl": "vllm_requests",
    "vllm.log": "vllm_log",
    "vllm_bench.json": "vllm_bench",
    "llamacpp_after.prom": "llamacpp_prometheus",
    "llamacpp.log": "llamacpp_log",
    "llamacpp_timings.jsonl": "llamacpp_timings",
    "guidellm.json": "guidellm",
    "aiperf_profile_export.jsonl": "aiperf",
}


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_a_real_file_is_recognised(name, kind):
    assert recognise(open_files([REAL / name])[0]) == kind


@pytest.mark.parametrize(("run", "options"), [("draft", {}), ("ngram", {"proposer_kind": "ngram"})])
def test_vllms_counters_and_its_answers_count_the_same_cycles(run, options):
    scrapes = (REAL / f"vllm_{run}_before.prom", REAL / f"vllm_{run}_after.prom")
    gamma, counted = only(read_paths("vllm_prometheus", *scrapes, **options))
    same, answered = only(
        read_paths("vllm_requests", REAL / f"vllm_{run}_requests.jsonl", **options)
    )
    assert gamma == same
    assert positions_from_histogram(answered.accepted_lengths) == counted.accepted_per_position
    for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_cycles"):
        assert getattr(answered, name) == getattr(counted, name)


def test_vllms_log_counts_what_its_counters_and_its_benchmark_counted():
    scrapes = (REAL / "vllm_draft_before.prom", REAL / "vllm_draft_after.prom")
    _, counted = only(read_paths("vllm_prometheus", *scrapes))
    _, benched = only(read_paths("vllm_bench", REAL / "vllm_bench.json"))
    _, logged = only(read_paths("vllm_log", REAL / "vllm.log"))
    for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"):
        assert getattr(logged, name) == getattr(counted, name) + getattr(benched, name)


def test_a_lookups_misses_show_in_the_generated_tokens_only():
    reading = read_paths(
        "vllm_prometheus",
        REAL / "vllm_ngram_before.prom",
        REAL / "vllm_ngram_after.prom",
        proposer_kind="ngram",
    )
    _, counts = only(reading)
    assert counts.num_cycles > 2 * counts.num_drafts
    with_draft = reading.figures["tokens a cycle with a draft"]
    assert with_draft > 1.5 * reading.figures["tokens a decode step, with or without a draft"]


def test_llamacpps_log_counters_and_timings_count_the_same_drafts():
    scrapes = (REAL / "llamacpp_before.prom", REAL / "llamacpp_after.prom")
    _, counted = only(read_paths("llamacpp_prometheus", *scrapes))
    _, logged = only(read_paths("llamacpp_log", REAL / "llamacpp.log"))
    _, timed = only(read_paths("llamacpp_timings", REAL / "llamacpp_timings.jsonl", gamma=3))
    assert positions_from_histogram(logged.accepted_lengths) == counted.accepted_per_position
    assert logged.num_drafts == counted.num_drafts == timed.num_cycles
    for name in ("num_draft_tokens", "num_accepted_tokens"):
        assert getattr(logged, name) == getattr(counted, name) == getattr(timed, name)


def test_llamacpps_closing_lines_give_nearly_what_its_cycles_give(tmp_path):
    lines = (REAL / "llamacpp.log").read_text().splitlines()
    path = tmp_path / "info.log"
    path.write_text("\n".join(line for line in lines if "draft tokens, new" not in line))
    gamma, exact = only(read_paths("llamacpp_log", REAL / "llamacpp.log"))
    same, rounded = only(read_paths("llamacpp_log", path))
    assert gamma == same
    assert rounded.num_drafts == exact.num_drafts
    assert rounded.accepted_per_position == positions_from_histogram(exact.accepted_lengths)


def test_vllms_iterations_become_whole_step_samples_of_pure_decoding():
    reading = read_paths("vllm_log", REAL / "vllm.log")
    assert reading.whole_steps
    assert set(reading.samples["num_query_tokens"]) == {4}
    assert reading.samples["repeats"].sum() == 145


def test_load_generators_without_acceptance_store_nothing_and_say_so():
    for name, kind in (("guidellm.json", "guidellm"), ("aiperf_profile_export.jsonl", "aiperf")):
        reading = read_paths(kind, REAL / name)
        assert reading.records == ()
        assert "own counters" in reading.notes[0]


def test_a_chunk_is_no_cycle_where_the_engine_streams_token_by_token():
    reading = read_paths("guidellm", REAL / "guidellm.json")
    assert reading.figures["tokens a chunk"] == 1.0  # while the server accepted drafts


def test_every_kind_is_documented_with_the_version_that_it_was_written_for():
    page = (FIXTURES.parents[3] / "docs" / "reference" / "importers.md").read_text()
    for kind, importer in IMPORTERS.items():
        assert f"| `{kind}` |" in page
        if importer.written_for.split()[-1][0].isdigit():
            assert importer.written_for.split(" of ")[0] in page


def test_llamacpp_counts_no_requests_so_that_a_lookups_cycles_need_their_number():
    scrapes = (REAL / "llamacpp_before.prom", REAL / "llamacpp_after.prom")
    _, silent = only(read_paths("llamacpp_prometheus", *scrapes, proposer_kind="ngram"))
    assert silent.num_cycles is None
    answers = len((REAL / "llamacpp_timings.jsonl").read_text().splitlines())
    _, timed = only(read_paths("llamacpp_timings", REAL / "llamacpp_timings.jsonl", gamma=3))
    _, told = only(
        read_paths("llamacpp_prometheus", *scrapes, proposer_kind="ngram", num_requests=answers)
    )
    assert told.num_cycles == timed.num_cycles
