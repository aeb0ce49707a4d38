from __future__ import annotations

import random
from collections.abc import Callable

from cases import each_case
from interlock.discovery.split_query import MAX_TERMS, split_query
from interlock.discovery.words import stem, terms


def _han() -> str:
    seed = random.Random(1)
    return "".join(chr(seed.randrange(0x4E00, 0x9FFF)) for _ in range(65_000))


def _mixed() -> str:
    han = _han()
    return " ".join(f"{han[n : n + 3]} getUser{n} x{n}_y.z Ünïcödé{n}" for n in range(10_000))


# Functions, since every worker imports this file, and one of them needs the texts.
@each_case(
    "query",
    [
        _han,
        _mixed,
        lambda: "\ufdfa" * 65_000,
        lambda: " ".join(f"word{n}" for n in range(40_000)),
        lambda: "; ".join(f"send letter{n} to friend{n}" for n in range(10_000)),
    ],
    ids=["Han", "mixed", "one letter that becomes eighteen", "words", "steps"],
)
def test_a_query_of_any_length_has_a_bounded_number_of_terms(query: Callable[[], str]) -> None:
    split = split_query(query())
    for part in (split.whole, *split.steps):
        assert len(part.terms) <= MAX_TERMS
        assert len(part.names) <= MAX_TERMS


def test_the_terms_of_an_ordinary_query_are_all_of_its_terms_once() -> None:
    query = "Find the flights, then book one of the flights and mail it with send_mail"
    split = split_query(query)
    assert split.whole.terms == tuple(dict.fromkeys(terms(query)))
    assert split.whole.names == (stem("sendmail"),)
    assert split.texts == [query, "Find the flights", "book one of the flights", "mail it with send_mail"]


def test_a_long_query_keeps_the_terms_of_its_beginning_and_of_its_end() -> None:
    middle = " ".join(f"word{n}" for n in range(1_500))
    kept = split_query(f"weather tide {middle} weather harbour").whole.terms
    assert kept[:2] == ("weather", stem("tide"))
    assert kept[-1] == stem("harbour")
    assert len(kept) == len(set(kept)) <= MAX_TERMS
