"""What visitors saved by name."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from app import library
from simcore.errors import SpecplanError


def test_what_was_saved_comes_back_the_newest_name_kept_once():
    library.save("scenario", " night ", "seed: 1")
    library.save("scenario", "night", "seed: 2")
    library.save("plan", "night", "{}")
    (found,) = library.saved("scenario")
    assert (found.name, found.content) == ("night", "seed: 2")
    assert found.specplan_version
    library.delete("scenario", "night")
    assert library.saved("scenario") == ()
    assert len(library.saved("plan")) == 1


def test_many_visitors_save_at_once_and_nothing_is_lost():
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: library.save("scenario", f"s{n}", str(n)), range(40)))
    assert {each.content for each in library.saved("scenario")} == {str(n) for n in range(40)}


@pytest.mark.parametrize("name", ["", "   ", "x" * 121])
def test_a_name_that_finds_nothing_again_is_refused(name):
    with pytest.raises(SpecplanError, match="expected 1 to 120"):
        library.save("scenario", name, "")
    assert library.saved("scenario") == ()


def test_a_hostile_name_is_only_a_name():
    name = "x'); drop table saved; --"
    library.save("scenario", name, "a")
    assert [each.name for each in library.saved("scenario")] == [name]


def test_a_damaged_file_is_one_clear_error(own_data):
    library.save("scenario", "a", "b")
    (own_data / library.FILE).write_bytes(b"no database" * 1000)
    with pytest.raises(SpecplanError, match="cannot use"):
        library.saved("scenario")
    with pytest.raises(sqlite3.DatabaseError):
        sqlite3.connect(own_data / library.FILE).execute("select * from saved")
