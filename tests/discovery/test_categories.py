from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.discovery import categories, thesaurus
from interlock.discovery.words import stem


@each_case(
    ("name", "description", "expected"),
    [
        ("read_file", "Read the contents of a file at the given path", ("filesystem", "read")),
        ("send_email", "Send a message", ("communication", "send")),
        ("delete_row", "Delete a row from a database table", ("database", "delete")),
        ("think", "", ()),
    ],
)
def test_categories_are_derived_from_the_words(name: str, description: str, expected: tuple[str, ...]) -> None:
    assert categories.derive(name, description) == expected


def test_what_the_server_declared_is_kept_and_not_guessed_over() -> None:
    assert categories.of_tool(["File System.Read", ""], "send_email", "") == ("file-system/read",)


def test_a_category_covers_those_below_it_and_no_namesake() -> None:
    assert categories.covers("web", "web/search")
    assert not categories.covers("web", "webcam")
    assert not categories.covers("web/search", "web")


@given(st.text(max_size=400))
def test_any_text_becomes_a_bounded_category(text: str) -> None:
    normal = categories.normal(text)
    assert len(normal) <= categories.MAX_LENGTH
    assert "//" not in normal


def test_related_words_are_related_both_ways() -> None:
    for term in ("currenc", stem("buy"), stem("picture")):
        for other in thesaurus.related(term):
            assert term in thesaurus.related(other)
    assert stem("photo") in thesaurus.related(stem("picture"))
