"""The REST addresses. Each authenticates its caller and passes an exchange to the hub, which decides everything.

GET  /tools                        the tools that the caller may see
GET  /tools/{tool_name}            one tool, with examples
POST /tools/{tool_name}            call it: the body is the arguments
POST /tools/{tool_name}/validate   check whether the call would be accepted
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from interlock.hub.authentication import Authenticator
from interlock.hub.calls.call import Caller
from interlock.process.turns import Octets, slices_in_turns
from interlock.protocols.mcp.meta import CLIENT_CAPABILITIES, PROGRESS_TOKEN, PROTOCOL_VERSION
from interlock.protocols.mcp.revisions import LATEST
from interlock.protocols.registry.about import about
from interlock.protocols.traces import Traceparent, new_span_id, new_trace_id, read_traceparent
from interlock.transports.exchange import Service
from interlock.transports.http.server.asgi_application import OPEN_EXCHANGES
from interlock.transports.large_reading import LargeReading
from interlock.web.rest.documents import Documents, definition, rendered
from interlock.web.rest.exchange import Outcome, RestEvent, RestExchange
from interlock.web.rest.outcomes import (
    RequestInfo,
    answer_in_pieces,
    body_of,
    good_answer,
    plain_result,
    refusal,
    tool_result,
)
from interlock.web.rest.page import documentation_page
from interlock.web.streamed_response import StreamedResponse
from interlock.wire.errors import Fault, internal_error
from interlock.wire.json_values import JSON_ERRORS
from interlock.wire.large import LARGE, CheckedJson, JoinedArray, object_of
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.payload_checks import strict
from interlock.wire.sse import KEEP_ALIVE

log = logging.getLogger("interlock.rest")

ENTRANCE: Final = "/mcp"
"""REST offers the same tools as this address: all, or those of the profile that the principal is bound to."""
KEEP_ALIVE_S: Final = 15.0

RouteHandler = Callable[[Request, RequestInfo], Awaitable[Response]]
Read = Callable[[bytes], Awaitable[Sequence[Octets]]]
"""Reads a result: its body for the client, in pieces."""
More = Callable[[Caller], Mapping[str, object]]
"""Further paths of the OpenAPI document that a caller may use."""


def rest_routes(
    service: Service, authenticator: Authenticator, more: More = lambda caller: {}, limits: Limits = DEFAULT
) -> list[Route]:
    """The routes, for an application to include."""
    rest = _Rest(service, authenticator, more, limits)
    return [
        Route("/tools", RestRoute({"GET": rest.list})),
        Route("/tools/{tool_name}", RestRoute({"GET": rest.show, "POST": rest.call})),
        Route("/tools/{tool_name}/validate", RestRoute({"POST": rest.validate})),
        Route("/openapi.json", RestRoute({"GET": rest.openapi})),
        Route("/docs", RestRoute({"GET": documentation_page})),
    ]


class RestRoute:
    """One address and its HTTP methods. Every failure is answered with an error body."""

    def __init__(self, methods: Mapping[str, RouteHandler]) -> None:
        self._methods = methods
        self._allow = ", ".join([*methods, *(["HEAD"] if "GET" in methods else [])])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        name = request.path_params.get("tool_name")
        parent = read_traceparent(request.headers.get("traceparent", ""))
        info = RequestInfo(new_trace_id() if parent is None else parent.trace, name[:200] if name else None)
        method = "GET" if request.method == "HEAD" else request.method
        serve = self._methods.get(method)
        if serve is None:
            fault = Fault("METHOD_NOT_ALLOWED", f"{request.method} is not supported here", hint=f"use {self._allow}")
            await refusal(fault, info, allow=self._allow)(scope, receive, send)
            return
        try:
            response = await serve(request, info)
        except Fault as fault:
            response = refusal(fault, info)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            response = refusal(internal_error(), info)
        await response(scope, receive, send)


class _Rest:
    def __init__(self, service: Service, authenticator: Authenticator, more: More, limits: Limits) -> None:
        self._service = service
        self._authenticator = authenticator
        self._more = more
        self._limits = limits
        self._documents = Documents()

    async def list(self, request: Request, info: RequestInfo) -> Response:
        return good_answer((b'{"tools":', (await self._listed(request)).octets, b"}"), info)

    async def show(self, request: Request, info: RequestInfo) -> Response:
        name = request.path_params["tool_name"]
        found = await definition(await self._listed(request), name)
        if found is None:
            raise Fault("TOOL_NOT_FOUND", f"Unknown tool: {name[:200]}", hint="GET /tools lists all tools")
        return good_answer((await asyncio.to_thread(rendered, found),), info)

    async def openapi(self, request: Request, info: RequestInfo) -> Response:
        listed = await self._listed(request)
        more = self._more(await self._admit(request))
        return answer_in_pieces(self._documents.openapi(listed, more), info)

    async def call(self, request: Request, info: RequestInfo) -> Response:
        caller = await self._admit(request)
        streams = "text/event-stream" in request.headers.get("accept", "").lower()
        params = _params(request, info, await _arguments(request, caller.principal_name, self._limits), streams=streams)
        exchange = RestExchange("tools/call", params, caller, streams=streams)
        return await self._answered(exchange, request, info, tool_result)

    async def validate(self, request: Request, info: RequestInfo) -> Response:
        caller = await self._admit(request)
        params = _params(request, info, await _arguments(request, caller.principal_name, self._limits), streams=False)
        exchange = RestExchange("tools/validate", params, caller)
        return await self._answered(exchange, request, info, plain_result)

    async def _admit(self, request: Request) -> Caller:
        return await self._authenticator.admit_in_time(ENTRANCE, dict(request.scope["headers"]))

    async def _listed(self, request: Request) -> JoinedArray:
        exchange = RestExchange("tools/list", b"{}", await self._admit(request))
        outcome = await self._serve(exchange, request)
        if isinstance(outcome, JoinedArray):
            return outcome
        assert isinstance(outcome, bytes)  # The observer has joined it.
        return JoinedArray.read(msgspec.json.decode(outcome, type=_Tools).tools)

    async def _answered(
        self,
        exchange: RestExchange,
        request: Request,
        info: RequestInfo,
        read: Read,
    ) -> Response:
        try:
            first = await self._serve(exchange, request)
            assert not isinstance(first, JoinedArray)
            if not isinstance(first, bytes):
                events = self._events(first, exchange, info)
                return StreamedResponse(events, headers=_STREAM_HEADERS, media_type="text/event-stream")
            body = await read(first)
        except Fault as fault:
            # Only a caller that may see the tool learns its documentation URL.
            if fault.kind.http == 422:
                info = await self._with_documentation(request, info)
            return refusal(fault, info)
        if exchange.streams and "application/json" not in request.headers["accept"].lower():
            return StreamedResponse(_event("result", *body), headers=_STREAM_HEADERS, media_type="text/event-stream")
        return good_answer(body, info)

    async def _serve(self, exchange: RestExchange, request: Request) -> RestEvent | bytes | JoinedArray | None:
        """Pass the exchange to the hub and return its first event or answer. Raises a Fault.

        Returns None when a streaming client needs a keep-alive first. A client that disconnects cancels the call.
        """
        open_exchanges = request.scope.get("extensions", {}).get(OPEN_EXCHANGES)
        if open_exchanges is not None:
            open_exchanges.add(exchange)
        self._service.serve(exchange)
        answering = asyncio.ensure_future(exchange.next())
        leaving = asyncio.ensure_future(_disconnected(request))
        timeout = KEEP_ALIVE_S if exchange.streams else None
        try:
            await asyncio.wait({answering, leaving}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and not leaving.done():
                return None
            if not answering.done():
                exchange.cancel("the client disconnected")
            first = await answering
        except asyncio.CancelledError:
            exchange.cancel("the client disconnected")
            raise
        finally:
            answering.cancel()
            leaving.cancel()
        if isinstance(first, Fault):
            raise first
        return first

    async def _events(
        self, first: RestEvent | None, exchange: RestExchange, info: RequestInfo
    ) -> AsyncIterator[Octets]:
        event: RestEvent | Outcome | None = first
        try:
            while event is None or isinstance(event, RestEvent):
                if event is None:
                    yield KEEP_ALIVE
                else:
                    async for piece in _event(event.name, event.data):
                        yield piece
                waiting = asyncio.ensure_future(exchange.next())
                done, _ = await asyncio.wait({waiting}, timeout=KEEP_ALIVE_S)
                waiting.cancel()
                event = waiting.result() if done else None
            assert not isinstance(event, JoinedArray)
            name, data = await _last(event, info)
            async for piece in _event(name, *data):
                yield piece
        finally:
            exchange.cancel("the client disconnected")

    async def _with_documentation(self, request: Request, info: RequestInfo) -> RequestInfo:
        with contextlib.suppress(Fault):
            found = await definition(await self._listed(request), request.path_params["tool_name"])
            if found is not None:
                return msgspec.structs.replace(info, documentation_url=about(found).documentation_url)
        return info


class _Tools(msgspec.Struct):
    tools: msgspec.Raw


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _arguments(request: Request, principal_name: str, limits: Limits) -> bytes:
    """The body as one unambiguous JSON object. Raises a Fault."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        message = f"the content type {kind[:100]} is not supported" if kind else "the request has no content type"
        raise Fault("UNSUPPORTED_MEDIA_TYPE", message, hint="send application/json")
    body = await request.body()
    read = await _read_large(request, principal_name, body, limits) if len(body) > LARGE else None
    try:
        value = msgspec.json.decode(body) if read is None else read.value
    except JSON_ERRORS as cause:
        hint = "send the arguments as one object"
        raise Fault("PARSE_ERROR", f"the body is not valid JSON: {cause}", hint=hint) from None
    if read is None:
        strict(body)
    if not isinstance(value, dict):
        problem = {"field": "", "reason": "Type mismatch: the arguments must be an object", "expected": "object"}
        problem_list = [{**problem, "suggestions": ["send the arguments as one object"]}]
        raise Fault("INVALID_TOOL_ARGS", "the arguments must be an object", data={"problems": problem_list})
    return msgspec.json.encode(value) if read is None else read


