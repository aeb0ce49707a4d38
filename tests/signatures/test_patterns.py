"""Patterns said in words, and texts made to fit them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.signatures.patterns import example, in_words


@each_case(
    ("pattern", "words"),
    [
        ("^[A-Z]{1,5}$", ("use uppercase letters", "1 to 5 characters")),
        ("^[a-z0-9-]+$", ("use lowercase letters, digits and '-'", "at least 1 character")),
        ("^[0-9]{4}$", ("use digits", "exactly 4 characters")),
        (r"^\d{2}-[A-F]?$", ("use digits, '-' and 'A' to 'F'", "3 to 4 characters", "for example '00-'")),
        ("^[^,;]*$", ("do not use ',' and ';'",)),
        ("^(yes|no)$", ("use 'y', 'e', 's', 'n' and 'o'", "2 to 3 characters", "for example 'yes'")),
        ("[A-Z]", ()),
        ("^(?=.*[0-9]).{8,}$", ()),
        (r"^(a)\1$", ()),
        ("^[", ()),
    ],
)
def test_a_pattern_is_said_in_words_or_not_at_all(pattern: str, words: tuple[str, ...]) -> None:
    assert in_words(pattern) == words


@each_case(
    "pattern",
    [
        "^[A-Z]{1,5}$",
        r"^v\d+\.\d+(-[a-z]+)?$",
        "^(red|green|blue)$",
        r"^[\w.+-]+@[\w-]+\.[a-z]{2,}$",
        "^#[0-9a-fA-F]{6}$",
        r"^\+[1-9][0-9]{6,14}$",
        r"^[^\s/]{3}/[^\s/]+$",
        "^(?:[a-z]{2})(?:,[a-z]{2})*$",
        r"^\x41\u0042.$",
        "needle",
    ],
)
@each_case("variant", range(3))
def test_a_text_is_made_that_fits(pattern: str, variant: int) -> None:
    text = example(pattern, variant=variant)
    assert text is not None
    assert re.search(pattern, text)


def test_a_text_grows_to_the_length_that_is_asked_for() -> None:
    assert example("^[a-z]+-[0-9]+$", min_length=12) == "aaaaaaaaaa-0"


@given(st.text(alphabet="^$[](){}|*+?.\\-azAZ09,dwu:<>P=!&", max_size=24), st.integers(0, 40))
def test_no_pattern_is_too_odd_to_read(pattern: str, least: int) -> None:
    assert isinstance(in_words(pattern), tuple)
    text = example(pattern, least)
    assert text is None or len(text) <= 10_000 + least
