from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.discovery.entries import from_definition
from interlock.discovery.index import ToolIndex
from interlock.discovery.usage import MAX_IN_ALL, MAX_TERMS, MAX_USES, WEIGHT, ToolUsage, UsageBoost
from interlock.discovery.words import terms

ADA, BOB = "agent:ada", "agent:bob"
POST, SEND = ("chat", "post_message"), ("chat", "send_message")


def index() -> ToolIndex:
    made = ToolIndex()
    for server, name in (POST, SEND):
        made.put(from_definition(server, {"name": name, "description": "A message for a channel"}))
    return made


def first(usage: ToolUsage, query: str, principal_name: str = ADA) -> str:
    return index().search(query, raised=usage.raised(principal_name, terms(query))).hits[0].entry.name


def test_a_tool_that_served_a_query_rises_for_queries_like_it() -> None:
    usage = ToolUsage()
    assert first(usage, "message for the team channel") == "post_message"
    usage.served(ADA, terms("message in the team channel"), SEND)
    assert first(usage, "message for the team channel") == "send_message"
    assert first(usage, "message about lunch tomorrow at noon") == "post_message", "another query is as before"


def test_use_cannot_lift_a_tool_that_does_not_fit_above_one_that_does() -> None:
    usage = ToolUsage()
    made = index()
    made.put(from_definition("sky", {"name": "get_forecast", "description": "Weather forecast for a city"}))
    for _ in range(1_000):
        usage.served(ADA, terms("weather forecast"), POST)
    raised = usage.raised(ADA, terms("weather forecast"))
    assert made.search("weather forecast", raised=raised).hits[0].entry.name == "get_forecast"
    assert all(each.share < WEIGHT for each in raised.values())


def test_a_tool_that_the_caller_may_not_see_is_not_raised_into_its_answer_nor_is_its_neighbour() -> None:
    made = index()
    made.put(from_definition("chat", {"name": "zip_message", "description": "A message for a channel"}))
    tools = [POST, SEND, ("chat", "zip_message")]
    for hidden in tools:
        seen = frozenset(tools) - {hidden}
        raised = {hidden: UsageBoost(1.0, 100)}
        found = made.search("message for the channel", raised=raised, allowed=seen)
        assert found == made.search("message for the channel", allowed=seen), f"{hidden} is hidden"


def test_a_principal_learns_from_its_own_use_alone() -> None:
    usage = ToolUsage()
    for _ in range(100):
        usage.served(BOB, terms("message for the channel"), SEND)
    assert first(usage, "message for the channel", BOB) == "send_message"
    assert first(usage, "message for the channel", ADA) == "post_message"
    assert first(usage, "message for the channel", "person:bob") == "post_message", "a person is not its agent"


def test_what_was_learned_is_explained() -> None:
    usage = ToolUsage()
    usage.served(ADA, terms("message for the channel"), SEND)
    raised = usage.raised(ADA, terms("message for the channel"))
    hits = index().search("message for the channel", raised=raised, explain=True).hits
    assert hits[0].why == ("words: message, channel", "learned: called once after queries like this, +0.15")
    assert hits[1].why == ("words: message, channel",)
    twice = index().search("message for the channel", raised={SEND: UsageBoost(1.0, 2)}, explain=True).hits
    assert twice[0].why[1].startswith("learned: called 2 times")


def test_a_word_that_stands_for_another_is_explained() -> None:
    hits = index().search("text the channel", explain=True).hits
    assert hits[0].why == ("words: text as chat, text as message, channel",)
    named = index().search("call post_message", explain=True).hits
    assert named[0].why == ("words: post, message, post_message",)


def test_the_uses_of_a_principal_are_bounded_and_its_oldest_go_first() -> None:
    usage = ToolUsage()
    usage.served(BOB, ["term"], POST)
    for number in range(MAX_USES + 10):
        usage.served(ADA, [f"term{number}", *(f"more{n}" for n in range(100))], POST)
    kept = usage.of(ADA)
    assert len(kept) == MAX_USES
    assert len(usage) == MAX_USES + 1
    assert all(len(use.terms) <= MAX_TERMS for use in kept)
    assert "term9" not in {term for use in kept for term in use.terms}
    assert usage.raised(BOB, ["term"]), "another principal keeps what it learned"


def test_too_many_uses_in_all_are_at_the_cost_of_the_principal_with_the_most() -> None:
    usage = ToolUsage()
    usage.served(BOB, ["term"], POST)
    many = [f"agent:{number}" for number in range(MAX_IN_ALL // MAX_USES)]
    for number in range(MAX_USES):
        for principal_name in many:
            usage.served(principal_name, [f"term{number}"], POST)
    assert len(usage) == MAX_IN_ALL
    assert usage.raised(BOB, ["term"])
    (loser,) = usage.served("agent:new", ["term"], POST) - {"agent:new"}
    assert loser in many
    assert len(usage) == MAX_IN_ALL
    assert not usage.raised(loser, ["term0"]), "it lost its oldest"
    assert usage.raised(loser, [f"term{MAX_USES - 1}"])


@given(
    st.lists(
        st.tuples(
            st.sampled_from([ADA, BOB]),
            st.sets(st.sampled_from("abcdef"), min_size=1),
            st.sampled_from([POST, SEND]),
        ),
        max_size=20,
    )
)
def test_what_was_learned_is_the_same_after_it_was_kept_and_read(
    served: list[tuple[str, set[str], tuple[str, str]]],
) -> None:
    usage, again = ToolUsage(), ToolUsage()
    for principal_name, words, tool in served:
        assert usage.served(principal_name, words, tool) == {principal_name}
    for principal_name in (ADA, BOB):
        for use in usage.of(principal_name):
            again.add(principal_name, use)
        assert again.of(principal_name) == usage.of(principal_name)
        assert again.raised(principal_name, "abc") == usage.raised(principal_name, "abc")
    assert len(again) == len(usage)
