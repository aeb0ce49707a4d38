"""Translation from one revision to another: results, lists, questions and errors, as plain values."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mcp.capability_projection import (
    capabilities_across,
    capabilities_along,
    request_meta,
    with_request_meta,
)
from interlock.protocols.mcp.error_translation import error_for_new, error_for_old
from interlock.protocols.mcp.input_requests import answer_for_old, question_for_new, question_for_old
from interlock.protocols.mcp.older_revisions import older_tool, result_for, wraps
from interlock.protocols.mcp.revisions import (
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    REVISIONS,
    Revision,
)
from interlock.signatures.validate import Validator
from interlock.wire.errors import ErrorObject, Fault

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(value=VALUES, object_schema=st.booleans())
def test_what_is_listed_and_what_is_given_agree_in_every_revision(value: Any, object_schema: bool) -> None:
    schema = {"type": "object"} if object_schema else {"$ref": "#/$defs/any", "$defs": {"any": {}}}
    if object_schema and not isinstance(value, dict):
        value = {"value": value}
    tool = msgspec.json.encode({"name": "t", "inputSchema": {}, "outputSchema": schema})
    result = msgspec.json.encode({"content": [], "structuredContent": value})
    for revision in REVISIONS.values():
        listed = json.loads(older_tool(revision, tool)).get("outputSchema")
        given_ = json.loads(result_for(revision, result, wraps(msgspec.json.encode(schema))))
        if revision.name < R2025_06_18.name:
            assert listed is None
            assert "structuredContent" not in given_
            assert json.loads(given_["content"][0]["text"]) == value
        else:
            assert not Validator(listed).check(given_["structuredContent"])
            if not revision.modern:
                assert isinstance(given_["structuredContent"], dict)


def test_a_schema_that_refers_to_itself_still_does_when_it_is_wrapped() -> None:
    tree = {"type": "array", "items": {"$ref": "#"}}
    tool = msgspec.json.encode({"name": "t", "inputSchema": {}, "outputSchema": tree})
    schema = json.loads(older_tool(R2025_11_25, tool))["outputSchema"]
    validator = Validator(schema)
    assert not validator.check({"result": [[], [[]]]})
    assert validator.check({"result": [[], [1]]})


@given(value=VALUES)
def test_what_the_newest_revision_gets_is_not_touched(value: Any) -> None:
    result = msgspec.json.encode({"content": [{"type": "audio"}], "structuredContent": value})
    assert result_for(R2026_07_28, result, True) is result


@each_case(
    ("revision", "kinds"),
    [
        (R2024_11_05, ["text", "text", "image"]),
        (R2025_03_26, ["audio", "text", "image"]),
        (R2025_06_18, ["audio", "resource_link", "image"]),
    ],
)
def test_content_that_came_later_is_told_in_words(revision: Revision, kinds: list[str]) -> None:
    sound = {"type": "audio", "data": "", "mimeType": "audio/wav"}
    link = {"type": "resource_link", "uri": "a://b", "name": "b"}
    picture = {"type": "image", "data": "", "mimeType": "image/png"}
    result = msgspec.json.encode({"content": [sound, link, picture]})
    assert [piece["type"] for piece in json.loads(result_for(revision, result, False))["content"]] == kinds
    prompt = msgspec.json.encode({"messages": [{"role": "user", "content": piece} for piece in (sound, link, picture)]})
    told = json.loads(result_for(revision, prompt, False))["messages"]
    assert [message["content"]["type"] for message in told] == kinds


def test_choices_with_titles_are_told_as_the_revision_before_knew_them() -> None:
    field = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}], "default": "r"}
    params = msgspec.json.encode({"mode": "form", "message": "?", "requestedSchema": {"properties": {"c": field}}})
    old = json.loads(question_for_old(R2025_06_18, "elicitation/create", params, None))
    assert "mode" not in old
    told = old["requestedSchema"]["properties"]["c"]
    assert told == {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "g"], "default": "r"}
    assert json.loads(question_for_old(R2025_11_25, "elicitation/create", params, None)) == json.loads(params)


def test_questions_lose_what_belongs_to_their_own_conversation_alone() -> None:
    params = msgspec.json.encode(
        {"mode": "url", "url": "u", "elicitationId": "e", "task": {}, "_meta": {"progressToken": 1, "mine": 2}}
    )
    new = json.loads(question_for_new(params))
    assert new == {"mode": "url", "url": "u", "_meta": {"mine": 2}}
    back = json.loads(question_for_old(R2025_11_25, "elicitation/create", msgspec.json.encode(new), "e2"))
    assert back["elicitationId"] == "e2"
    with pytest.raises(Fault):
        answer_for_old("elicitation/create", b'"yes"')


SAMPLED = '{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m","more":1}'


@each_case(
    ("method", "good", "bad"),
    [
        ("elicitation/create", '{"action":"accept","content":{"a":1},"_meta":{}}', '{"action":"perhaps"}'),
        ("elicitation/create", '{"action":"cancel"}', '{"action":5}'),
        ("elicitation/create", '{"action":"accept","content":null}', '{"action":"accept","content":"x"}'),
        ("elicitation/create", '{"action":"decline"}', "{}"),
        ("sampling/createMessage", SAMPLED, '{"role":"assistant","model":"m"}'),
        ("sampling/createMessage", SAMPLED.replace('{"type"', '[{"type"').replace('"},', '"}],'), "[]"),
        ("sampling/createMessage", SAMPLED, SAMPLED.replace('"m"', "5")),
        ("roots/list", '{"roots":[{"uri":"file:///a","name":"a"}]}', '{"roots":["file:///a"]}'),
        ("roots/list", '{"roots":[]}', "null"),
    ],
)
def test_an_answer_has_the_form_of_one_to_its_question(method: str, good: str, bad: str) -> None:
    assert answer_for_old(method, good.encode()) == good.encode()
    with pytest.raises(Fault, match="not an answer to"):
        answer_for_old(method, bad.encode())


def test_what_a_client_declares_crosses_without_what_means_something_else_there() -> None:
    said = b'{"sampling":{"tools":{}},"roots":{"listChanged":true},"tasks":{"list":{}},"extensions":{"x":{}}}'
    assert json.loads(capabilities_across(said)) == {"sampling": {"tools": {}}, "roots": {}}
    assert json.loads(capabilities_along(said)) == json.loads(said)
    meta = request_meta(R2026_07_28, said, b'{"name":"n"}', "info")
    own = b'{"progressToken":1,"io.modelcontextprotocol/logLevel":"debug","mine":2}'
    told = json.loads(with_request_meta(own, meta))
    assert told["io.modelcontextprotocol/logLevel"] == "info"
    assert told["io.modelcontextprotocol/clientInfo"] == {"name": "n"}
    assert (told["progressToken"], told["mine"]) == (1, 2)


@each_case(
    ("code", "data", "method", "old", "new"),
    [
        (-32021, {"requiredCapabilities": {"roots": {}}}, "tools/call", -32600, -32021),
        (-32021, {}, "tools/call", -32600, -32603),
        (-32020, {}, "tools/call", -32603, -32603),
        (-32022, {}, "tools/call", -32603, -32603),
        (-32050, {}, "tools/call", -32050, -32603),
        (-32099, {}, "tools/call", -32099, -32603),
        (-32019, {}, "tools/call", -32019, -32019),
        (-32602, {"uri": "a://b"}, "resources/read", -32002, -32602),
        (-32602, {}, "resources/read", -32602, -32602),
        (-32602, {"uri": "a://b"}, "tools/call", -32602, -32602),
        (-32002, {"uri": "a://b"}, "resources/read", -32002, -32602),
        (-32042, {}, "tools/call", -32042, -32603),
        (-32600, {"requiredCapabilities": {"roots": {}}}, "tools/call", -32600, -32021),
        (-32600, {}, "tools/call", -32600, -32600),
        (7, {}, "tools/call", 7, 7),
    ],
)
def test_errors_have_numbers_that_the_other_era_knows(
    code: int, data: dict[str, object], method: str, old: int, new: int
) -> None:
    error = ErrorObject(code, "words", msgspec.Raw(msgspec.json.encode(data)))
    assert error_for_old(error, method).code == old
    assert error_for_new(error).code == new
    assert error_for_new(error).message == error_for_old(error, method).message == "words"


def test_errors_whose_data_is_no_object_cross_too() -> None:
    for data in (b"", b"[1]", b'"x"', b"null"):
        assert error_for_old(ErrorObject(-32602, "w", msgspec.Raw(data)), "resources/read").code == -32602
        assert error_for_new(ErrorObject(-32600, "w", msgspec.Raw(data))).code == -32600
