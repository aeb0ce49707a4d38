"""Loads the HTTP routes besides MCP at their first request. A hub that only serves MCP does not need them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

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
            await asyncio.to_thread(import_module, self._module)
        await self._made()(scope, receive, send)

    def _made(self) -> ASGIApp:
        if self._app is None:
            self._app = self._make()
        return self._app