async def _read_large(request: Request, principal_name: str, body: bytes, limits: Limits) -> CheckedJson:
    """Read a large body beside the loop. Raises a Fault, and ClientDisconnect where the client goes before its turn."""
    reading = asyncio.ensure_future(LargeReading.here().value(principal_name, body, limits))
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            raise ClientDisconnect
        return reading.result()
    finally:
        reading.cancel()
        leaving.cancel()
        del reading, leaving  # An error that leaves here refers to this frame.


def _params(request: Request, info: RequestInfo, arguments: bytes, *, streams: bool) -> bytes:
    meta: dict[str, object] = {PROTOCOL_VERSION: LATEST.name, CLIENT_CAPABILITIES: {}}
    parent = read_traceparent(request.headers.get("traceparent", ""))
    meta["traceparent"] = str(parent or Traceparent(info.trace_id, new_span_id(), sampled=True))
    if streams:
        meta[PROGRESS_TOKEN] = info.trace_id
    name = request.path_params["tool_name"]
    members = {"name": msgspec.json.encode(name), "arguments": arguments, "_meta": msgspec.json.encode(meta)}
    return object_of(members)


async def _last(outcome: bytes | Fault, info: RequestInfo) -> tuple[str, list[Octets]]:
    """The name and the data of the last event."""
    try:
        if isinstance(outcome, Fault):
            raise outcome
        return "result", await tool_result(outcome)
    except Fault as fault:
        return "error", [msgspec.json.encode(body_of(fault, info))]


async def _event(name: str, *data: Octets) -> AsyncIterator[Octets]:
    """An event, in pieces where it is large."""
    pieces = (b"event: %b\ndata: " % name.encode(), *data, b"\n\n")
    if sum(map(len, pieces)) <= LARGE:
        yield b"".join(pieces)
        return
    async for piece in slices_in_turns(*pieces):
        yield piece


_STREAM_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
