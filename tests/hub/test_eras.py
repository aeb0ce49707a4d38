"""A server that speaks both eras: each client gets the one in which both ends can do more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock.config.settings import ServerSettings

from .instructed_server import VERSION, InstructedServer, Say
from .legacy_client import LegacyClient, answers
from .running_hub import RawClient, running_hub, text_of

FORM = {
    "method": "elicitation/create",
    "id": "form",
    "params": {"message": "Who?", "requestedSchema": {"type": "object"}},
}
ASK = {"steps": [{"ask": FORM}, {"wait": "form"}]}
ROUND = {"rounds": [{"inputRequests": {"who": {"method": FORM["method"], "params": FORM["params"]}}}]}
"""The same question in the stateless era."""


class AsksInSessions(InstructedServer):
    """Asks its client with requests of its own, as many servers do, so in the stateless era it cannot ask."""

    def __init__(self, *, handshake: bool = True) -> None:
        super().__init__()
        self.handshake = handshake

    async def _serve(self, message: Any, say: Say, beside: Say) -> Any:
        method, params = message["method"], message.get("params", {})
        if method == "initialize" and not self.handshake:
            return {"error": {"code": -32022, "message": "unsupported version", "data": {"supported": ["2026-07-28"]}}}
        if method == "tools/call" and VERSION in params["_meta"]:
            return {"result": {"resultType": "complete", "content": [{"type": "text", "text": "cannot ask"}]}}
        return await super()._serve(message, say, beside)


async def test_a_session_that_answers_servers_speaks_the_handshake_era_with_a_server_of_both(tmp_path: Path) -> None:
    async with AsksInSessions().http() as server, running_hub(tmp_path, {"a": ServerSettings(url=server.url)}) as hub:
        assert (await shown(hub))["era"] == "modern"
        able = LegacyClient(hub.url + "/mcp", answers("ada"))
        await able.initialize({"elicitation": {}})
        assert "ada" in text_of(await able.call("a__do", ASK))
        plain = LegacyClient(hub.url + "/mcp", {})
        await plain.initialize()
        assert text_of(await plain.call("a__do", ASK)) == "cannot ask"
        said = await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "a__do", "arguments": ASK})
        assert text_of(said) == "cannot ask"
        assert "use the handshake era" in (await shown(hub))["era_reason"]


async def test_a_server_that_takes_no_handshake_is_spoken_to_without(tmp_path: Path) -> None:
    async with AsksInSessions(handshake=False).http() as server:
        async with running_hub(tmp_path, {"a": ServerSettings(url=server.url)}) as hub:
            able = LegacyClient(hub.url + "/mcp", answers("ada"))
            await able.initialize({"elicitation": {}})
            for _ in range(2):
                assert text_of(await able.call("a__do", ASK)) == "cannot ask"
            assert len(server.asked("initialize")) == 1
            assert (await shown(hub))["era_reason"] == "the server speaks the stateless era alone"


async def test_a_server_whose_handshake_opens_no_session_is_asked_in_the_stateless_era(tmp_path: Path) -> None:
    async with InstructedServer(sessions=False).http() as server:
        async with running_hub(tmp_path, {"a": ServerSettings(url=server.url)}) as hub:
            able = LegacyClient(hub.url + "/mcp", answers("ada"))
            await able.initialize({"elicitation": {}})
            for _ in range(2):
                assert "ada" in text_of(await able.call("a__do", ROUND))
            assert len(server.asked("initialize")) == 1
            assert "keeps no session" in (await shown(hub))["era_reason"]


async def test_a_server_that_opens_sessions_no_longer_is_asked_in_the_stateless_era_from_then_on(
    tmp_path: Path,
) -> None:
    async with InstructedServer().http() as server, running_hub(tmp_path, {"a": ServerSettings(url=server.url)}) as hub:
        for sessions, arguments in ((True, ASK), (False, ROUND)):
            server.sessions = sessions
            able = LegacyClient(hub.url + "/mcp", answers("ada"))
            await able.initialize({"elicitation": {}})
            assert "ada" in text_of(await able.call("a__do", arguments))


async def test_a_session_has_its_own_connection_also_to_a_server_that_takes_no_handshake(tmp_path: Path) -> None:
    async with AsksInSessions(handshake=False).http() as server:
        async with running_hub(tmp_path, {"a": ServerSettings(url=server.url, share="session")}) as hub:
            able = LegacyClient(hub.url + "/mcp", answers("ada"))
            await able.initialize({"elicitation": {}})
            assert text_of(await able.call("a__do", ASK)) == "cannot ask"
            upstream = hub.hub_app.upstreams["a"]
            (private,) = upstream.pool.private.open_connections()
            assert private.owner is not None
            assert private.owner.used, "the first call used it"


async def test_a_handshake_that_fails_once_is_no_refusal_of_all(tmp_path: Path) -> None:
    async with AsksInSessions().http() as server, running_hub(tmp_path, {"a": ServerSettings(url=server.url)}) as hub:
        for expected in ("ada", None, "ada"):
            server.handshake = expected is not None
            able = LegacyClient(hub.url + "/mcp", answers("ada"))
            await able.initialize({"elicitation": {}})
            answer = await able.call("a__do", ASK)
            assert ("error" in answer) if expected is None else (expected in text_of(answer)), answer
        assert "use the handshake era" in (await shown(hub))["era_reason"]


async def shown(hub: Any) -> Any:
    (server,) = (await hub.operate("status"))["servers"]
    return server
