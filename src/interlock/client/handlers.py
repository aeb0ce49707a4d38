"""A client's answers to requests of servers: sampling, elicitation, roots. The same in both eras.

A client declares only the capabilities that it has handlers for, and refuses other requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from interlock.protocols.mcp.sampling import check_messages
from interlock.protocols.mgp import callbacks, streaming
from interlock.protocols.mgp.negotiation import question
from interlock.signatures.problems import ArgumentsError, DefinitionError
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

Json: TypeAlias = dict[str, object]
Handler: TypeAlias = Callable[[Json], Awaitable[Json]]
"""Takes a request's params, returns its result."""

CallbackHandler: TypeAlias = Callable[[Json], Awaitable[object]]
"""Takes the params of a callback, returns its response."""

Roots: TypeAlias = Sequence[Mapping[str, str]] | Callable[[], Awaitable[Sequence[Mapping[str, str]]]]

DECLINED: Final[Json] = {"action": "decline"}


class Handlers(msgspec.Struct, frozen=True):
    """Answers for the person or the model behind the client."""

    sampling: Handler | None = None
    """Asks the model. It raises `Fault("USER_REJECTED", …)` if the person refuses."""
    elicit_form: Handler | None = None
    """Asks the person to fill in `requestedSchema`, returns `{"action": …, "content": {…}}`. Missing members get the
    schema's defaults."""
    elicit_url: Handler | None = None
    """Asks the person to open `url`. The client never fetches it."""
    roots: Roots | None = None
    """Folders that the server may know of, each with its `file://` address."""
    sampling_tools: bool = False
    """Whether the model may be given tools: `sampling` then takes `tools` and `toolChoice` too."""
    chunk: Callable[[Json], None] | None = None
    """Takes each chunk of a call's result as it comes. With it the client offers MGP's streaming."""
    callback: CallbackHandler | None = None
    """Answers a callback of a server. With it the client offers MGP's callbacks. The response to a `notification` is
    not sent."""
    event: Callable[[Json], None] | None = None
    """Takes each event of the channels that `Client.subscribe_events` named. With it the client offers MGP's events."""

    def capabilities(self) -> bytes:
        """The capabilities to declare."""
        declared: Json = {}
        if self.sampling is not None:
            declared["sampling"] = {"tools": {}} if self.sampling_tools else {}
        if self.elicit_form is not None or self.elicit_url is not None:
            modes = {"form": self.elicit_form, "url": self.elicit_url}
            declared["elicitation"] = {mode: {} for mode, handler in modes.items() if handler is not None}
        if self.roots is not None:
            declared["roots"] = {}
        mgp = {streaming.EXTENSION: self.chunk, callbacks.EXTENSION: self.callback or self.event}
        if extensions := [extension for extension, handler in mgp.items() if handler is not None]:
            declared |= question(extensions)
        return msgspec.json.encode(declared)

    @property
    def accepts(self) -> frozenset[str]:
        """The notifications about a call that the client takes."""
        accepts = frozenset[str]() if self.chunk is None else streaming.NOTIFICATIONS
        return accepts if self.callback is None and self.event is None else accepts | {callbacks.REQUEST}

    async def answer(self, method: str, params: bytes) -> bytes:
        """The result for a request of the server. Raises a `Fault` to refuse it."""
        request = decode_json(params, dict[str, object], "INVALID_PARAMS", method)
        if method == "sampling/createMessage" and self.sampling is not None:
            if not self.sampling_tools and ("tools" in request or "toolChoice" in request):
                raise Fault("INVALID_PARAMS", "this client did not declare that its model may be given tools")
            check_messages(request.get("messages"))
            return msgspec.json.encode(await self.sampling(request))
        if method == "elicitation/create":
            return msgspec.json.encode(await self._elicit(request))
        if method == "roots/list" and self.roots is not None:
            roots = await self.roots() if callable(self.roots) else self.roots
            if not all(str(root.get("uri", "")).startswith("file://") for root in roots):
                raise Fault("INTERNAL_ERROR", "a root of this client is no file:// address")
            return msgspec.json.encode({"roots": roots})
        raise Fault("METHOD_NOT_FOUND", f"{method} is not answered by this client")

    async def _elicit(self, request: Json) -> Json:
        mode = request.get("mode", "form")
        if mode not in ("form", "url"):
            raise Fault("INVALID_PARAMS", f"this client does not support the elicitation mode {str(mode)[:100]!r}")
        if mode == "url":
            if self.elicit_url is None:
                raise Fault("INVALID_PARAMS", "this client does not open URLs")
            _check_url(request.get("url"))
            return await self.elicit_url(request)
        if self.elicit_form is None:
            raise Fault("INVALID_PARAMS", "this client does not fill in forms")
        answer = await self.elicit_form(request)
        if answer.get("action") != "accept":
            return answer
        schema = request.get("requestedSchema")
        content = with_defaults(schema, answer.get("content"))
        check_form(schema, content)
        return answer | {"content": content}


def with_defaults(schema: object, content: object) -> Json:
    """The content of a form, with the schema's defaults where the person left something out."""
    filled: Json = dict(content) if isinstance(content, dict) else {}
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name, described in properties.items() if isinstance(properties, dict) else ():
        if name not in filled and isinstance(described, dict) and "default" in described:
            filled[name] = described["default"]
    return filled


def check_form(schema: object, content: Json) -> None:
    """Raise INTERNAL_ERROR for content that does not fit the form."""
    from interlock.signatures.validate import Validator  # six megabytes, which few clients need

    try:
        problems = Validator(schema if isinstance(schema, dict) else {}).check(content)
    except DefinitionError as cause:
        raise Fault("INVALID_PARAMS", f"requestedSchema: {cause}") from None
    if problems:
        raise Fault("INTERNAL_ERROR", f"the content does not fit the form: {ArgumentsError(problems)}")


def _check_url(url: object) -> None:
    """Accept only https, and http on this machine."""
    parts = urlsplit(url) if isinstance(url, str) else None
    local = parts is not None and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts is None or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise Fault("INVALID_PARAMS", "a URL to open must be https")
