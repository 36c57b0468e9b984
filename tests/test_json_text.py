"""JSON that other programs wrote."""

import math

import pytest

from simcore.errors import AcceptanceError, EngineFileError, ScenarioError
from simcore.json_text import DECODER, RepeatedKeyError


def test_bare_infinity_is_read_and_a_repeated_key_is_not():
    assert math.isinf(DECODER.decode('{"rate": Infinity}')["rate"])
    with pytest.raises(RepeatedKeyError, match="'a' stands twice"):
        DECODER.decode('{"a": 1, "b": {"a": 2}, "a": 3}')


def test_every_reader_of_json_refuses_a_key_that_stands_twice(tmp_path):
    from simcore.acceptance.reading import read_lists
    from simcore.profile.importers.engine_file import EngineFile
    from simcore.profile.importers.json_fields import objects
    from simcore.workload.files import read_requests

    path = tmp_path / "twice.jsonl"
    path.write_text('{"acc": [1, 2], "acc": [0]}\n', encoding="utf-8")
    with pytest.raises(AcceptanceError, match="stands twice"):
        read_lists(path, column="acc")
    with pytest.raises(ScenarioError, match="stands twice"):
        read_requests(path, "mooncake")
    with pytest.raises(EngineFileError, match="stands twice"):
        objects(EngineFile("twice.jsonl", path.read_bytes()))
