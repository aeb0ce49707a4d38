"""Spans across the hop, as a collector gets them over OTLP/HTTP. Without the packages they are not measured."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import HubSettings, TracingSettings
from interlock.hub.calls.recording import Recording
from waiting import until

from .committed import CommittedRecords
from .running_hub import KeptHttpClient, RawClient, RunningHub, child, running_hub, text_of

COLLECTED = "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
ECHO = {"name": "busy__echo", "arguments": {"text": "hush-hush"}}


class Collector:
    """Takes what is sent to it, and reads it as the protocol says."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self._server: asyncio.Server
        self.raw = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Collector:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                assert head.startswith(b"post /v1/traces ")
                length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                body = await reader.readexactly(length)
                self._read(gzip.decompress(body) if b"content-encoding: gzip" in head else body)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    def _read(self, body: bytes) -> None:
        self.raw += body
        request = pytest.importorskip(COLLECTED).ExportTraceServiceRequest.FromString(body)
        for span in (span for of in request.resource_spans for scope in of.scope_spans for span in scope.spans):
            said = {pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes}
            self.spans.append(
                {
                    "name": span.name,
                    "kind": {2: "server", 3: "client"}[span.kind],
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "failed": span.status.code == 2,
                    "attributes": said,
                    "ends": span.end_time_unix_nano,
                    "begins": span.start_time_unix_nano,
                }
            )


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    pytest.importorskip(COLLECTED, reason="not measured: interlock[otel] is not installed")
    pytest.importorskip("opentelemetry.sdk.trace", reason="not measured: interlock[otel] is not installed")
    async with Collector() as running:
        yield running


@contextlib.asynccontextmanager
async def traced(tmp_path: Path, collector: Collector, **settings: Any) -> AsyncIterator[RunningHub]:
    hub = HubSettings(tracing=TracingSettings(endpoint=collector.url, **settings.pop("tracing", {})), **settings)
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub) as running:
        yield running


async def flushed(hub: RunningHub) -> None:
    assert hub.hub_app.spans is not None
    await asyncio.to_thread(hub.hub_app.spans.flush)


async def test_a_call_has_a_span_below_its_callers_and_the_forward_one_below_that(
    tmp_path: Path, collector: Collector
) -> None:
    async with traced(tmp_path, collector) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("cursor"))
        answer = await client.modern("tools/call", {**ECHO, "_meta": {"traceparent": PARENT}})
        assert text_of(answer) == "hush-hush"
        await flushed(hub)
    outer, inner = sorted(collector.spans, key=lambda span: span["begins"])
    assert (outer["name"], outer["kind"], outer["trace"], outer["parent"]) == (
        "tools/call busy__echo",
        "server",
        TRACE,
        SPAN,
    )
    assert (inner["name"], inner["kind"], inner["trace"], inner["parent"]) == (
        "tools/call echo",
        "client",
        TRACE,
        outer["id"],
    )
    assert outer["attributes"] == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2026-07-28",
        "jsonrpc.request.id": "1",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "busy__echo",
        "interlock.agent": "agent:cursor",
        "interlock.server": "busy",
    }
    assert inner["ends"] <= outer["ends"]
    assert not outer["failed"]
    assert b"hush-hush" not in collector.raw, "no argument and no result is in a span"


@pytest.mark.parametrize("strict", [False, True])
async def test_the_server_is_told_the_forwards_span_and_the_record_the_same_trace(
    tmp_path: Path, collector: Collector, strict: bool
) -> None:
    async with traced(tmp_path, collector, audit="strict" if strict else "batched") as hub:
        records = CommittedRecords(hub.hub_app.bus)
        sent: list[bytes] = []
        from interlock.client.connection import Connection

        send = Connection.send

        def watch(self: Connection, outgoing: Any, *rest: Any, **more: Any) -> Any:
            sent.append(outgoing.params)
            return send(self, outgoing, *rest, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Connection, "send", watch)
            await RawClient(hub.url + "/mcp").modern("tools/call", ECHO)
        await hub.hub_app.recorder.flushed()
        await flushed(hub)
    outer, inner = sorted(collector.spans, key=lambda span: span["begins"])
    told = json.loads(sent[0])["_meta"]["traceparent"]
    assert told == f"00-{inner['trace']}-{inner['id']}-01"
    assert outer["parent"] == "", "a trace that nobody began begins here"
    assert {entry.trace for entry in records if entry.name} == {outer["trace"]}


async def test_calls_that_are_alike_are_traced_like_all_others(tmp_path: Path, collector: Collector) -> None:
    async with traced(tmp_path, collector) as hub:
        records = CommittedRecords(hub.hub_app.bus)
        async with KeptHttpClient(hub.url) as client:
            for number in range(3):
                assert text_of(await client.call("busy__echo", b'{"text":"x"}', number)) == "x"
        await hub.hub_app.recorder.flushed()
        await flushed(hub)
    traces = [entry.trace for entry in records if entry.name]
    assert len(set(traces)) == 3
    assert sorted(span["trace"] for span in collector.spans) == sorted(traces * 2)


