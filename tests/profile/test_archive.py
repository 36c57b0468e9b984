"""Profiles that are handed over: whole ones come through, anything else is one sentence."""

import hashlib
import io
import json
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simcore.errors import ProfileError
from simcore.profile import archive
from simcore.profile.archive import HandedFile, pack_profile, unpack_profile
from simcore.profile.store import load_profile

CPU = "smollm2_135m_cpu"


def _files(name: str) -> dict[str, bytes]:
    folder = load_profile(name).folder
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".py"}


def _zip(entries: dict[str, bytes]) -> HandedFile:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in entries.items():
            packed.writestr(name, content)
    return HandedFile("profile.zip", buffer.getvalue())


def _refused(files: list[HandedFile], tmp_path, said: str) -> None:
    with pytest.raises(ProfileError, match=said) as caught:
        unpack_profile(files, tmp_path / "new")
    assert str(tmp_path) not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [CPU, "llama31_8b_h100"])
def test_a_packed_profile_is_the_same_when_unpacked(name, tmp_path):
    stored = load_profile(name)
    found = unpack_profile([HandedFile("any.bin", pack_profile(stored))], tmp_path / "new")
    assert found.profile == stored.profile
    assert found.content_hash == stored.content_hash
    assert {path.name for path in found.folder.iterdir()} == set(_files(name))


def test_its_files_can_be_handed_over_one_by_one(tmp_path):
    files = [HandedFile(*each) for each in _files(CPU).items()]
    found = unpack_profile(files, tmp_path / "new")
    assert found.traces.num_rows == load_profile(CPU).traces.num_rows


def test_a_zip_may_hold_other_things_which_are_not_written(tmp_path):
    entries = {f"mine/{name}": content for name, content in _files(CPU).items()}
    packed = _zip(entries | {"mine/": b"", "mine/run.py": b"x", "__MACOSX/mine/._profile": b"x"})
    found = unpack_profile([packed], tmp_path / "new")
    assert {path.name for path in found.folder.iterdir()} == set(_files(CPU))


@pytest.mark.parametrize(
    "name", ["../profile.json", "/etc/profile.json", "a/../../profile.json", "..\\profile.json"]
)
def test_a_name_that_leaves_its_folder_is_refused(name, tmp_path):
    _refused([_zip({name: _files(CPU)["profile.json"]})], tmp_path, "leaves its folder")


def test_files_of_two_profiles_are_refused(tmp_path):
    content = _files(CPU)["profile.json"]
    packed = _zip({"a/profile.json": content, "b/profile.json": content})
    _refused([packed], tmp_path, "twice")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([], "no profile.json among no files"),
        ([HandedFile("run.py", b"print()")], "is no file of a profile"),
        ([HandedFile("..", b"x")], "is no file of a profile"),
        ([HandedFile("a.zip", b"PK\x03\x04 cut")], "cannot be unpacked"),
        ([HandedFile("profile.json", b"{")], "cannot read profile.json"),
        ([HandedFile("profile.json", b"[]")], "schema version None"),
        ([HandedFile("profile.json", b'{"schema_version": 1}')], "missing; add it"),
        ([HandedFile("profile.json", b"\xff\xfe")], "cannot read profile.json"),
        ([HandedFile("profile.json", b"[" * 100_000)], "cannot read profile.json"),
    ],
)
def test_what_is_no_profile_is_one_sentence(files, said, tmp_path):
    _refused(files, tmp_path, said)


def test_a_profile_without_the_table_that_it_names_is_refused(tmp_path):
    entries = _files(CPU)
    del entries["traces.parquet"]
    _refused([_zip(entries)], tmp_path, r"traces.parquet is missing")


def test_an_import_that_is_no_whole_profile_is_refused(tmp_path):
    raw = json.loads(_files("llama31_8b_h100")["profile.json"])
    part = json.dumps(raw | {"cost": None, "missing": ["cost"]}).encode()
    _refused([HandedFile("profile.json", part)], tmp_path, "the profile is an import without cost")


