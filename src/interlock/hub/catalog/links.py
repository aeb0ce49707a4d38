"""Translates resource addresses between a server and clients that see many servers.

Results and sampling requests get the hub's addresses; answers to the server get the server's own. The hub changes only
the members that MCP defines as addresses, never arguments, structured content or text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from interlock.hub.catalog.resource_uris import exposed_uri, original_uri
from interlock.protocols.mcp.answers import ADDRESS
from interlock.wire.errors import ErrorObject
from interlock.wire.large import CheckedJson, encode_large
from interlock.wire.large_messages import decode_large_value
from interlock.wire.limits import DEFAULT
from interlock.wire.names import may_spell

SAMPLING: Final = "sampling/createMessage"

Blocks = list[dict[str, object]]


def with_exposed_uris(server: str, result: bytes) -> bytes:
    """Translate the result of a tool, prompt or resource for a view of many servers."""
    if type(result) is CheckedJson:
        whole = decode_large_value(result, DEFAULT, DEFAULT.answer_members)
        _expose(server, whole.value)
        return CheckedJson.of(encode_large(whole.value), names=result.names)
    value = msgspec.json.decode(result)
    _expose(server, value)
    return msgspec.json.encode(value)


def _expose(server: str, value: Any) -> None:
    messages = [block for message in _blocks(value.get("messages")) for block in _one_or_more(message.get("content"))]
    for block in [*_blocks(value.get("content")), *_blocks(value.get("contents")), *messages]:
        _change(block, partial(exposed_uri, server))


def exposed_error(server: str, error: ErrorObject) -> ErrorObject:
    """Translate a server's error about a resource (2026-07-28, Resources: Error Handling)."""
    if not may_spell(bytes(error.data), ADDRESS):
        return error
    data = msgspec.json.decode(error.data)
    if not isinstance(data, dict) or not isinstance(data.get("uri"), str):
        return error
    data["uri"] = exposed_uri(server, data["uri"])
    return ErrorObject(error.code, error.message, msgspec.Raw(msgspec.json.encode(data)))


def exposed_question(server: str, method: str, params: bytes) -> bytes:
    """Translate a server's request for a client that sees many servers: the tool results in a sampling request."""
    if method != SAMPLING or not may_spell(params, ADDRESS):
        return params
    value = msgspec.json.decode(params)
    for message in _blocks(value.get("messages")) if isinstance(value, dict) else ():
        _change_tool_results(message, partial(exposed_uri, server))
    return msgspec.json.encode(value)


def exposed_questions(server: str, requests: bytes) -> bytes:
    """Translate `inputRequests`. Anything else stays unchanged."""
    if not may_spell(requests, ADDRESS):
        return requests
    try:
        decoded = msgspec.json.decode(requests, type=dict[str, dict[str, msgspec.Raw]])
        methods = {key: method.method for key, method in _decode_methods(requests).items()}
    except msgspec.DecodeError:
        return requests
    for key, question in decoded.items():
        if "params" in question and methods[key] == SAMPLING:
            question["params"] = msgspec.Raw(exposed_question(server, SAMPLING, bytes(question["params"])))
    return msgspec.json.encode(decoded)


def restored_answer(server: str, answer: bytes) -> bytes:
    """Translate a client's answer to sampling back to the server's addresses."""
    if not may_spell(answer, ADDRESS):
        return answer
    value = msgspec.json.decode(answer)
    if not isinstance(value, dict) or "role" not in value:
        return answer
    _change_tool_results(value, partial(_restored, server))
    return msgspec.json.encode(value)


def restored_answers(server: str, responses: bytes) -> bytes:
    """Translate `inputResponses`."""
    if not may_spell(responses, ADDRESS):
        return responses
    try:
        decoded = msgspec.json.decode(responses, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return responses
    return msgspec.json.encode({key: msgspec.Raw(restored_answer(server, bytes(raw))) for key, raw in decoded.items()})


def _change_tool_results(message: dict[str, object], change: Callable[[str], str]) -> None:
    """Change the addresses in tool results, the only part of a sampling message that has any."""
    for block in _one_or_more(message.get("content")):
        for inner in _blocks(block.get("content")) if block.get("type") == "tool_result" else ():
            if inner.get("type") in ("resource_link", "resource"):
                _change(inner, change)


def _change(block: dict[str, object], change: Callable[[str], str]) -> None:
    holder = block.get("resource") if isinstance(block.get("resource"), dict) else block
    if isinstance(holder, dict) and isinstance(holder.get("uri"), str):
        holder["uri"] = change(holder["uri"])


def _restored(server: str, uri: str) -> str:
    found = original_uri(uri)
    return found[1] if found is not None and found[0] == server else uri


class _Asked(msgspec.Struct):
    method: str = ""


_decode_methods = msgspec.json.Decoder(dict[str, _Asked]).decode


def _blocks(value: object) -> Blocks:
    return [block for block in value if isinstance(block, dict)] if isinstance(value, list) else []


def _one_or_more(value: object) -> Blocks:
    return [value] if isinstance(value, dict) else _blocks(value)
