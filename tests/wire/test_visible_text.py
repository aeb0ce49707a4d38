"""Text of peers is shown with everything that hides in it, and ordinary text as it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.judge.text import hidden_in
from interlock.wire.visible_text import plain


def test_t22_text_that_draws_nothing_is_shown_by_number() -> None:
    smuggled = "".join(chr(0xE0100 + byte) for byte in b"rm -rf /")
    assert plain("a" + smuggled).startswith("a\\U000e0172\\U000e016d")
    for char in "\u034f\u115f\u17b4\u180b\u180f\u2800\u3164\ufe00\uffa0\u200b\u202e\U000e0041\x1b":
        assert char not in plain(f"a{char}b"), f"U+{ord(char):04X}"
    assert plain("ok\ufe0f\ufe0f") == "ok\\ufe0f\\ufe0f"


def test_ordinary_text_stays() -> None:
    for text in ("Grüße, Ελλάδα, 日本語, नमस्ते, ไทย", "❤️ and ☎︎", "two\nlines", "e\u0301"):
        assert plain(text) == text


@given(st.text(st.characters(exclude_characters="\n")))
def test_no_stretch_that_the_judge_calls_hidden_survives(text: str) -> None:
    seen_otherwise = {"text.lookalike", "text.stacked_marks"}
    assert {found.rule for found in hidden_in(plain(text))} <= seen_otherwise
