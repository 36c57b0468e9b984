"""The engine, where its environment is there."""

import pytest

from tests.engines.server import has_engine
from tests.engines.studies import missing_models


@pytest.fixture(scope="session")
def engine():
    """Skips where no llama.cpp or no tiny pair is installed."""
    if not has_engine():
        pytest.skip("no engine to predict: `make engines` installs llama.cpp apart")
    if reason := missing_models("tiny"):
        pytest.skip(reason)
