"""`Client` against the official SDK's server, against our own in both eras and on every transport, and against servers
that only exist to be difficult."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest
from web_peer import WebPeer

from hub.instructed_server import InstructedServer
from hub.preset_server import PresetServer
from interlock.client import Client, Handlers
from interlock.client.handlers import with_defaults
from interlock.server import Context, Server
from interlock.wire.errors import Fault
from waiting import until

ERAS = ["modern", "legacy"]


async def fill_in(params: dict[str, object]) -> dict[str, object]:
    return {"action": "accept", "content": {"name": "Bo"}}


async def open_it(params: dict[str, object]) -> dict[str, object]:
    return {"action": "accept"}


async def write(params: dict[str, object]) -> dict[str, object]:
    return {"role": "assistant", "content": {"type": "text", "text": "a poem"}, "model": "m"}


EVERYTHING = Handlers(sampling=write, elicit_form=fill_in, elicit_url=open_it, roots=[{"uri": "file:///home"}])


def text(result: dict) -> str:
    return result["content"][0]["text"]


# The official SDK's server.


@pytest.mark.parametrize("era", ERAS)
async def test_the_official_server_is_understood(official, era: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []
    async with Client(official, era=era, timeout=30) as client:
        assert client.connection.peer.instructions == "Be kind."
        assert [tool["name"] for tool in await client.list_tools()] == ["add", "count", "wait", "ask_age"]
        assert (await client.call_tool("add", {"a": 1, "b": 2}))["structuredContent"] == {"result": 3}
        assert text(await client.call_tool("count", {"to": 3}, progress=lambda *at: seen.append(at))) == "done"
        assert (await client.read_resource("note://one"))["contents"][0]["text"] == "hello"
        assert "Bo" in (await client.get_prompt("greet", {"name": "Bo"}))["messages"][0]["content"]["text"]
        assert (await client.call_tool("nothing"))["isError"]
        with pytest.raises(Fault) as late:
            await client.call_tool("wait", timeout=0.2)
        assert late.value.name == "UPSTREAM_TIMEOUT"
        await client.connection.check()
    assert seen == [(1.0, 3.0, "at 1"), (2.0, 3.0, "at 2"), (3.0, 3.0, "at 3")]


@pytest.mark.parametrize("era", ERAS)
async def test_the_official_server_is_understood_without_streams(official_without_streams, era: str) -> None:
    async with Client(official_without_streams, era=era, timeout=30) as client:
        assert len(await client.list_tools()) == 4
        assert text(await client.call_tool("count", {"to": 3}, progress=lambda *_: None)) == "done"


async def test_the_official_server_asks_back_in_the_middle_of_a_call(official) -> None:
    async def defaults(params: dict[str, object]) -> dict[str, object]:
        return {"action": "accept", "content": {}}

    async with Client(official, era="legacy", handlers=Handlers(elicit_form=defaults), timeout=30) as client:
        assert text(await client.call_tool("ask_age")) == "accept years=7"


async def test_the_era_of_the_official_server_is_found(official) -> None:
    async with Client(official, timeout=30) as client:
        assert client.connection.revision.name == "2026-07-28"


# Our own server, in both eras, in memory and over HTTP.


def running_hub() -> Server:
    server = Server("house")

    @server.tool
    async def register(ctx: Context) -> str:
        """Ask for everything there is to ask for."""
        name = await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
        visited = await ctx.elicit_url("Log in", "https://example.com/login")
        poem = await ctx.sample("Write a poem")
        roots = await ctx.roots()
        return f"{name.value['name']} {visited.action} {poem.text} {roots[0].uri}"

    @server.tool
    def talk(ctx: Context) -> str:
        """Say something on the side."""
        ctx.log("warning", "careful")
        ctx.log("debug", "details")
        return "said"

    @server.resource("note://one", ttl_ms=60_000)
    def note() -> str:
        """A note."""
        notes.append(1)
        return f"version {len(notes)}"

    @server.prompt
    def greet(name: str) -> str:
        """A greeting."""
        return f"Greet {name}"

    @server.completion("greet", "name")
    def names(value: str) -> list[str]:
        return [name for name in ("Bo", "Bea", "Al") if name.startswith(value)]

    notes: list[int] = []
    return server


@asynccontextmanager
async def visiting(server: Server, where: str, **options: object):
    async with AsyncExitStack() as stack:
        target = server if where == "memory" else (await stack.enter_async_context(server.http())).url
        yield await stack.enter_async_context(Client(target, timeout=20, **options))


PLACES = ["memory", "http"]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("era", ERAS)
async def test_questions_are_answered_by_the_same_handlers_in_both_eras(where: str, era: str) -> None:
    async with visiting(running_hub(), where, era=era, handlers=EVERYTHING) as client:
        assert text(await client.call_tool("register")) == "Bo accept a poem file:///home"


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("era", ERAS)
async def test_log_messages_come_from_the_level_that_was_set(where: str, era: str) -> None:
    heard: list[object] = []
    async with visiting(
        running_hub(), where, era=era, notification_handler=lambda _, params: heard.append(params["data"])
    ) as client:
        await client.set_level("warning")
        await client.call_tool("talk")
        await until(lambda: heard)
        await client.set_level("debug")
        await client.call_tool("talk")
        await until(lambda: len(heard) == 3)
        with pytest.raises(Fault, match="unknown level"):
            await client.set_level("loud")
    assert heard == ["careful", "careful", "details"]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("era", ERAS)
async def test_prompts_and_completions_work(where: str, era: str) -> None:
    async with visiting(running_hub(), where, era=era) as client:
        assert [prompt["name"] for prompt in await client.list_prompts()] == ["greet"]
        suggested = await client.complete({"type": "ref/prompt", "name": "greet"}, "name", "B")
        assert suggested["completion"]["values"] == ["Bo", "Bea"]


async def test_what_stays_fresh_is_not_asked_for_again_until_it_changes() -> None:
    server, heard = running_hub(), list[str]()
    async with visiting(
        server, "memory", era="modern", notification_handler=lambda method, _: heard.append(method)
    ) as client:
        first = await client.read_resource("note://one")
        assert await client.read_resource("note://one") == first
        await client.subscribe("note://one")

        def updated() -> bool:
            server.resource_updated("note://one")  # heard once the server has taken the subscription
            return "notifications/resources/updated" in heard

        await until(updated)
        assert (await client.read_resource("note://one"))["contents"][0]["text"] == "version 2"


@pytest.mark.parametrize("era", ERAS)
async def test_a_changed_list_is_heard_and_read_again(era: str) -> None:
    server = running_hub()
    heard: list[str] = []
    async with visiting(server, "http", era=era, notification_handler=lambda method, _: heard.append(method)) as client:
        before = await client.list_tools()
        await client.watch()
        if era == "legacy":
            await client.connection.link.listening(120)
        server.tool(greeting)
        await until(lambda: "notifications/tools/list_changed" in heard)
        assert len(await client.list_tools()) == len(before) + 1


def greeting() -> str:
    """A new tool."""
    return "hi"


# Servers that are difficult.


@asynccontextmanager
async def difficult(script, **options: object):
    web = WebPeer(script)
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    try:
        async with Client(url, timeout=10, **options) as client:
            yield client, web
    finally:
        server.close()


async def modern(visit, tools: list[dict] | None = None) -> bool:
    """Answers what every server must; False for the rest."""
    match visit.message.get("method"):
        case "server/discover":
            await visit.result({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        case "tools/list":
            await visit.result({"tools": tools or [], "ttlMs": 60_000, "cacheScope": "public"})
        case _:
            return False
    return True


def tool(name: str, **properties: dict) -> dict:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


async def test_the_servers_state_is_echoed_exactly_and_left_out_where_there_was_none() -> None:
    state = '"\\u00e9 \\/ {\\"a\\": 1}"'

    async def script(visit) -> None:
        if await modern(visit):
            return
        rounds = len(web.visits) - 1
        asked = ',"inputRequests":{"q":{"method":"roots/list"}}'
        extra = [asked, f',"requestState":{state}', ""][rounds - 1]
        kind = "complete" if rounds == 3 else "input_required"
        result = f'{{"resultType":"{kind}","content":[]{extra}}}'
        body = f'{{"jsonrpc":"2.0","id":{visit.id},"result":{result}}}'
        await visit.reply(200, body.encode(), Content_Type="application/json")

    async with difficult(script, handlers=EVERYTHING) as (client, web):
        await client.call_tool("x")
    first, second, third = (visit.message for visit in web.visits[1:])
    assert "requestState" not in first["params"]
    assert "requestState" not in second["params"]
    assert third["params"]["requestState"] == msgspec.json.decode(state)
    assert len({message["id"] for message in (first, second, third)}) == 3


async def test_a_server_that_wants_more_and_says_nothing_is_not_called_twice() -> None:
    async def script(visit) -> None:
        if not await modern(visit):
            await visit.result({"resultType": "input_required"})

    async with difficult(script) as (client, web):
        with pytest.raises(Fault, match="neither questions"):
            await client.call_tool("x")
    assert web.methods().count("tools/call") == 1


async def test_a_server_that_never_stops_asking_is_given_up() -> None:
    async def script(visit) -> None:
        if not await modern(visit):
            asked = {"q": {"method": "roots/list"}}
            await visit.result({"resultType": "input_required", "inputRequests": asked})

    async with difficult(script, handlers=EVERYTHING) as (client, web):
        with pytest.raises(Fault, match="more than 10"):
            await client.call_tool("x")
    assert web.methods().count("tools/call") == 10


@pytest.mark.parametrize("method", ["sampling/createMessage", "tools/call"])
async def test_a_question_nobody_answers_ends_the_call(method: str) -> None:
    async def script(visit) -> None:
        if not await modern(visit):
            await visit.result({"resultType": "input_required", "inputRequests": {"q": {"method": method}}})

    async with difficult(script) as (client, web):
        with pytest.raises(Fault) as refused:
            await client.call_tool("x")
        assert refused.value.name == "METHOD_NOT_FOUND"
    assert web.methods().count("tools/call") == 1


async def test_tools_with_bad_headers_are_left_out_and_good_ones_mirrored(caplog) -> None:
    good = tool("good", region={"type": "string", "x-mcp-header": "Region"})
    bad = tool("bad", price={"type": "number", "x-mcp-header": "Price"})

    async def script(visit) -> None:
        if not await modern(visit, [good, bad]):
            await visit.result({"content": []})

    async with difficult(script) as (client, web):
        assert await client.list_tools() == [good]
        await client.call_tool("good", {"region": "süd"})
    assert "bad" in caplog.text
    assert web.visits[-1].headers["mcp-param-region"] == "=?base64?c8O8ZA==?="


async def test_a_header_mismatch_leads_to_a_new_list_and_one_more_try() -> None:
    async def script(visit) -> None:
        if await modern(visit, [tool("x", region={"type": "string", "x-mcp-header": "Region"})]):
            return
        if "mcp-param-region" in visit.headers:
            await visit.result({"content": []})
        else:
            error = {"jsonrpc": "2.0", "id": visit.id, "error": {"code": -32020, "message": "mismatch"}}
            await visit.reply(400, msgspec.json.encode(error))

    async with difficult(script) as (client, web):
        await client.call_tool("x", {"region": "eu"})
        assert web.methods() == ["server/discover", "tools/call", "tools/list", "tools/call"]


async def test_lists_are_cached_as_long_as_the_server_says() -> None:
    async def script(visit) -> None:
        await modern(visit, [tool("x")])

    async with difficult(script) as (client, web):
        assert await client.list_tools() == await client.list_tools()
    assert web.methods().count("tools/list") == 1


async def test_a_page_that_must_be_opened_first_is_shown_and_the_call_repeated() -> None:
    shown: list[object] = []

    async def show(params: dict[str, object]) -> dict[str, object]:
        shown.append(params["url"])
        return {"action": "accept"}

    async def script(visit) -> None:
        if await modern(visit):
            return
        if shown:
            await visit.result({"content": []})
        else:
            wanted = {"elicitations": [{"mode": "url", "elicitationId": "1", "url": "https://x/", "message": "m"}]}
            error = {"code": -32042, "message": "open it", "data": wanted}
            await visit.reply(
                200,
                msgspec.json.encode({"jsonrpc": "2.0", "id": visit.id, "error": error}),
                Content_Type="application/json",
            )

    async with difficult(script, handlers=Handlers(elicit_url=show)) as (client, _):
        assert await client.call_tool("x") == {"content": []}
    assert shown == ["https://x/"]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "http://example.com/", None, "x"])
async def test_only_safe_addresses_are_shown_to_the_person(url: object) -> None:
    with pytest.raises(Fault, match="https"):
        await EVERYTHING.answer("elicitation/create", msgspec.json.encode({"mode": "url", "url": url}))


def test_only_what_has_a_handler_is_declared() -> None:
    assert msgspec.json.decode(Handlers().capabilities()) == {}
    assert msgspec.json.decode(EVERYTHING.capabilities()) == {
        "sampling": {},
        "elicitation": {"form": {}, "url": {}},
        "roots": {},
    }


async def test_tools_are_for_the_model_of_a_client_that_says_so() -> None:
    tools = msgspec.json.encode({"messages": [], "maxTokens": 1, "tools": [], "toolChoice": {"mode": "auto"}})
    without, with_tools = Handlers(sampling=write), Handlers(sampling=write, sampling_tools=True)
    assert msgspec.json.decode(with_tools.capabilities()) == {"sampling": {"tools": {}}}
    assert msgspec.json.decode(await with_tools.answer("sampling/createMessage", tools))["model"]
    with pytest.raises(Fault, match="given tools"):
        await without.answer("sampling/createMessage", tools)


def test_defaults_fill_only_what_was_left_out() -> None:
    schema = {"properties": {"a": {"default": 1}, "b": {"default": 2}, "c": {}}}
    assert with_defaults(schema, {"b": 3}) == {"a": 1, "b": 3}
    assert with_defaults(None, None) == {}


async def test_a_handler_that_breaks_is_answered_for() -> None:
    async def broken(params: dict[str, object]) -> dict[str, object]:
        raise ZeroDivisionError

    async with visiting(running_hub(), "http", era="legacy", handlers=Handlers(elicit_form=broken)) as client:
        with pytest.raises(Fault, match="the client could not answer"):
            await client.call_tool("register")


# Rules that clients enforce on servers and on themselves.


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"content": [], "structuredContent": {"n": 1}}, ""),
        ({"content": [], "isError": True}, ""),
        ({"content": [], "structuredContent": {"n": "one"}}, "n: Type mismatch"),
        ({"content": []}, "no structured content"),
    ],
)
async def test_a_tool_gives_what_it_promised_or_its_call_fails(era: str, given: dict, fault: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    promising = {**tool("count"), "outputSchema": schema}
    async with PresetServer("2026-07-28" if era == "modern" else "2025-11-25") as mirror:
        mirror.answers |= {"tools/list": {"tools": [promising]}, "tools/call": given}
        async with Client(mirror.url) as client:
            # Nothing is known of a tool that was never listed.
            assert (await client.call_tool("count"))["content"] == []
            await client.list_tools()
            if not fault:
                assert (await client.call_tool("count"))["content"] == []
                return
            with pytest.raises(Fault, match=fault):
                await client.call_tool("count")


@pytest.mark.parametrize("schema", [{"$ref": "https://e.example/x"}, {"$schema": "https://e.example/s"}, 5])
async def test_a_promise_that_cannot_be_read_promises_nothing(schema: object) -> None:
    async with PresetServer() as mirror:
        mirror.answers["tools/list"] = {"tools": [{**tool("count"), "outputSchema": schema}]}
        mirror.answers["tools/call"] = {"content": [], "structuredContent": 5}
        async with Client(mirror.url) as client:
            await client.list_tools()
            assert (await client.call_tool("count"))["structuredContent"] == 5


async def test_what_was_read_with_the_help_of_answers_is_not_kept() -> None:
    asked = {"resultType": "input_required", "inputRequests": {"q": {"method": "roots/list"}}}
    async with PresetServer() as mirror:

        async def read(message: dict, say: object) -> dict:
            if "inputResponses" not in message["params"]:
                return asked
            return {"resultType": "complete", "contents": [], "ttlMs": 60_000, "cacheScope": "private"}

        mirror.acts["resources/read"] = read
        async with Client(mirror.url, handlers=EVERYTHING) as client:
            await client.read_resource("a://b")
            await client.read_resource("a://b")
    assert [message.get("method") for message in mirror.heard].count("resources/read") == 4


@pytest.mark.parametrize(
    ("content", "schema", "refused"),
    [
        ({"age": 5}, {"type": "object", "properties": {"age": {"type": "integer"}}}, ""),
        ({"age": "5"}, {"type": "object", "properties": {"age": {"type": "integer"}}}, "age: Type mismatch"),
        ({}, {"type": "object", "properties": {"age": {"default": 5}}, "required": ["age"]}, ""),
        ({}, {"type": "object", "required": ["age"]}, "age"),
        ({}, {"type": "object", "properties": {"age": {"type": "nonsense"}}}, "requestedSchema"),
    ],
)
async def test_a_form_is_sent_only_as_it_was_asked_for(content: dict, schema: dict, refused: str) -> None:
    async def fill(params: dict[str, object]) -> dict[str, object]:
        return {"action": "accept", "content": content}

    answering = Handlers(elicit_form=fill).answer(
        "elicitation/create", msgspec.json.encode({"message": "m", "requestedSchema": schema})
    )
    if not refused:
        assert msgspec.json.decode(await answering)["action"] == "accept"
        return
    with pytest.raises(Fault, match=refused):
        await answering


@pytest.mark.parametrize("mode", ["voice", 5, None])
async def test_a_person_is_asked_in_no_way_that_is_not_known(mode: object) -> None:
    asked = msgspec.json.encode({"mode": mode, "message": "m", "requestedSchema": {"type": "object"}})
    with pytest.raises(Fault) as refused:
        await EVERYTHING.answer("elicitation/create", asked)
    assert refused.value.name == "INVALID_PARAMS"


def said(role: str, *content: dict) -> dict:
    return {"role": role, "content": list(content) if len(content) > 1 else content[0]}


TEXT = {"type": "text", "text": "t"}


def use(id: str) -> dict:
    return {"type": "tool_use", "id": id, "name": "w", "input": {}}


def outcome(id: str) -> dict:
    return {"type": "tool_result", "toolUseId": id, "content": []}


@pytest.mark.parametrize(
    ("messages", "refused"),
    [
        ([], ""),
        ([said("user", TEXT), said("assistant", TEXT)], ""),
        ([said("assistant", TEXT, use("a"), use("b")), said("user", outcome("b"), outcome("a"))], ""),
        ([said("assistant", use("a"))], "missing"),
        ([said("assistant", use("a")), said("user", TEXT)], "missing"),
        ([said("assistant", use("a"), use("b")), said("user", outcome("a"))], "missing"),
        ([said("assistant", use("a")), said("user", outcome("a"), TEXT)], "mixed"),
        ([said("user", outcome("a"))], "no tool use"),
        ([{"role": "user", "content": 5}], "no object"),
        (5, "a list"),
    ],
)
async def test_a_model_sees_only_messages_in_which_every_use_of_a_tool_has_its_result(
    messages: object, refused: str
) -> None:
    handlers = Handlers(sampling=write, sampling_tools=True)
    answering = handlers.answer("sampling/createMessage", msgspec.json.encode({"messages": messages}))
    if not refused:
        assert b"a poem" in await answering
        return
    with pytest.raises(Fault, match=refused) as fault:
        await answering
    assert fault.value.name == "INVALID_PARAMS"


async def test_a_person_who_says_no_to_sampling_says_it_in_the_specifications_number() -> None:
    async def no(params: dict[str, object]) -> dict[str, object]:
        raise Fault("USER_REJECTED", "User rejected sampling request")

    server = Server("poet")

    @server.tool
    async def poem(ctx: Context) -> str:
        return str(await ctx.sample("a poem"))

    async with Client(server, era="legacy", handlers=Handlers(sampling=no)) as client:
        with pytest.raises(Fault) as refused:
            await client.call_tool("poem")
    assert refused.value.foreign_code == -1


async def test_roots_are_folders() -> None:
    with pytest.raises(Fault, match="file://"):
        await Handlers(roots=[{"uri": "https://e.example/"}]).answer("roots/list", b"{}")


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("era", ERAS)
async def test_a_callback_that_breaks_costs_nobody_their_answer(where: str, era: str, caplog) -> None:
    server = Server("telling")

    @server.tool
    async def tell(ctx: Context) -> str:
        ctx.progress(1)
        ctx.log("error", "oh")
        ctx.progress(2)
        return "told"

    heard: list[object] = []

    def broken(*said: object) -> None:
        heard.append(said)
        raise ZeroDivisionError

    async with visiting(server, where, era=era, notification_handler=broken) as client:
        await client.set_level("error")
        assert text(await client.call_tool("tell", progress=broken)) == "told"
    assert len(heard) == 3
    assert caplog.text.count("ZeroDivisionError") >= 3
    assert {record.name for record in caplog.records if record.exc_info} == {"interlock.client"}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_progress_that_cannot_be_read_is_left_out(revision: str, caplog) -> None:
    seen: list[object] = []
    async with PresetServer(revision) as mirror:

        async def act(message, say) -> object:
            token = message["params"]["_meta"]["progressToken"]
            for said in ({"progress": "far"}, {}, {"progress": 1, "total": "x"}, {"progress": 2, "message": "good"}):
                params = {"progressToken": token, **said}
                say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            return {"content": [{"type": "text", "text": "told"}], "resultType": "complete"}

        mirror.acts["tools/call"] = act
        async with Client(mirror.url) as client:
            assert text(await client.call_tool("x", progress=lambda *said: seen.append(said))) == "told"
    assert seen == [(2.0, None, "good")]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3


@pytest.mark.parametrize("beside", [False, True])
async def test_a_question_that_the_server_withdraws_is_asked_no_longer(beside: bool) -> None:
    """A receiver stops what it does, and does not answer (2025-11-25, Cancellation: Behavior Requirements)."""
    asked, stopped = asyncio.Event(), asyncio.Event()

    async def person(params: dict[str, object]) -> dict[str, object]:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return {}

    form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    steps = [
        {"ask": {"id": "q", "method": "elicitation/create", "params": form}, "beside": beside},
        {"ask": {"id": "p", "method": "ping"}, "beside": beside},
        {"wait": "p"},
        {"tell": {"method": "notifications/cancelled", "params": {"requestId": "q"}}, "beside": beside},
        {"ask": {"id": "r", "method": "ping"}, "beside": beside},
        {"wait": "r"},
    ]
    async with InstructedServer().http() as instructed:
        async with Client(instructed.url, era="legacy", handlers=Handlers(elicit_form=person)) as client:
            await client.call_tool("do", {"steps": steps})
            assert asked.is_set()
            await asyncio.wait_for(stopped.wait(), 120)
        assert instructed.answer_to("q") == []


async def test_a_client_that_is_not_connected_says_how_to_be() -> None:
    with pytest.raises(Fault, match="async with") as fault:
        await Client(running_hub()).list_tools()
    assert fault.value.name == "UPSTREAM_UNAVAILABLE"


async def test_a_callback_that_would_have_to_be_awaited_is_refused() -> None:
    async def hear(*said: object) -> None:
        """Never called."""

    with pytest.raises(TypeError, match="notification_handler is a plain function"):
        Client(running_hub(), notification_handler=hear)
    async with Client(running_hub()) as client:
        with pytest.raises(TypeError, match="progress is a plain function"):
            await client.call_tool("talk", progress=hear)
        with pytest.raises(TypeError, match="progress is a plain function"):
            await client.start_tool("talk", progress=hear)
