"""Engine files become a profile from Python as they do on the command line."""

import pytest
from typer.testing import CliRunner

import simcore as sp
from simcore.cli import app
from simcore.errors import EngineFileError
from simcore.profile.import_profile import profile_name
from tests.profile.importers.conftest import REAL

SCRAPES = [REAL / "vllm_ngram_before.prom", REAL / "vllm_ngram_after.prom"]
BASE = "smollm2_135m_cpu"
TARGET = "SmolLM2-135M-Instruct"


def imported(folder, **said):
    return sp.import_profile(
        SCRAPES, folder, into=BASE, proposer="ngram", target=TARGET, domain="mine", **said
    )


def test_python_and_the_command_line_make_the_same_profile(tmp_path):
    own = imported(tmp_path / "own", sampling={"temperature": 0.0})
    typed = CliRunner().invoke(
        app,
        [
            *("import", "auto", *map(str, SCRAPES), "--into", BASE, "--proposer", "ngram"),
            *("--temperature", "0", "--target", TARGET, "--domain", "mine"),
            *("--output", str(tmp_path / "typed" / "own")),
        ],
    )
    assert typed.exit_code == 0, typed.output
    assert sp.load_profile(tmp_path / "typed" / "own").content_hash == own.content_hash
    assert own.profile.acceptance[-1].domain == "mine"


def test_an_option_that_there_is_not_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(EngineFileError, match="temperature"):
        imported(tmp_path / "own", temperature=0.0)
    assert not (tmp_path / "own").exists()


def test_a_profile_without_step_costs_is_said_to_be_none(tmp_path):
    with pytest.raises(sp.ProfileError, match=r"identity|cost"):
        sp.import_profile(
            SCRAPES, tmp_path / "part", proposer="ngram", sampling={"temperature": 0.0}
        )


def test_a_folder_of_any_name_gives_a_name_that_a_profile_may_have(tmp_path):
    assert profile_name(tmp_path / "My Profile!") == "my-profile-"
    assert profile_name(tmp_path / "...") == "imported"
