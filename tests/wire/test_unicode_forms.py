"""Normalization gives the standard library's result where runs of marks are short, and takes linear time where not."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.discovery.words import terms
from interlock.judge.code.python import judge_python
from interlock.judge.code.rules import CodeRules
from interlock.judge.definitions import judge_definition
from interlock.judge.results import judge_result
from interlock.wire.unicode_forms import MAX_MARKS, PIECE_CHARS, Form, has_long_run, normalize
from processor_work import work_of

FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
PARTS = ["a", "é", "ẛ̣", "\u0301", "\u0316", "\u3099", "\uff9e", "か", "ﬁ", "ﷺ", "한", "ㅎ", "ㅏ", "ㄴ"]
PARTS += ["\u1112", "\u1161", "\u11ab", "\u0dd9\u0dcf", "═", "😀", " "]


def marks(count: int) -> str:
    """Two blocks of marks that must change places, as voicing marks of both widths and accents do."""
    return "a" + "\u0301" * count + "\u0316" * count + "a" + ("\u0301" * MAX_MARKS + "\uff9e") * (count // MAX_MARKS)


@given(st.lists(st.sampled_from(PARTS), max_size=40), st.integers(0, 4), st.sampled_from(FORMS))
def test_short_runs_are_normalized_as_the_standard_library_does(parts: list[str], at: int, form: Form) -> None:
    text = "x" * (PIECE_CHARS - 2 + at) + "".join(f"{part}." if n % 20 == 19 else part for n, part in enumerate(parts))
    assert normalize(form, text * 3) == unicodedata.normalize(form, text * 3)


def test_no_other_character_becomes_a_mark() -> None:
    for number in range(sys.maxunicode + 1):
        char = chr(number)
        if unicodedata.combining(unicodedata.normalize("NFKD", char)[0]):
            assert unicodedata.category(char)[0] == "M" or char in "\uff9e\uff9f"
            assert char in "\uff9e\uff9f" or not (char.isalnum() or char.isspace())


def test_marks_of_a_run_beyond_thirty_are_dropped() -> None:
    assert normalize("NFD", "a" + "\u0301" * 31 + "b") == "a" + "\u0301" * 30 + "b"
    assert normalize("NFC", "═" * 100 + "é") == "═" * 100 + "é"
    assert has_long_run("a" + "\u0301" * 31)
    assert not has_long_run("a" + "\u0301" * 30 + "═" * 40)


@pytest.mark.parametrize(
    "read",
    [
        lambda text: [normalize(form, text) for form in FORMS],
        lambda text: terms(f"read {text}"),
        lambda text: judge_result(f"Please note {text}"),
        lambda text: judge_definition({"name": "a", "description": text, "inputSchema": {"type": "object"}}),
        lambda text: [*judge_python(f"{text} = 1", CodeRules())],
    ],
    ids=["normalize", "search", "result", "definition", "code"],
)
def test_reading_marks_takes_time_in_proportion_to_their_number(read: Callable[[str], object]) -> None:
    short, long = marks(1_000), marks(16_000)
    read(short)  # tables are made
    assert work_of(lambda: read(long)) < 60 * work_of(lambda: read(short))
