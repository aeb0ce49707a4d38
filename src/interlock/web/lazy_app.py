"""Loads the HTTP routes besides MCP at their first request. A hub that only serves MCP does not need them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from interlock.process.late_imports import late_import
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class LazyApp:
    """An application that is made at its first request. Its module is imported on a thread, so that no call waits."""

    def __init__(self, module: str, make: Callable[[], ASGIApp]) -> None:
        self._module = module
        self._make = make
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            try:
                with late_import():
                    await asyncio.to_thread(import_module, self._module)
                    self._made()
            except Fault as fault:
                await _refuse(scope, send, fault)
                return
        await self._made()(scope, receive, send)

    def _made(self) -> ASGIApp:
        if self._app is None:
            self._app = self._make()
        return self._app


async def _refuse(scope: Scope, send: Send, fault: Fault) -> None:
    """Answer with a fault, without any part that an import would have to load."""
    if scope["type"] != "http":
        return
    text = f"{fault.message}\n{fault.hint}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": fault.kind.http, "headers": headers})
    await send({"type": "http.response.body", "body": text})
