"""Every test here runs on asyncio; `issuer` is an authorization server of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .issuer import Issuer


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with Issuer() as running:
        yield running
