"""A service behind a real listening address, for every test that wants one."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
from http_peer import RunningEndpoint, WaitingService, opened


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": sys.platform != "win32"}


@pytest.fixture
async def place() -> AsyncIterator[RunningEndpoint]:
    async with opened(WaitingService()) as place:
        yield place
