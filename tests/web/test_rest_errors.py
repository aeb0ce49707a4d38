"""Every refusal that REST promises, reached over HTTP, with its whole body as the tool registry writes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hub.running_hub import RawClient, RunningHub, child, running_hub
from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, Rate, TimeoutSettings

from .running import example

pytestmark = pytest.mark.anyio

ANALYZER = "fin__FinancialAnalyzer"
GOOD = {"ticker_symbol": "AAPL", "period_days": 90}
TRACE = "0af7651916cd43dd8448eb211c80319c"
TIMEOUT_HINTS = [
    "Increase timeout for long-running analysis",
    "Check tool server health",
    "Break request into smaller chunks",
]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    settings = HubSettings(
        anonymous=False,
        timeouts=TimeoutSettings(start_s=30, tool_s=1),
        approvals=ApprovalSettings(hold_s=0),
        rate=Rate(per_minute=2),
    )
    agents = {"asked": AgentSettings(ask=("fin__compare",))}
    async with running_hub(
        tmp_path, {"fin": example(), "busy": child("busy_server.py")}, hub=settings, agents=agents
    ) as hub:
        yield hub


async def call(
    hub: RunningHub, tool: str, body: object, *, key: str | None = "caller", **headers: str
) -> tuple[int, dict[str, str], Any]:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    client = RawClient(f"{hub.url}/tools/{tool}", None if key is None else hub.key(key) if key.isalpha() else key)
    traced = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "accept": "application/json"}
    status, said, answer = await client.send("POST", payload, {**traced, **headers})
    return status, said, json.loads(answer)


def body(code: int, error_type: str, message: str, tool: str | None = ANALYZER, **more: object) -> dict[str, object]:
    """The registry's "Detailed Error Response", every member of it."""
    return {
        "error_type": error_type,
        "field": None,
        "reason": message,
        "trace_id": TRACE,
        "suggestions": [],
        "documentation_url": None,
        "tool_name": tool,
        "problems": [],
        "retry": False,
        "retry_after_ms": None,
        "code": code,
        "message": message,
        **more,
    }


async def test_400_for_what_is_not_json(hub: RunningHub) -> None:
    status, _, error = await call(hub, ANALYZER, b'{"ticker_symbol": ')
    assert status == 400
    message = "the body is not valid JSON: Input data was truncated"
    assert error == body(-32700, "ParseError", message, suggestions=["send the arguments as one object"])


@pytest.mark.parametrize(("key", "challenge"), [(None, "Bearer"), ("ilk_wrong", "Bearer")])
async def test_401_for_whoever_is_not_known(hub: RunningHub, key: str | None, challenge: str) -> None:
    status, said, error = await call(hub, ANALYZER, GOOD, key=key)
    assert (status, said["www-authenticate"]) == (401, challenge)
    assert error == body(-32004, "AuthenticationError", error["message"], suggestions=error["suggestions"])
    assert error["suggestions"]


async def test_403_for_whoever_may_read_a_tool_and_not_call_it(hub: RunningHub) -> None:
    reader = await hub.new_key("reader", permissions=("read:**",))
    status, _, error = await call(hub, ANALYZER, GOOD, key=reader)
    assert status == 403
    assert error == body(-32005, "AuthorizationError", error["message"], suggestions=error["suggestions"])
    assert error["suggestions"]


async def test_404_for_a_tool_that_is_not_there(hub: RunningHub) -> None:
    status, _, error = await call(hub, "fin__Nothing", GOOD)
    assert status == 404
    expected = body(-32002, "ToolNotFound", error["message"], "fin__Nothing", suggestions=error["suggestions"])
    assert error == expected
    assert "fin__Nothing" in error["reason"]


async def test_409_while_a_person_has_yet_to_say_yes(hub: RunningHub) -> None:
    status, _, error = await call(hub, "fin__compare", {"first": "AAPL", "second": "MSFT"}, key="asked")
    assert status == 409
    message, suggestions = error["message"], error["suggestions"]
    more: dict[str, object] = {"retry": True, "retry_after_ms": error["retry_after_ms"], "suggestions": suggestions}
    assert error == body(-32005, "ApprovalPending", message, "fin__compare", **more)
    assert "repeat the call" in message


async def test_422_says_which_constraint_failed_and_how_to_keep_it(hub: RunningHub) -> None:
    status, _, error = await call(hub, ANALYZER, {"ticker_symbol": "invalid123", "period_days": 90})
    assert status == 422
    reason = "Pattern mismatch: expected ^[A-Z]{1,5}$, got 'invalid123'"
    suggestions = ["use uppercase letters", "1 to 5 characters"]
    first, second = error["problems"]
    assert first == {
        "field": "ticker_symbol",
        "reason": reason,
        "expected": "^[A-Z]{1,5}$",
        "got": "'invalid123'",
        "suggestions": suggestions,
    }
    assert (second["field"], second["reason"]) == ("ticker_symbol", "Too long: expected at most 5, got 10")
    url = "https://docs.example.com/ticker-format"
    more: dict[str, object] = {"problems": [first, second], "suggestions": suggestions, "documentation_url": url}
    told = {"field": "ticker_symbol", "reason": reason}
    assert error == body(-32001, "ValidationError", error["message"], **more, **told)


async def test_429_when_the_minute_is_used_up(hub: RunningHub) -> None:
    key = await hub.new_key("hurried")
    for _ in range(2):
        assert (await call(hub, ANALYZER, GOOD, key=key))[0] == 200
    status, said, error = await call(hub, ANALYZER, GOOD, key=key)
    assert status == 429
    wait, suggestions = error["retry_after_ms"], error["suggestions"]
    more: dict[str, object] = {"retry": True, "retry_after_ms": wait, "suggestions": suggestions}
    assert error == body(-32603, "RateLimited", error["message"], **more)
    assert int(said["retry-after"]) == -(-wait // 1000)


async def test_504_when_a_tool_does_not_end_in_time(hub: RunningHub) -> None:
    status, _, error = await asyncio.wait_for(call(hub, "busy__hang", {"mark": "x"}), 120)
    assert status == 504
    suggestions = error["suggestions"]
    assert suggestions[-3:] == TIMEOUT_HINTS
    expected = body(-32003, "ToolTimeout", error["message"], "busy__hang", retry=True, suggestions=suggestions)
    assert error["timeout_ms"] > 0
    assert error == {**expected, "retry_after_ms": error["retry_after_ms"], "timeout_ms": error["timeout_ms"]}
