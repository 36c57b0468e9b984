"""The dashboard under test keeps what it saves in a folder of the test's own."""

import pytest


@pytest.fixture(autouse=True)
def own_data(monkeypatch, tmp_path):
    """An empty data folder."""
    folder = tmp_path / "data"
    monkeypatch.setenv("SPECPLAN_DATA", str(folder))
    return folder
