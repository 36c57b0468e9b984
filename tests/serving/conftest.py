"""Profiles of the serving tests."""

import pytest

from tests.serving.twins import make_twins


@pytest.fixture(scope="session")
def twin_profile(tmp_path_factory: pytest.TempPathFactory):
    """Both proposers recorded on the same outputs, with ranks to the third candidate."""
    return make_twins(tmp_path_factory.mktemp("twins"))