async def test_refusals_failures_and_unknown_names_are_errors_that_say_why(
    tmp_path: Path, collector: Collector
) -> None:
    async with traced(tmp_path, collector) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": 1}})
        await client.modern("tools/call", {"name": "busy__nothing", "arguments": {}})
        await client.modern("prompts/get", {"name": "busy__greet", "arguments": {"name": "Ada"}})
        old = RawClient(hub.url + "/mcp")
        await old.initialize()
        await old.legacy("tools/call", ECHO)
        await client.modern("tools/list")
        await flushed(hub)
    by_name = {(span["name"], span["kind"]): span for span in collector.spans}
    refused = next(span for span in collector.spans if span["attributes"].get("interlock.gate") == "schema")
    assert (refused["failed"], refused["attributes"]["error.type"]) == (True, "tool_error")
    unknown = by_name["tools/call", "server"]
    assert (unknown["failed"], unknown["attributes"]["error.type"]) == (True, "TOOL_NOT_FOUND")
    assert not by_name["prompts/get busy__greet", "server"]["failed"]
    assert not any(span["name"].startswith("tools/list") for span in collector.spans)
    names = [span["name"] for span in collector.spans if span["kind"] == "client"]
    assert sorted(names) == ["prompts/get greet", "tools/call echo"]


async def test_t23_secrets_in_addresses_and_messages_are_in_no_span(tmp_path: Path, collector: Collector) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    async with traced(tmp_path, collector) as hub:
        key = hub.key("cursor")
        old = RawClient(hub.url + "/mcp", key)
        await old.initialize()
        await old.legacy("resources/read", {"uri": f"interlock://busy/text://one?token={secret}"})
        await old.legacy("resources/read", {"uri": f"text://{secret}"})
        await old.legacy("tools/call", {"name": "busy__echo", "arguments": {"text": secret, secret: 1}})
        await old.legacy("prompts/get", {"name": "busy__greet", "arguments": {"name": secret}})
        await flushed(hub)
    assert len(collector.spans) >= 4
    assert secret.encode() not in collector.raw
    assert key.encode() not in collector.raw


async def test_rest_and_the_http_header_are_traced_too(tmp_path: Path, collector: Collector) -> None:
    async with traced(tmp_path, collector) as hub:
        status, headers, _ = await RawClient(hub.url + "/tools/busy__echo").post(
            b'{"text": "x"}', {"traceparent": PARENT}
        )
        assert (status, headers["x-trace-id"]) == (200, TRACE)
        old = RawClient(hub.url + "/mcp")
        await old.initialize()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ECHO}
        await old.post(json.dumps(body).encode(), {"traceparent": PARENT})
        await flushed(hub)
    servers = [span for span in collector.spans if span["kind"] == "server"]
    assert [(span["trace"], span["parent"]) for span in servers] == [(TRACE, SPAN)] * 2


async def test_what_is_not_sampled_is_not_sent_and_still_passes_on_its_trace(
    tmp_path: Path, collector: Collector
) -> None:
    async with traced(tmp_path, collector, tracing={"sample": 0.0}) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.modern("tools/call", ECHO)
        unsampled = {"traceparent": PARENT.removesuffix("01") + "00"}
        await client.modern("tools/call", {**ECHO, "_meta": unsampled})
        await flushed(hub)
        assert collector.spans == []
        await client.modern("tools/call", {**ECHO, "_meta": {"traceparent": PARENT}})
        await flushed(hub)
        assert len(collector.spans) == 2


async def test_a_cancelled_call_ends_its_spans(tmp_path: Path, collector: Collector) -> None:
    async with traced(tmp_path, collector) as hub:
        host = hub.url.removeprefix("http://")
        _, writer = await asyncio.open_connection(*host.split(":"))
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "busy__hang", "arguments": {"mark": "x"}, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\naccept: application/json, "
            "text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n"
            f"mcp-name: busy__hang\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await until(lambda: hub.hub_app.hub.open_calls)
        writer.close()
        await until(lambda: not hub.hub_app.hub.open_calls)
        await flushed(hub)
    assert {span["attributes"]["error.type"] for span in collector.spans} == {"cancelled"}
    assert len(collector.spans) == 2


async def test_without_an_endpoint_nothing_stands_before_the_hub(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as hub:
        assert hub.hub_app.service is hub.hub_app.hub
        assert type(hub.hub_app.recording) is Recording
        assert hub.hub_app.spans is None


async def test_a_hub_that_cannot_trace_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from interlock.config.settings import Config
    from interlock.hub.cannot_start import CannotStart
    from interlock.web.run import serve

    monkeypatch.setattr("interlock.hub.audit.tracing.setup.find_spec", lambda name: None)
    with pytest.raises(CannotStart) as refused:
        await serve(
            Config(hub=HubSettings(tracing=TracingSettings(endpoint="http://127.0.0.1:4318"))),
            tmp_path,
            lambda ready: None,
        )
    assert "interlock[otel]" in refused.value.hint
