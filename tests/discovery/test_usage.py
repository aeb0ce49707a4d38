from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.discovery.entries import from_definition
from interlock.discovery.index import ToolIndex
from interlock.discovery.usage import MOST_TERMS, MOST_USES, WEIGHT, Usage
from interlock.discovery.words import terms

POST, SEND = ("chat", "post_message"), ("chat", "send_message")


def index() -> ToolIndex:
    made = ToolIndex()
    for server, name in (POST, SEND):
        made.put(from_definition(server, {"name": name, "description": "A message for a channel"}))
    return made


def first(usage: Usage, query: str) -> str:
    return index().search(query, usage=usage).hits[0].entry.name


def test_a_tool_that_served_a_query_rises_for_queries_like_it() -> None:
    usage = Usage()
    assert first(usage, "message for the team channel") == "post_message"
    usage.served(terms("message in the team channel"), SEND)
    assert first(usage, "message for the team channel") == "send_message"
    assert first(usage, "message about lunch tomorrow at noon") == "post_message", "another query is as before"


def test_use_cannot_lift_a_tool_that_does_not_fit_above_one_that_does() -> None:
    usage = Usage()
    made = index()
    made.put(from_definition("sky", {"name": "get_forecast", "description": "Weather forecast for a city"}))
    for _ in range(1_000):
        usage.served(terms("weather forecast"), POST)
    assert made.search("weather forecast", usage=usage).hits[0].entry.name == "get_forecast"
    assert all(raised.share < WEIGHT for raised in usage.raised(terms("weather forecast")).values())


def test_a_tool_that_the_caller_may_not_see_is_not_raised_into_its_answer() -> None:
    usage = Usage()
    usage.served(terms("message for the channel"), SEND)
    made = index()
    found = made.search("message for the channel", usage=usage, allowed=frozenset({POST}))
    alone = made.search("message for the channel", allowed=frozenset({POST}))
    assert found == alone


def test_what_was_learned_is_explained() -> None:
    usage = Usage()
    usage.served(terms("message for the channel"), SEND)
    hits = index().search("message for the channel", usage=usage, explain=True).hits
    assert hits[0].why == ("words: messag, channel", "learned: called 1 times after queries like this, +0.15")
    assert hits[1].why == ("words: messag, channel",)


def test_a_word_that_stands_for_another_is_explained() -> None:
    hits = index().search("text the channel", explain=True).hits
    assert "text as messag" in hits[0].why[0]


def test_the_uses_that_are_kept_are_bounded_and_the_oldest_go_first() -> None:
    usage = Usage()
    for number in range(MOST_USES + 10):
        usage.served([f"term{number}", *(f"more{n}" for n in range(100))], POST)
    assert len(usage) == MOST_USES
    kept = list(usage)
    assert all(len(use.terms) <= MOST_TERMS for use in kept)
    assert "term9" not in {term for use in kept for term in use.terms}


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcdef"), min_size=1), st.sampled_from([POST, SEND])), max_size=20))
def test_what_was_learned_is_the_same_after_it_was_kept_and_read(
    served: list[tuple[set[str], tuple[str, str]]],
) -> None:
    usage = Usage()
    for words, tool in served:
        usage.served(words, tool)
    again = Usage(list(usage))
    assert list(again) == list(usage)
    assert again.raised("abc") == usage.raised("abc")
