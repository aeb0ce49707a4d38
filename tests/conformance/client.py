"""The client that the official conformance suite drives: one scenario a run, named by the environment."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

from interlock.client import Client, Handlers
from interlock.client.handlers import Json
from interlock.client.negotiation import Pin
from interlock.client.oauth.login import Login
from interlock.protocols.mcp.revisions import REVISIONS
from interlock.protocols.oauth.authorization import AuthorizationRequest
from interlock.protocols.oauth.clients import ClientSettings
from interlock.transports.http.client.documents import exchange
from interlock.wire.errors import Fault

METADATA_URL = "https://conformance-test.local/client-metadata.json"
SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
STAND_INS = {"string": "x", "integer": 0, "number": 0, "boolean": False, "object": {}, "array": [], "null": None}


class SuiteBrowser:
    """Opens an address as a browser would, and stops where the authorization server sends it."""

    redirect_uri = "http://localhost:3000/callback"

    async def visit(self, request: AuthorizationRequest) -> str:
        answer = await exchange("GET", request.url, {}, b"", guard=None, most_bytes=1 << 16)
        return answer.headers[b"location"].decode()


def connect(url: str, handlers: Handlers | None = None, era: str | None = None, login: Login | None = None) -> Client:
    """A client pinned to the era that the suite's server speaks in this run, where it speaks one alone."""
    legacy = VERSION in REVISIONS and not REVISIONS[VERSION].modern
    pin: Pin = "legacy" if legacy or era == "legacy" else "auto"
    return Client(url, handlers=handlers, era=pin, timeout=20, login=login)


def settings() -> ClientSettings:
    """How to log in, as the suite's context says."""
    given = {name: CONTEXT.get(name) for name in ("client_id", "client_secret")}
    if SCENARIO.startswith("auth/client-credentials"):
        key, algorithm = CONTEXT.get("private_key_pem"), CONTEXT.get("signing_algorithm", "ES256")
        return ClientSettings("client_credentials", private_key=key, algorithm=algorithm, **given)
    if SCENARIO == "auth/wif-jwt-bearer":
        return ClientSettings("jwt_bearer", assertion=CONTEXT["valid_jwt"], **given)
    if SCENARIO == "auth/enterprise-managed-authorization":
        identity = {name: CONTEXT[name] for name in ("idp_token_endpoint", "idp_client_id")}
        return ClientSettings("id_jag", assertion=CONTEXT["idp_id_token"], **identity, **given)
    return ClientSettings(metadata_url=METADATA_URL, **given)


async def log_in(url: str) -> None:
    """Log in as the scenario requires, list the tools, and call the first one."""
    async with connect(url, login=Login(url, settings(), browser=SuiteBrowser())) as client:
        await client.list_tools()
        await client.call_tool("test-tool", {})


async def list_only(url: str) -> None:
    async with connect(url) as client:
        await client.list_tools()


async def list_old(url: str) -> None:
    """The suite's server for this scenario speaks the handshake era, whatever version it names."""
    async with connect(url, era="legacy") as client:
        await client.list_tools()


async def add_numbers(url: str) -> None:
    async with connect(url) as client:
        await client.list_tools()
        await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def declare_everything(url: str) -> None:
    async with connect(url, Handlers(sampling=sample, elicit_form=accept, roots=[])) as client:
        await client.list_tools()
        await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def reconnect(url: str) -> None:
    async with connect(url) as client:
        await client.list_tools()
        await client.call_tool("test_reconnection")


async def elicit_defaults(url: str) -> None:
    async with connect(url, Handlers(elicit_form=accept)) as client:
        await client.list_tools()
        await client.call_tool("test_client_elicitation_defaults")


async def echo_schema(url: str) -> None:
    async with connect(url) as client:
        tools = {tool["name"]: tool for tool in await client.list_tools()}
        await client.call_tool("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"]["inputSchema"]})


async def call_every_tool(url: str) -> None:
    async with connect(url) as client:
        for tool in await client.list_tools():
            await attempt(client, str(tool["name"]), stand_ins(tool["inputSchema"]))


async def replay_calls(url: str) -> None:
    async with connect(url) as client:
        listed = {tool["name"] for tool in await client.list_tools()}
        for call in CONTEXT.get("toolCalls", []):
            if call["name"] in listed:
                await attempt(client, call["name"], call.get("arguments") or {})


async def round_trips(url: str) -> None:
    async with connect(url, Handlers(elicit_form=confirm)) as client:
        await client.list_tools()
        for tool in ("echo_state", "unrelated", "no_state", "no_result_type"):
            await client.call_tool(f"test_mrtr_{tool}")


async def accept(params: Json) -> Json:
    return {"action": "accept", "content": {}}


async def confirm(params: Json) -> Json:
    return {"action": "accept", "content": {"confirmed": True}}


async def sample(params: Json) -> Json:
    return {"role": "assistant", "content": {"type": "text", "text": ""}, "model": "none"}


async def attempt(client: Client, name: str, arguments: Json) -> None:
    """The suite refuses some calls on purpose."""
    try:
        await client.call_tool(name, arguments)
    except Fault as fault:
        logging.info("%s: %s", name, fault)


def stand_ins(schema: object) -> Json:
    """The fewest arguments that a schema takes."""
    assert isinstance(schema, dict)
    kinds = {name: described.get("type") for name, described in schema.get("properties", {}).items()}
    return {name: STAND_INS.get(kinds.get(name, ""), "x") for name in schema.get("required", [])}


SCENARIOS: dict[str, Callable[[str], Coroutine[None, None, None]]] = {
    "initialize": list_only,
    "tools_call": add_numbers,
    "sse-retry": reconnect,
    "elicitation-sep1034-client-defaults": elicit_defaults,
    "json-schema-ref-no-deref": list_old,
    "json-schema-2020-12-preservation": echo_schema,
    "request-metadata": declare_everything,
    "http-standard-headers": add_numbers,
    "http-invalid-tool-headers": call_every_tool,
    "http-custom-headers": replay_calls,
    "sep-2322-client-request-state": round_trips,
}


def take_turn() -> None:
    """Wait until fewer than two other clients run: the suite starts all of a run at once, and a client that gets no
    processor for ten seconds gives up on its server. The lock ends with the process."""
    locks = (__file__, str(Path(__file__).with_name("run.py")))
    fcntl.flock(os.open(locks[os.getpid() % len(locks)], os.O_RDONLY), fcntl.LOCK_EX)


if __name__ == "__main__":
    take_turn()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    asyncio.run(SCENARIOS.get(SCENARIO, log_in)(sys.argv[1]))
