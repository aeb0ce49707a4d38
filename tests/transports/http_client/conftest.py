"""Every test here runs on both loops, against real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from web_peer import Open, opened


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def at() -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:
        yield lambda script, **options: stack.enter_async_context(opened(script, **options))
