"""The study's data sets, replayed once for all tests of this folder."""

import pytest

from tests.published.table import FOLDER, replay_all


@pytest.fixture(scope="session")
def study_folder(shared_data):
    """The folder of the study's lists."""
    folder = shared_data / FOLDER
    if not folder.is_dir():
        pytest.skip(f"no {FOLDER} among the outside measurements: the study's lists are not here")
    return folder


@pytest.fixture(scope="session")
def replayed(study_folder, tmp_path_factory):
    """Data set -> batch size -> times of every request's batch, off and on."""
    return replay_all(study_folder, tmp_path_factory.mktemp("study"))
