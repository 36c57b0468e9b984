"""What visitors saved by name."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from app import library
from simcore.errors import SpecplanError


def test_what_was_saved_comes_back_under_its_kind_and_name():
    assert library.save("scenario", " night ", "seed: 1") == "night"
    library.save("plan", "night", "{}")
    (found,) = library.saved("scenario")
    assert (found.name, found.content) == ("night", "seed: 1")
    assert found.specplan_version
    assert library.content_of("scenario", "night") == "seed: 1"
    library.delete("scenario", "night")
    assert library.saved("scenario") == library.listed("scenario") == ()
    assert len(library.listed("plan")) == 1
    with pytest.raises(SpecplanError, match="night is no longer there"):
        library.content_of("scenario", "night")


def test_nobody_takes_the_place_of_what_another_visitor_saved_under_the_name():
    names = [library.save("plan", "night", content) for content in ("1", "2", "1", "2", "3")]
    assert names == ["night", "night (2)", "night", "night (2)", "night (3)"]
    found = {each.name: each.content for each in library.saved("plan")}
    assert found == {"night": "1", "night (2)": "2", "night (3)": "3"}


def test_many_visitors_save_under_one_name_at_once_and_nothing_is_lost():
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: library.save("plan", "same", str(n)), range(16)))
    assert sorted(int(each.content) for each in library.saved("plan")) == list(range(16))


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
