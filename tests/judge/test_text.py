"""Hidden text is found, removed and shown; the world's scripts and emoji are left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock.judge.text as judged
from cases import each_case
from interlock.judge.text import hidden_in, judge_text, show_hidden, strip_hidden


@each_case(
    "text",
    [
        *(
            "plain",
            "tabs\tand\nlines\r\n",
            "naïve — “quotes”",
            "Zürich",
            "e\u0301",
            "日本語",
            "한국어",
            "ไทย\u200bไทย",
            "Ünï",
        ),
        *("\u202bשלום\u202c", "\u2067مرحبا 12\u2069 - שלום"),
        *("Привет, мир", "Ελληνικά", "שלום\u200f!", "مرحبا", "می‌خواهم", "क्‍ष", "தமிழ்", "ქართული", "ᠮᠣᠩᠭᠣᠯ᠌", "ﷺ"),
        *("👨‍👩‍👧‍👦", "❤️‍🔥", "🏳️‍🌈", "👩🏽‍🚀", "🇫🇷", "1️⃣", "ℹ️", "☎︎", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "👁️‍🗨️"),
        *("葛󠄀", "⠓⠑⠇⠀⠺", "Soft\u00adhyphen", "\ufeffstart", "a\u00a0b", "Δx", "SQLщик", "iPhone в США", "x²", "𝐀𝐱"),
        *("שם: \u2068Alice\u2069", "١٢٣", "Việt Nam", "ʻokina", "µm"),
    ],
)
def test_honest_text_is_clean_and_survives_untouched(text: str) -> None:
    assert judge_text(text) == ()
    assert strip_hidden(text) == text
    assert show_hidden(text) == text


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("ok\U000e0069\U000e0067", "text.tag"),
        ("\U0001f3f4\U000e0069\U000e0067\U000e007f", "text.tag"),
        ("a\u202eb", "text.bidi"),
        ("\u2066a\u2069", "text.bidi"),
        ("a\u200fb", "text.bidi"),
        ("שלום \u202brm x\u202c", "text.bidi"),
        ("שלום \u2067rm x\u2069", "text.bidi"),
        ("a\U0001d159b", "text.invisible"),
        ("x\ufe01", "text.variation_selector"),
        ("😀\U000e0101\U000e0102", "text.variation_selector"),
        ("a\u200bb", "text.zero_width"),
        ("a\u2060b", "text.zero_width"),
        ("a\ufeffb", "text.zero_width"),
        ("a\u200c\u200d\u200cb", "text.zero_width"),
        ("S\u00ado\u00adf\u00adt", "text.zero_width"),
        ("a\u3164b", "text.invisible"),
        ("\u2800\u2800x", "text.invisible"),
        ("a\u2062b", "text.invisible"),
        ("a\ufff9b", "text.invisible"),
        ("evil\rgood", "text.control"),
        ("a\x00b", "text.control"),
        ("a\x08b", "text.control"),
        ("a\x7fb", "text.control"),
        ("é\x80", "text.control"),
        ("a\x0bb", "text.line_break"),
        ("a\u2028b", "text.line_break"),
        ("a\x85b", "text.line_break"),
        ("\x1b[8mhid\x1b[0m", "text.ansi"),
        ("\x1b]8;;https://x.example\x1b\\a\x1b]8;;\x1b\\", "text.ansi"),
        ("\x9b8mhid", "text.ansi"),
        ("a\ud800b", "text.broken"),
        ("a\ufdd0b", "text.broken"),
        ("a\U0010ffff", "text.broken"),
        ("a\ue000", "text.private"),
        ("pаypаl", "text.lookalike"),
        ("𝐞𝐯𝐚𝐥", "text.lookalike"),
        ("a" + "\u0301" * 12, "text.stacked_marks"),
    ],
)
def test_hidden_text_is_found_in_its_place(text: str, rule: str) -> None:
    found = judge_text(text)
    assert rule in {finding.rule for finding in found}
    assert all(finding.span is not None and 0 <= finding.span[0] < finding.span[1] <= len(text) for finding in found)


def test_what_is_stripped_is_gone_and_lines_stay_apart() -> None:
    assert strip_hidden("a\x1b[31mred\x1b[0m\u200bb\u2028c") == "aredb\nc"


def test_what_is_shown_is_readable() -> None:
    assert show_hidden("a\u200bb\x1b[31mc") == "a\\u{200B}b\\u{001B}[31mc"


def test_the_message_shows_the_character_by_number() -> None:
    (finding,) = judge_text("a\u200bb")
    assert "\\u{200B}" in finding.message


def test_findings_are_bounded() -> None:
    assert len(judge_text("é" + "x\u200b" * 5000)) == 64


HARD = st.text(
    st.sampled_from("aé\u200b\u200d\ufe0f\U0001f468\x1b[]m;\r\n\u202e\U000e0041\u0430\u05d0\u2800\ud800"), max_size=40
)


@given(st.one_of(HARD, st.text(max_size=60)))
def test_stripping_leaves_nothing_to_strip(text: str) -> None:
    once = strip_hidden(text)
    while (again := strip_hidden(once)) != once:  # taking something away may uncover more, but only so often
        assert len(again) < len(once)
        once = again
    assert all(finding.rule in ("text.lookalike", "text.stacked_marks") for finding in judge_text(once))


@given(HARD)
def test_shown_text_hides_nothing(text: str) -> None:
    assert all(finding.rule in ("text.lookalike", "text.stacked_marks") for finding in judge_text(show_hidden(text)))


WORDS = st.sampled_from(
    ["pay", "pаy", "שלום", "a\u200bb", "\u202bשלום\u202c", "\x1b[31m", "👩\u200d🚀", "e\u0301", "x\ufe0f", "𝐞𝐯𝐚𝐥", "\r"]
)


@given(st.lists(WORDS, max_size=30))
def test_a_text_read_in_stretches_is_read_as_a_whole(words: list[str]) -> None:
    written = "".join(f"{word} " for word in words)
    whole = list(hidden_in(written)), show_hidden(written)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judged, "STRETCH", 12)
        assert (list(hidden_in(written)), show_hidden(written)) == whole
