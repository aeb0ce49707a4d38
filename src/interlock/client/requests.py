"""Sends the requests of a `Client`: answers questions of the server, logs in, repeats, and caches.

A question comes as `input_required`, as an address to visit first, or as LOGIN_REQUIRED. Results that depend on answers
are not cached (2026-07-28, Caching: Cache Key).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from interlock.client.cache import Cache
from interlock.client.callbacks import Progress, report_progress
from interlock.client.connection import Connection
from interlock.client.handlers import Handlers, Json
from interlock.client.input_required import ROUNDS, answered, question_in, visited
from interlock.client.oauth.login import Login
from interlock.client.oauth.retries import log_in_after, logged_in
from interlock.protocols.mcp.answers import read_members
from interlock.protocols.mcp.meta import LOG_LEVEL, with_meta
from interlock.protocols.mcp.results import of_known_kind
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import TABLE, Fault
from interlock.wire.json_values import decode_json
from interlock.wire.messages import Request

URL_FIRST: Final = TABLE["URL_ELICITATION_REQUIRED"].mcp


class RequestingClient(Protocol):
    """The client, as its requests use it."""

    handlers: Handlers

    @property
    def connection(self) -> Connection:
        """The open connection. Raises a `Fault` before it is open."""

    def on_notification(self, method: str, params: bytes) -> None:
        """Take a notification of the server, during a request of ours or beside all."""

    def on_request(self, request: Request) -> None:
        """Answer a request that the server sends during a request of ours."""


class ClientRequests:
    """Sends the requests of one client to its server."""

    def __init__(self, client: RequestingClient, login: Login | None, timeout: float, max_timeout: float) -> None:
        self._client = client
        self._login = login
        self._timeout = timeout
        self._max_timeout = max_timeout
        self._cache = Cache()
        self._level: str | None = None

    def use_level(self, level: str) -> None:
        """Send the level of log messages with each request (stateless era)."""
        self._level = level

    def forget(self, method: str) -> None:
        """Drop the cached answers of a method."""
        self._cache.forget(method)

    def on_changed(self, notification: str) -> None:
        """Drop the cached answers that a notification makes old."""
        if notification.startswith("notifications/resources/updated"):
            self._cache.forget("resources/read")
        elif notification.endswith("/list_changed"):
            self._cache.forget(notification.removeprefix("notifications/").removesuffix("_changed"))
            self._cache.forget("resources/templates/list")

    async def send(
        self,
        method: str,
        params: bytes,
        headers: tuple[tuple[str, str], ...] = (),
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> Json:
        """The answer to a request. Raises a `Fault`."""
        return (await self._rounds(method, params, headers, progress, timeout))[0]

    async def send_cached(self, method: str, params: bytes, key: str) -> Json:
        """The same, from the cache while the answer is fresh."""
        kept = self._cache.get(method, key)
        if kept is not None:
            return json_object(kept)
        result, rounds = await self._rounds(method, params)
        ttl = result.get("ttlMs")
        if not rounds:
            self._cache.put(method, key, msgspec.json.encode(result), ttl if isinstance(ttl, int) else None)
        return result

    async def list_all(self, method: str) -> list[Json]:
        """Every item of a list, all pages, from the cache while they are fresh."""
        kept = self._cache.get(method, "")
        if kept is None:
            connection = self._client.connection
            listing = await logged_in(self._login, lambda: connection.list_all(method, timeout=self._timeout))
            kept = msgspec.json.encode(listing.items)
            self._cache.put(method, "", kept, listing.ttl_ms)
        return msgspec.json.decode(kept, type=list[dict[str, object]])

    async def _rounds(
        self,
        method: str,
        params: bytes,
        headers: tuple[tuple[str, str], ...] = (),
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> tuple[Json, int]:
        """Send until the server asks no more. Returns the answer, and how many questions came before it."""
        connection, handlers = self._client.connection, self._client.handlers
        first = params
        if connection.modern and self._level is not None:
            first = params = with_meta(params, {LOG_LEVEL: self._level})
        for rounds in range(ROUNDS):
            try:
                result = await connection.request(
                    method,
                    params,
                    timeout=timeout or self._timeout,
                    max_timeout=self._max_timeout,
                    on_notification=self._on_notification(progress),
                    on_request=self._client.on_request,
                    param_headers=headers,
                    accepts=handlers.accepts,
                )
            except Fault as fault:
                if fault.foreign_code != URL_FIRST:
                    await log_in_after(fault, self._login)
                elif not await visited(fault, handlers):
                    raise
                continue
            question = question_in(result)
            if question is None:
                if connection.modern:
                    of_known_kind(result, read_members(result).kind, tasks=True)
                return json_object(result), rounds
            params = await answered(first, question, handlers)
        raise Fault("UPSTREAM_ERROR", f"the server asked more than {ROUNDS} times")

    def _on_notification(self, progress: Progress | None) -> Callable[[str, bytes], None] | None:
        if progress is None:
            return None

        def on_notification(method: str, params: bytes) -> None:
            if method == PROGRESS:
                report_progress(progress, params)
            else:
                self._client.on_notification(method, params)

        return on_notification


def json_object(payload: bytes) -> Json:
    """A JSON object of the server. Raises UPSTREAM_ERROR."""
    return decode_json(payload, dict[str, object], "UPSTREAM_ERROR", "the server's answer cannot be read")
