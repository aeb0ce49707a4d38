from __future__ import annotations

from interlock.discovery import thesaurus
from interlock.discovery.words import stem


def test_words_of_one_line_stand_for_one_another() -> None:
    table = thesaurus.read("delete remove  # a remark\n\nbuy > order")
    assert table["remov"] == {"delet"}
    assert table["delet"] == {"remov"}


def test_a_line_with_a_direction_holds_only_that_way() -> None:
    table = thesaurus.read("buy purchase > order")
    assert table[stem("buy")] == table[stem("purchase")] == {"order"}
    assert "order" not in table


def test_the_words_that_come_along_are_read() -> None:
    assert stem("remove") in thesaurus.related(stem("deleting"))
    assert thesaurus.related("unheardof") == frozenset()


def test_words_for_the_same_thing_are_related_and_told_apart() -> None:
    lines = "= folder directory\nfile folder"
    assert thesaurus.read(lines)["folder"] == {stem("directory"), stem("file")}
    assert thesaurus.read_equal(lines) == {"folder": {stem("directory")}, stem("directory"): {"folder"}}
    assert stem("directory") in thesaurus.equal("folder")
