"""Fixture files and the one way to read them."""

import json
import sys
from pathlib import Path

import pytest

from simcore import cli
from simcore.profile.importers import IMPORTERS, ImportOptions, Reading, read_files
from simcore.profile.importers.engine_file import EngineFile, open_files
from simcore.profile.importers.kinds import recognise

FIXTURES = Path(__file__).parent / "fixtures"
REAL, INVENTED = FIXTURES / "real", FIXTURES / "invented"


def read_paths(kind: str, *paths: Path, **options) -> Reading:
    """The reading of files on disk."""
    return read_files(kind, open_files(list(paths)), ImportOptions(**options))[1]


def read_text(kind: str, *texts: str | bytes, **options) -> Reading:
    """The reading of texts as if they were files a, b, .."""
    files = [
        EngineFile(f"file{index}", text if isinstance(text, bytes) else text.encode())
        for index, text in enumerate(texts)
    ]
    return read_files(kind, files, ImportOptions(**options))[1]


def read_json(kind: str, *values: object, **options) -> Reading:
    """The reading of one file with these JSON objects, one a line."""
    return read_text(kind, "\n".join(map(json.dumps, values)), **options)


def only(reading: Reading):
    """(γ, counts) of a reading that has one record of one γ."""
    (record,) = reading.records
    ((gamma, counts),) = record.counts.items()
    return gamma, counts


@pytest.fixture(params=sorted(IMPORTERS))
def kind(request):
    """Every kind of file."""
    return request.param


@pytest.fixture
def specplan(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["specplan", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


__all__ = [
    "FIXTURES",
    "INVENTED",
    "REAL",
    "only",
    "read_json",
    "read_paths",
    "read_text",
    "recognise",
]
