"""Kinds: split once, on the first two colons only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.kinds import MAX_KIND_CHARS, fulfilling, parse_kind


@each_case(
    ("text", "parts"),
    [
        ("mcp/request:tools/call", ("mcp/request", "tools/call", None)),
        ("mcp/request:tools/call:read_file", ("mcp/request", "tools/call", "read_file")),
        ("mcp/request:resources/read:file:///a:b", ("mcp/request", "resources/read", "file:///a:b")),
        ("mcp/request:resources/read:https://h:80/?q=*", ("mcp/request", "resources/read", "https://h:80/?q=*")),
        ("mcp/request:notifications/initialized", ("mcp/request", "notifications/initialized", None)),
        ("mcp/response:ping", ("mcp/response", "ping", None)),
        ("mcp/proposal:resources/templates/list", ("mcp/proposal", "resources/templates/list", None)),
        ("mcp/request:tools/call:größe ☃", ("mcp/request", "tools/call", "größe ☃")),
        ("mcp/withdraw", ("mcp/withdraw", None, None)),
        ("mcp/reject", ("mcp/reject", None, None)),
        ("chat", ("chat", None, None)),
        ("system/welcome", ("system/welcome", None, None)),
        ("system/anything", ("system/anything", None, None)),
        ("com.example/thing:verb:x", ("com.example/thing", "verb", "x")),
    ],
)
def test_kinds_are_split_into_type_method_and_context(text: str, parts: tuple[str, str | None, str | None]) -> None:
    kind = parse_kind(text)
    assert (kind.type, kind.method, kind.context) == parts
    assert kind.text == text


@each_case(
    "text",
    [
        "", ":", "presence", "system", "mcp", "mcp/", "mcp/request", "mcp/request:", "mcp/request::x",
        "mcp/request:tools/call:", "mcp/request:/call", "mcp/request:tools//call", "mcp/request:tools/",
        "mcp/request:*", "mcp/request:tools/*", "mcp/Request:tools/call", "MCP/request:tools/call", "Chat", "chat:x",
        "mcp/withdraw:tools/call", "mcp/cancel", "mcp/requests:tools/call", "chat ", " chat", "mcp/request: tools/call",
        "mcp/request:tools/cаll", "chat\n", "mcp/request:tools/call:a\nb", "mcp/request:tools/call:\x85",
        "/chat", "chat/", "system/welcome:x", "*", "x" * (MAX_KIND_CHARS + 1),
    ],
)  # fmt: skip
def test_malformed_kinds_are_refused_with_a_fix(text: str) -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        parse_kind(text)
    assert caught.value.reason is RefusalReason.INVALID_KIND
    assert caught.value.fix


@each_case(("former", "slash"), [("presence", "system/presence"), ("system", "system/error")])
def test_the_short_forms_of_the_overview_are_refused_in_favour_of_the_slash_forms(former: str, slash: str) -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        parse_kind(former)
    assert slash in caught.value.fix


def test_only_kinds_that_begin_with_system_are_reserved() -> None:
    assert parse_kind("system/presence").reserved
    assert not parse_kind("systems/presence").reserved


def test_the_fulfilling_kind_repeats_method_and_context() -> None:
    assert fulfilling(parse_kind("mcp/proposal:resources/read:file:///a:b")) == "mcp/request:resources/read:file:///a:b"


@given(st.text(max_size=40))
def test_a_kind_is_its_parts_joined_by_colons(text: str) -> None:
    try:
        kind = parse_kind(text)
    except EnvelopeRefused:
        return
    assert ":".join(part for part in (kind.type, kind.method, kind.context) if part is not None) == text
