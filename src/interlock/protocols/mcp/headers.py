"""The `Mcp-*` headers of the stateless era: written by clients, checked by servers. The body always decides.

(2026-07-28, Streamable HTTP: Request Metadata.)
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

import msgspec

from interlock.protocols.mcp.methods import METHODS
from interlock.wire.errors import Fault

VERSION: Final = b"mcp-protocol-version"
METHOD: Final = b"mcp-method"
NAME: Final = b"mcp-name"
PARAM_PREFIX: Final = b"mcp-param-"
SESSION: Final = b"mcp-session-id"
LAST_EVENT: Final = b"last-event-id"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?\Z")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?\Z", re.ASCII)


def encode_value(value: str | float | bool) -> str:
    """A parameter's value as a header value: plain text if that is safe, otherwise base64 between markers."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    else:
        # 42.0 is an integer in JSON Schema, so the header must have an integer, too.
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if _PLAIN.match(text) and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_value(header: str) -> str:
    """The value in a header. Raises HEADER_MISMATCH for an invalid one."""
    if header.startswith("=?base64?") and header.endswith("?="):
        try:
            return base64.b64decode(header[9:-2], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise Fault("HEADER_MISMATCH", f"header value {header!r} is not base64 of UTF-8 text") from None
    if header and not _PLAIN.match(header):
        raise Fault("HEADER_MISMATCH", "header value has characters that a header may not have")
    return header


class ParamHeader(msgspec.Struct, frozen=True):
    """One `x-mcp-header` of a tool: the header's name and the path of the value in the arguments."""

    header: str
    path: tuple[str, ...]


class BadParamHeader(ValueError):
    """A tool has an invalid `x-mcp-header`, so it must not be offered."""


def param_headers(schema: object) -> tuple[ParamHeader, ...]:
    """The header parameters of an input schema. Raises `BadParamHeader` (Schema Extension: Constraints)."""
    found: list[ParamHeader] = []
    _collect(schema, (), True, found, 0)
    names = [header.header.lower() for header in found]
    if len(set(names)) != len(names):
        raise BadParamHeader("two parameters share one x-mcp-header name")
    return tuple(found)


def param_values(headers: Iterable[ParamHeader], arguments: object) -> list[tuple[str, str]]:
    """The `Mcp-Param-*` headers for a call's arguments; absent and null values have none."""
    pairs: list[tuple[str, str]] = []
    for header in headers:
        value = _at(arguments, header.path)
        if isinstance(value, str | int | float | bool):
            pairs.append((f"Mcp-Param-{header.header}", encode_value(value)))
    return pairs


def check_standard(headers: Mapping[bytes, bytes], method: str, name: str | None, version: str) -> None:
    """Refuse a request whose version, method or name header is missing or differs from its body."""
    said_version = headers.get(VERSION)
    if said_version is None or said_version.decode("latin-1") != version:
        raise _mismatch("MCP-Protocol-Version", said_version, version)
    said_method = headers.get(METHOD)
    if said_method is None or said_method.decode("latin-1") != method:
        raise _mismatch("Mcp-Method", said_method, method)
    row = METHODS.get(method)
    if row is not None and row.named_by and name is not None:
        said_name = headers.get(NAME)
        if said_name is None or decode_value(said_name.decode("latin-1")) != name:
            raise _mismatch("Mcp-Name", said_name, name)


def check_params(headers: Mapping[bytes, bytes], declared: Iterable[ParamHeader], arguments: object) -> None:
    """Refuse a call whose `Mcp-Param-*` headers do not repeat its arguments."""
    for header in declared:
        sent = headers.get(PARAM_PREFIX + header.header.lower().encode())
        value = _at(arguments, header.path)
        if value is None:
            if sent is not None:
                raise _mismatch(f"Mcp-Param-{header.header}", sent, "nothing")
            continue
        if sent is None or not _same(decode_value(sent.decode("latin-1")), value):
            raise _mismatch(f"Mcp-Param-{header.header}", sent, str(value))


def _mismatch(header: str, sent: bytes | None, body: str) -> Fault:
    if sent is None:
        return Fault("HEADER_MISMATCH", f"Header mismatch: {header} header is missing; the body says {body[:200]!r}")
    shown = sent.decode("latin-1")[:200]
    return Fault("HEADER_MISMATCH", f"Header mismatch: {header} header says {shown!r}, the body {body[:200]!r}")


def _same(sent: str, value: object) -> bool:
    if isinstance(value, bool):
        return sent == ("true" if value else "false")
    if isinstance(value, int | float):
        # Numbers are compared exactly, so that a proxy reads the same number in the header as the server in the body.
        return _NUMBER.match(sent) is not None and Decimal(sent) == Decimal(str(value))
    return sent == value


def _at(arguments: object, path: tuple[str, ...]) -> object:
    for step in path:
        if not isinstance(arguments, dict):
            return None
        arguments = arguments.get(step)
    return arguments


def _collect(schema: object, path: tuple[str, ...], reachable: bool, found: list[ParamHeader], depth: int) -> None:
    if depth > 64:
        raise BadParamHeader("the schema is nested too deeply")
    if isinstance(schema, list):
        for item in schema:
            _collect(item, path, False, found, depth + 1)
        return
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        found.append(_checked(schema, path, reachable))
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            for name, child in value.items():
                _collect(child, (*path, name), reachable, found, depth + 1)
        elif key not in ("enum", "const", "default", "examples"):
            _collect(value, path, False, found, depth + 1)


def _checked(schema: dict[str, object], path: tuple[str, ...], reachable: bool) -> ParamHeader:
    name = schema["x-mcp-header"]
    where = ".".join(path) or "the schema's root"
    if not isinstance(name, str) or not _TOKEN.match(name):
        raise BadParamHeader(f"x-mcp-header of {where} is not a header name")
    if not reachable or not path:
        raise BadParamHeader(f"x-mcp-header of {where} cannot be reached through properties alone")
    if schema.get("type") not in ("string", "integer", "boolean"):
        raise BadParamHeader(f"x-mcp-header of {where} stands on a parameter that is no string, integer or boolean")
    return ParamHeader(name, path)