def test_a_changed_table_is_refused(tmp_path):
    entries = _files(CPU)
    entries["traces.parquet"] += b"x"
    _refused([_zip(entries)], tmp_path, "was changed")


def test_a_table_that_does_not_fit_the_profile_is_refused(tmp_path):
    entries = _files(CPU)
    raw = json.loads(entries["profile.json"])
    raw["tables"]["traces"] = raw["tables"]["cost"]
    entries["profile.json"] = json.dumps(raw).encode()
    _refused([_zip(entries)], tmp_path, "traces")


def test_more_than_the_limit_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 10_000)
    _refused([_zip({"profile.json": b"0" * 1_000_000})], tmp_path, "10,000 bytes unpacked")
    _refused([HandedFile("profile.json", b"0" * 20_000)], tmp_path, "at most 10,000")
    _refused([_zip({f"{each}.txt": b"" for each in range(101)})], tmp_path, "holds 101 files")


def test_a_table_that_would_fill_the_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_TABLE_BYTES", 10_000)
    _refused([_zip(_files(CPU))], tmp_path, "bytes in memory")


def _with_table(table: pa.Table, name: str = "traces") -> list[HandedFile]:
    """The CPU's profile with another table, which profile.json names truly."""
    entries, packed = _files(CPU), io.BytesIO()
    pq.write_table(table, packed, compression="zstd")
    raw = json.loads(entries["profile.json"])
    entries[f"{name}.parquet"] = packed.getvalue()
    raw["tables"][name] |= {
        "rows": table.num_rows,
        "sha256": hashlib.sha256(packed.getvalue()).hexdigest(),
    }
    entries["profile.json"] = json.dumps(raw).encode()
    return [_zip(entries)]


def _repeated(name: str, num_rows: int, **columns: pa.Array) -> pa.Table:
    """The first row of a table of the CPU's profile, again and again."""
    table = pq.read_table(load_profile(CPU).folder / f"{name}.parquet")
    held = dict(zip(table.column_names, table.slice(0, 1).columns, strict=True)) | columns
    rows = {key: column.take(pa.array([0] * num_rows)) for key, column in held.items()}
    return pa.table(rows, schema=table.schema)


def test_few_bytes_that_stand_for_millions_of_rows_are_refused_before_they_are_read(
    tmp_path, monkeypatch
):
    limit = 8_000_000
    monkeypatch.setattr(archive, "MAX_TABLE_BYTES", limit)
    files = _with_table(_repeated("traces", 200_000))
    assert len(files[0].content) < limit / 10
    read = []
    monkeypatch.setattr(archive, "read_checked", lambda *each: read.append(each[2]))
    _refused(files, tmp_path, "traces.parquet takes up to")
    assert "traces" not in read


def test_a_long_text_that_every_row_repeats_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_TABLE_BYTES", 8_000_000)
    table = _repeated("cost", 500, proposer=pa.array(["x" * 100_000]))
    _refused(_with_table(table, "cost"), tmp_path, "cost.parquet takes up to")


def test_columns_of_another_table_are_refused_before_they_are_read(tmp_path):
    _refused(_with_table(pa.table({"any": ["x" * 1000] * 1000})), tmp_path, "has columns")


def test_two_zips_share_the_room_of_one(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 10_000)
    first = _zip({"profile.json": b"0" * 9_000})
    _refused([first, _zip({"a.parquet": b"0" * 9_000})], tmp_path, "10,000 bytes unpacked")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_with_any_byte_changed_is_a_profile_or_one_sentence(method, tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as writing:
        writing.writestr("profile.json", b"{}" * 400)
    for place in range(len(packed.getvalue())):
        damaged = bytearray(packed.getvalue())
        damaged[place] ^= 0xFF
        _refused([HandedFile("a.zip", bytes(damaged))], tmp_path, "expected")
