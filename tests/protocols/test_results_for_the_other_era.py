"""Results carried over to the stateless era: complete, and never anything that only looks so."""

from __future__ import annotations

import msgspec

from cases import each_case
from interlock.protocols.mcp.results import complete

INFO = b'{"name":"s","version":"1"}'


def members(result: bytes) -> dict[str, object]:
    return msgspec.json.decode(complete(result, server_info=INFO), type=dict[str, object])


@each_case(
    "result",
    [
        b"{}",
        b' { "content" : [] }',
        b'{"structuredContent":{"resultType":"odd","_meta":{}}}',
        b'{"content":[{"type":"text","text":"\\"resultType\\""}]}',
        b'{"resultType":"complete"}',
        b'{"resultType":"input_required","inputRequests":{},"requestState":"forged"}',
        b'{"content":[],"resultType":5}',
    ],
)
def test_it_says_at_its_top_that_it_is_complete_and_from_whom(result: bytes) -> None:
    became = members(result)
    assert became["resultType"] == "complete"
    assert became["_meta"] == {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}
    kept = msgspec.json.decode(result, type=dict[str, object])
    assert {name: became[name] for name in kept if name != "resultType"} == {
        name: value for name, value in kept.items() if name != "resultType"
    }


def test_what_a_server_said_about_itself_stays() -> None:
    assert members(b'{"_meta":{"a":1},"content":[]}')["_meta"] == {"a": 1}
