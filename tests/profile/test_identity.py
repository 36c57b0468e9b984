"""Sampling identity and proposer kinds: what is off is not written, what differs is refused."""

from typing import get_args

import pandas as pd
import pytest
from pydantic import ValidationError

from simcore.errors import ScenarioError
from simcore.matching import matching_records, mismatches
from simcore.profile.importers.options import ImportOptions
from simcore.profile.schema import (
    LOOKUP_KINDS,
    OWN_MODEL_KINDS,
    Profile,
    Proposer,
    ProposerKind,
    Sampling,
)
from simcore.profile.store import load_profile, write_profile
from tests.factories import make_scenario, sampled

FURTHER = [
    {"min_p": 0.1},
    {"repetition_penalty": 1.2},
    {"logit_bias": [[3, -1.5]]},
    {"constraint": "json"},
]


def test_transforms_that_are_off_leave_no_trace_in_what_is_written():
    assert Sampling().model_dump() == {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
    assert Sampling().further == ""


@pytest.mark.parametrize("stated", FURTHER)
def test_further_transforms_are_written_and_read_back_and_told(stated):
    sampling = Sampling.model_validate({"temperature": 1.0} | stated)
    assert Sampling.model_validate_json(sampling.model_dump_json()) == sampling
    assert set(stated) < set(sampling.model_dump())
    assert sampling.further
    assert hash(sampling) != hash(Sampling(temperature=1.0))


@pytest.mark.parametrize("stated", FURTHER)
def test_a_scenario_with_a_transform_that_was_not_measured_is_refused_or_marked(
    recorded_profile, stated
):
    scenario = make_scenario(
        recorded_profile, **sampled({"sampling": {"temperature": 1.0} | stated})
    )
    with pytest.raises(ScenarioError, match=next(iter(stated))):
        mismatches(recorded_profile, scenario)
    allowed = scenario.with_(allow_mismatch=True)
    assert all(next(iter(stated)) in found for found in mismatches(recorded_profile, allowed))
    assert mismatches(recorded_profile, allowed)


def test_a_profile_measured_under_a_transform_serves_the_scenario_that_states_it(
    recorded_profile, tmp_path
):
    raw = recorded_profile.profile.model_dump(mode="json")
    for record in raw["acceptance"]:
        record["sampling"]["min_p"] = 0.2
    profile = Profile.model_validate(raw | {"tables": {}})
    cost, traces = (
        pd.read_parquet(recorded_profile.folder / f"{name}.parquet") for name in ("cost", "traces")
    )
    write_profile(profile, tmp_path / "min_p", cost=cost, traces=traces)
    stored = load_profile(tmp_path / "min_p")
    asked = make_scenario(stored, sampling={"temperature": 0.0, "min_p": 0.2})
    assert len(matching_records(stored, asked, "ngram")) == 2
    with pytest.raises(ScenarioError, match="was not measured under"):
        matching_records(stored, make_scenario(stored), "ngram")


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_p": 1.5},
        {"repetition_penalty": 0.0},
        {"logit_bias": [[3, 1.0], [3, 2.0]]},
        {"logit_bias": [[-1, 1.0]]},
        {"constraint": ""},
    ],
)
def test_transforms_without_meaning_are_refused(wrong):
    with pytest.raises(ValidationError):
        Sampling.model_validate(wrong)


@pytest.mark.parametrize("kind", get_args(ProposerKind))
def test_every_proposer_of_the_real_loop_and_of_the_engines_can_be_stated(kind):
    assert Proposer(kind=kind).kind == kind
    assert ImportOptions(proposer_kind=kind).always_drafts == (kind not in LOOKUP_KINDS)
    assert not set(LOOKUP_KINDS) & set(OWN_MODEL_KINDS)
