"""What a fitted model may see of a profile's records."""

import json

import numpy as np
import pytest

from simcore.acceptance.survival import survival_from_conditional
from simcore.fitted_acceptance import drafted_misses, evidence_of
from simcore.profile.conversions import conditional_acceptance
from simcore.profile.importers import ImportOptions, read_files
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.merge import merge, write_merge
from simcore.profile.schema import Sampling
from simcore.profile.store import StoredProfile, load_profile

GAMMA = 4
SAID = {
    "proposer": "ngram",
    "proposer_kind": "ngram",
    "domain": "looked-up",
    "sampling": Sampling(temperature=0.0),
}
# Accepted and drafted of each cycle: lookup finds nothing in three of five.
CYCLES = [[(4, 4), (0, 0), (0, 0), (1, 4), (0, 0)], [(0, 0), (0, 4), (0, 0), (4, 4), (0, 0)]] * 10


def _list_row(cycles):
    accepted, drafted = zip(*cycles, strict=True)
    return {"acc": accepted, "prop": drafted, "gamma": GAMMA, "domain": "looked-up", "temp": 0.0}


def _vllm_answer(cycles):
    """vLLM lists cycles with a draft only; the output holds the token that prefill emits."""
    drafted = [pair for pair in cycles if pair[1]]
    accepted = [each for each, _ in drafted]
    return {
        "usage": {"completion_tokens": 1 + len(cycles) + sum(accepted)},
        "metrics": {
            "speculative_decoding": {
                "acceptance_histogram": np.bincount(accepted, minlength=GAMMA + 1).tolist(),
                "num_spec_steps": len(drafted),
                "num_accepted_draft_tokens": sum(accepted),
                "num_draft_tokens": GAMMA * len(drafted),
                "num_spec_tokens": GAMMA,
            }
        },
    }


@pytest.fixture
def imported(recorded_profile, tmp_path):
    """A profile with one more record, of these rows; and that record."""

    def make(kind, rows):
        file = EngineFile("rows.jsonl", "\n".join(map(json.dumps, rows)).encode())
        options = ImportOptions(**SAID)
        _, reading = read_files(kind, [file], options)
        merged = merge(
            reading,
            options,
            name="merged",
            date="2026-11-30",
            files=(file.name,),
            into=str(recorded_profile.folder),
            identity=None,
            replace_records=False,
        )
        write_merge(merged, tmp_path / "merged")
        stored = load_profile(str(tmp_path / "merged"))
        (record,) = (each for each in stored.profile.acceptance if each.domain == "looked-up")
        return stored, record

    return make


@pytest.mark.parametrize(
    ("kind", "row"), [("acceptance_trace", _list_row), ("vllm_requests", _vllm_answer)]
)
def test_a_fit_sees_the_cycles_in_which_lookup_found_nothing(imported, kind, row):
    stored, record = imported(kind, [row(cycles) for cycles in CYCLES])
    evidence = evidence_of(stored, record, GAMMA)
    survival = survival_from_conditional(conditional_acceptance(record, GAMMA))
    tokens_a_cycle = evidence.output_tokens.sum() / evidence.cycles.sum()
    assert evidence.num_requests == len(CYCLES)
    assert tokens_a_cycle == pytest.approx(1 + survival.sum()) == 1.9


def test_of_the_cycles_without_acceptance_those_with_a_draft_are_known(imported):
    stored, record = imported("acceptance_trace", [_list_row(cycles) for cycles in CYCLES])
    assert drafted_misses(stored, record, GAMMA) == pytest.approx(1 / 7)  # of 7 misses in two rows


def test_a_recording_tells_the_share_of_its_misses_that_had_a_draft(recorded_profile):
    records = {each.key: each for each in recorded_profile.profile.acceptance}
    table = recorded_profile.traces
    place = table.column_names.index("proposed")
    silent = StoredProfile(recorded_profile.profile, recorded_profile.folder)
    vars(silent)["traces"] = table.set_column(place, "proposed", table.column("accepted"))
    assert drafted_misses(recorded_profile, records[0], 3) == 1.0
    assert drafted_misses(silent, records[0], 3) == 0.0


def test_cycles_listed_in_order_show_a_fit_their_order(imported):
    stored, record = imported("acceptance_trace", [_list_row(cycles) for cycles in CYCLES])
    assert evidence_of(stored, record, GAMMA).word_length > 1


def test_answers_that_do_not_tell_their_cycles_are_fitted_together(imported):
    stored, record = imported("vllm_requests", [_vllm_answer(cycles) for cycles in CYCLES])
    (counts,) = record.counts.values()
    more = record.model_copy(
        update={"counts": {GAMMA: counts.model_copy(update={"num_cycles": 10 * counts.num_cycles})}}
    )
    assert evidence_of(stored, more, GAMMA).is_pooled


def test_imported_requests_at_the_limit_are_runaways(imported):
    lengthy = [(1, 4)] * 4_000
    stored, record = imported(
        "acceptance_trace", [_list_row(cycles) for cycles in [*CYCLES, lengthy]]
    )
    assert evidence_of(stored, record, GAMMA).runaway.sum() == 1
