"""Long results divided by tokens: nothing is lost, no piece holds more than it may, and the counts are true."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import example_count
from interlock.hub.calls.dispatch.result_division import MAX_COUNTED, divide, left_over


def words(text: str) -> int:
    """A counter that is easy to check: letters cost one each, other signs as many as they have bytes."""
    return sum(len(sign.encode()) for sign in text)


TEXTS = st.lists(st.text(st.sampled_from("ab \nüあ"), max_size=120), min_size=1, max_size=5)


@settings(max_examples=example_count(80, 300), deadline=None)
@given(TEXTS, st.integers(4, 60))
def test_shown_and_pages_together_are_the_whole_text(texts: list[str], most: int) -> None:
    division = divide(texts, most, words)
    if division.fits:
        assert sum(map(words, texts)) == division.total <= most
        return
    rest = left_over(texts, division.block, division.at).encode()
    assert division.bounds == sorted(set(division.bounds))
    assert division.bounds[-1] == len(rest)
    pages = [rest[start:end].decode() for start, end in zip([0, *division.bounds], division.bounds, strict=False)]
    assert "".join(pages).encode() == rest
    assert all(words(page) <= most for page in pages), "every page, read by itself"
    head = [*texts[: division.block], texts[division.block].encode()[: division.at].decode()]
    assert sum(map(words, head)) == division.shown <= most
    assert division.shown + sum(map(words, pages)) == division.total
    assert division.exact


def test_what_is_too_long_to_count_is_still_divided_whole_and_said_to_be_about() -> None:
    text = "ünï " * (MAX_COUNTED // 2)
    division = divide([text], 5000, words)
    assert not division.exact
    rest = left_over([text], division.block, division.at).encode()
    assert division.bounds[-1] == len(rest)
    pages = [rest[start:end].decode() for start, end in zip([0, *division.bounds], division.bounds, strict=False)]
    assert max(map(words, pages)) <= 5000
