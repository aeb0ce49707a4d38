"""Arguments that the hub masks or converts: the server gets what was judged, and the audit log says what changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hub.mgp_script import error_of
from hub.raw_server import RawHttpServer
from hub.running_hub import RawClient, running_hub
from interlock.config.settings import MaskSettings, ServerSettings
from interlock.signatures.coerce import coerced

TOKEN = "ghp_" + "a1B2" * 9
SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "flag": {"type": ["boolean", "null"]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/x"}},
        "text": {"type": "string"},
    },
    "required": ["n"],
    "additionalProperties": False,
    "$defs": {"x": {"type": "number"}},
}


class Listening(RawHttpServer):
    """Keeps the arguments that it gets."""

    def __init__(self) -> None:
        super().__init__(modern=True)
        self.schema = SCHEMA
        self.got: list[Any] = []

    def reply(self, message: dict[str, Any]) -> bytes | None:
        if message["method"] == "tools/call":
            self.got.append(message["params"]["arguments"])
        return super().reply(message)


async def test_t126_what_leaves_is_what_was_judged_and_the_change_is_on_record(tmp_path: Path) -> None:
    async with Listening() as web:
        lenient = ServerSettings(url=web.url, coerce=True, mask=MaskSettings(arguments=True, patterns=("email",)))
        servers = {"web": lenient, "strict": ServerSettings(url=web.url)}
        async with running_hub(tmp_path, servers) as hub:
            client = RawClient(hub.url + "/mcp")
            for long in ("", "x" * 2000):
                text = f"{TOKEN} of ada@example.org {long}"
                given = {"n": "5", "flag": "True", "list": '[1, "2"]', "text": text}
                answer = await client.modern("tools/call", {"name": "web__ok", "arguments": given})
                assert "content" in answer["result"], answer
                sent = f"[masked: github_token] of [masked: email] {long}"
                assert web.got.pop() == {"n": 5, "flag": True, "list": [1, 2], "text": sent}
            refused = await client.modern("tools/call", {"name": "strict__ok", "arguments": {"n": "5"}})
            assert error_of(refused)["name"] == "INVALID_TOOL_ARGS"
            wrong = await client.modern("tools/call", {"name": "web__ok", "arguments": {"n": "five"}})
            assert error_of(wrong)["name"] == "INVALID_TOOL_ARGS"
            assert not web.got
            found = await hub.operate("audit.search", server="web", most=100)
            recorded = [each["record"] for each in found["entries"]]
            events = {each["event"]: each.get("details") for each in recorded}
            paths = ["coerced: n", "coerced: flag", "coerced: list", "coerced: list[1]"]
            assert events["dev.interlock.arguments_coerced"] == {"rules": paths}
            masked = events["dev.interlock.arguments_masked"]["masked"]
            assert masked == ["1 email", "1 github_token"]
            assert TOKEN not in json.dumps(recorded)


@pytest.mark.parametrize(
    ("schema", "value", "became"),
    [
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, " -7 ", -7),
        ({"type": "integer"}, "5.0", "5.0"),
        ({"type": "integer"}, "05", "05"),
        ({"type": "integer"}, "9" * 400, "9" * 400),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "number"}, "nan", "nan"),
        ({"type": "boolean"}, "FALSE", False),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": "boolean"}, 1, 1),
        ({"type": "string"}, 5, "5"),
        ({"type": "string"}, True, True),
        ({"type": ["string", "integer"]}, "5", "5"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"type": "integer"}, {}]}, "5", "5"),
        ({"type": "object"}, '{"a":1,"a":2}', '{"a":1,"a":2}'),
        ({"type": "array"}, "[1,", "[1,"),
        ({"$ref": "#"}, "5", "5"),
    ],
)
def test_only_what_cannot_be_meant_otherwise_is_converted(schema: Any, value: Any, became: Any) -> None:
    converted, paths = coerced(schema, value)
    assert (converted, type(converted)) == (became, type(became))
    assert bool(paths) is (converted is not value)
