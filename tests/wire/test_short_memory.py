"""Repeated values are worked out once; long ones are worked out anew, and none of them is kept."""

from __future__ import annotations

import gc
import weakref

from interlock.wire.bounded_cache import cache_short


class Words(str):
    """A text whose end can be seen."""


def test_short_words_are_gone_through_once_and_long_ones_each_time() -> None:
    asked: list[bytes] = []

    @cache_short(8, longest=4)
    def upper(words: bytes) -> bytes:
        asked.append(words)
        return words.upper()

    assert [upper(b"abcd"), upper(b"abcd"), upper(b"abcde"), upper(b"abcde")] == [b"ABCD", b"ABCD", b"ABCDE", b"ABCDE"]
    assert asked == [b"abcd", b"abcde", b"abcde"]


def test_nothing_is_kept_of_long_words() -> None:
    @cache_short(8, longest=4)
    def length(words: str) -> int:
        return len(words)

    short, long = Words("abcd"), Words("abcde")
    kept, gone = weakref.ref(short), weakref.ref(long)
    assert (length(short), length(long)) == (4, 5)
    del short, long
    gc.collect()
    assert (kept() is None, gone() is None) == (False, True)
