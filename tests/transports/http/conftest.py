"""A desk behind a real listening address, for every test that wants one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from http_peer import Desk, Place, opened


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with opened(Desk()) as place:
        yield place
