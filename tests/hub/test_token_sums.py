"""The tokens counted for parts are never fewer than those of the whole: in lists, answers and instructions."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import example_count
from interlock.discovery.tokens import TokenCounter, at_most
from interlock.hub.tool_search.creations import NOT_ALLOWED
from interlock.hub.tool_search.discovery_tools import FOUND_TOKENS
from interlock.hub.tool_search.instructions import merged
from interlock.hub.tool_search.requested_tools import LOADED_TOKENS
from interlock.hub.tool_search.tokens import TokenCounts, joint
from interlock.hub.tool_search.tool_summaries import SCORE_TOKENS, cost_of

count = TokenCounter()
TEXTS = st.lists(
    st.text(max_size=8)
    | st.sampled_from(["it's ", "Read the file. ", "}},{", '"', "\n", "潮の高さ", "!!!", "🌊", "\\", "a_b", "12", " "]),
    max_size=8,
).map("".join)
MEMBERS = st.dictionaries(st.sampled_from(["title", "_x", "zeta", "$schema"]), TEXTS, max_size=2)
DEFINITIONS = st.builds(
    lambda more, text, last: {
        **more,
        "name": "s__t",
        "description": text,
        "inputSchema": {"type": "object", "x": last},
    },
    MEMBERS,
    TEXTS,
    TEXTS | st.lists(TEXTS, max_size=2) | st.booleans(),
)


class Counted(TokenCounts):
    """Counts at once."""

    def of_text(self, text: bytes) -> int:
        return count(text.decode())

    def counted(self, texts: Any) -> bool:
        return True


class Bounded(Counted):
    """Never counts."""

    def of_text(self, text: bytes) -> int:
        return at_most(text)


@pytest.fixture(params=[Counted, Bounded], scope="module")
def tokens(request: pytest.FixtureRequest) -> TokenCounts:
    return request.param(lambda: None)  # type: ignore[no-any-return]


@settings(max_examples=example_count(40, 150), deadline=None)
@given(st.lists(DEFINITIONS, max_size=5))
def test_a_list_costs_no_more_than_its_definitions(tokens: TokenCounts, definitions: list[dict[str, Any]]) -> None:
    encoded = [msgspec.json.encode(each) for each in definitions]
    listing = b"[" + b",".join(encoded) + b"]"
    assert count(listing.decode()) <= 2 + sum(map(tokens.of_definition, encoded))


@settings(max_examples=example_count(40, 150), deadline=None)
@given(st.lists(st.tuples(DEFINITIONS, st.floats(0, 1), TEXTS), max_size=4), st.integers(0, 200_000))
def test_an_answer_costs_no_more_than_its_parts(
    tokens: TokenCounts, found: list[tuple[dict[str, Any], float, str]], total: int
) -> None:
    entries, most = [], FOUND_TOKENS
    for definition, score, server in found:
        added = {"server_id": server, "status": "connected", "security": {"risk_level": "moderate"}}
        parts = [msgspec.json.encode(part) for part in (definition, added)]
        most += sum(tokens.of_text(part) + joint(part) for part in parts) + SCORE_TOKENS
        entries.append({**definition, **added, "relevance_score": round(score, 4)})
    answer: dict[str, Any] = {"tools": entries, "total_available": total, "search_strategy": "semantic"}
    answer |= {"query_time_ms": 12345.67}
    assert count(msgspec.json.encode(answer).decode()) <= most
    names = [server[:40] for _, _, server in found]
    answer["left_out_for_budget"] = names
    assert count(msgspec.json.encode(answer).decode()) <= most + sum(map(cost_of, names))


@settings(max_examples=example_count(30, 100), deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
def test_an_answer_to_a_request_costs_no_more_than_its_parts(missing: list[tuple[str, str]]) -> None:
    entries = [{"capability": need, "reason": reason} for need, reason in missing]
    answer: dict[str, Any] = {"status": "pending_approval", "tools_loaded": [], "tools_unavailable": entries}
    answer |= {"session_tools_count": 1_000, "context_tokens_added": 100_000}
    most = LOADED_TOKENS + sum(map(cost_of, entries))
    assert count(msgspec.json.encode({**answer, "note": NOT_ALLOWED}).decode()) <= most
    pending = [{"tool": need, "decision": "abc"} for need, _ in missing]
    answer |= {"request_id": "0123456789abcdef", "tools_pending": pending}
    assert count(msgspec.json.encode(answer).decode()) <= most + sum(map(cost_of, pending))


@settings(max_examples=example_count(40, 150), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "b-2", "long_name"]), TEXTS), max_size=5), st.integers(0, 200))
def test_instructions_cost_no_more_than_is_said_and_fit_their_room(
    tokens: TokenCounts, said: list[tuple[str, str]], room: int
) -> None:
    told = merged(said, room, tokens, bare=False)
    assert count(told.text) <= told.tokens <= room


def test_nothing_is_counted_for_an_offer_that_comes_after_the_end() -> None:
    async def run() -> None:
        tokens = TokenCounts(lambda: None)
        tokens.of_text(b"counted soon")
        await tokens.close()
        tokens.of_text(b"too late")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
