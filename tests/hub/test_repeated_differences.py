"""A connection that is kept answers, sends and records the same as new ones, for any requests in any order."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from example_counts import example_count
from interlock.hub.audit.record import INTENDED

from .committed import CommittedRecords
from .raw_server import RawToolServer
from .running_hub import LEGACY, MODERN, PREFIX, KeptHttpClient, until
from .test_repeated_calls import NEW, NEW_STREAMS, OLD, OLD_STREAMS, HubWithServer, Way, server_hub

STRANGE = "web__strange"
OK = "web__ok"


class RequestParts(NamedTuple):
    """A request in its pieces, each as it is written."""

    id: str
    name: str
    arguments: str
    meta: str
    order: tuple[int, ...]
    heads: tuple[str, ...]
    """Of the headers that belong to it, others in their place."""


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


ODD = [
    '{"n":1,"n":2}', '{"text":"\\ud800"}', '{"n":1.0}', '{"n":1e2}', '{"n":-0}', '{"text":"\\u0061"}', "[]", "null",
    '{"n":1}}', '{"n":1', '{"text":' + "[" * 70 + "1" + "]" * 70 + "}", '{"n":1},"name":"web__ok"', '{"n":NaN}',
]  # fmt: skip
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "id", "name"]), inner, max_size=3)
    ),
    max_leaves=4,
)
good = st.fixed_dictionaries(
    {}, optional={"text": st.text('ab\u00e9\n"\\', max_size=5) | st.floats(0, 9), "n": st.integers()}
)
compact = good.map(_compact)
arguments = st.one_of(
    compact,
    st.dictionaries(st.sampled_from(["text", "n", "x"]), values, max_size=3).map(_compact),
    st.sampled_from(ODD),
)
ids = st.one_of(
    st.integers(0, 10**6).map(str),
    st.integers(0, 10**6).map(str),
    st.sampled_from(
        ["-1", "1.0", "01", "null", '"a"', '""', "999999999999999999", "9223372036854775808", "1e3", "true"]
    ),
)
metas = st.sampled_from(
    ["", "", "", ',"x":1', ',"progressToken":7', ',"traceparent":"x"', ',"x":{"arguments":{},"id":1}']
)
asked = st.builds(
    RequestParts,
    ids,
    st.sampled_from([STRANGE, STRANGE, STRANGE, OK, "web__none"]),
    arguments,
    metas,
    st.sampled_from([(0, 1, 2), (0, 1, 2), (0, 1, 2), (1, 0, 2), (2, 1, 0)]),
    st.sampled_from([(), (), (), ("Mcp-Name: web__ok",), ("Mcp-Method: tools/list",), ("Mcp-Protocol-Version: 1999",)]),
)
PLAIN = RequestParts("1", STRANGE, '{"text":"a"}', "", (0, 1, 2), ())
alike = st.builds(lambda id_, given: PLAIN._replace(id=id_, arguments=given), ids, arguments)


class Running(NamedTuple):
    """A hub with one server, and what both have seen."""

    runner: asyncio.Runner
    place: HubWithServer
    heard: list[Any]
    records: CommittedRecords
    session: str


@pytest.fixture(scope="module", params=[NEW, OLD, NEW_STREAMS, OLD_STREAMS], ids=lambda way: f"{way.era}-{way.streams}")
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    way = request.param
    assert isinstance(way, Way)
    heard: list[Any] = []

    def reply(self: RawToolServer, message: dict[str, Any]) -> bytes | None:
        if message["method"] == "tools/call":
            heard.append(message["params"])
        return None

    async def start() -> tuple[HubWithServer, str]:
        place = await stack.enter_async_context(server_hub(tmp_path_factory.mktemp("hub"), way))
        async with place.kept() as client:
            return place, client.session

    stack = AsyncExitStack()
    with asyncio.Runner() as runner, patch.object(RawToolServer, "reply", reply):
        place, session = runner.run(start())
        yield Running(runner, place, heard, CommittedRecords(place.hub.hub_app.bus), session)
        runner.run(stack.aclose())


@settings(
    max_examples=example_count(20, 40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sequence=st.lists(alike | alike | alike | asked, min_size=3, max_size=12))
def test_a_kept_connection_serves_as_new_ones_do(running: Running, sequence: list[RequestParts]) -> None:
    sequence = [PLAIN, PLAIN, PLAIN, *sequence, PLAIN]
    new = running.runner.run(_all_of(running, sequence, keeping=False))
    kept = running.runner.run(_all_of(running, sequence, keeping=True))
    assert kept == new


async def _all_of(running: Running, sequence: list[RequestParts], *, keeping: bool) -> Any:
    """The answers, the messages to the server, and the audit entries."""
    place = running.place
    running.heard.clear()
    running.records.clear()
    told: list[Any] = []
    client: KeptHttpClient | None = None
    for each in sequence:
        if client is None:
            client = KeptHttpClient(place.hub.url, modern=True)
            await client.__aenter__()
        top, body = await client.post(*_written(each, running))
        told.append((top.split()[1], _unlike(body)))
        if not keeping or b"connection: close" in top:
            await client.__aexit__()
            client = None
    if client is not None:
        await client.__aexit__()
    await until(lambda: place.hub.hub_app.hub.open_calls == 0)
    await place.hub.hub_app.recorder.flushed()
    heard = [_unlike(msgspec.json.encode(params)) for params in running.heard]
    alike = {"seq": 0, "at": 0, "trace": "", "intent": 0, "duration_us": 0}
    # A call that outlasts a batch has its arguments in the intent, another one in its outcome.
    intended = {row.seq: row.redacted_arguments for row in running.records if row.event == INTENDED}
    rows = [
        msgspec.structs.replace(row, redacted_arguments=intended.get(row.intent, row.redacted_arguments), **alike)
        for row in running.records
        if row.kind == "tool" and row.event != INTENDED
    ]
    return told, heard, rows


def _written(each: RequestParts, running: Running) -> tuple[bytes, str]:
    modern = running.place.modern
    own = f'"{PREFIX}protocolVersion":"{MODERN}","{PREFIX}clientCapabilities":{{}}' if modern else '"y":1'
    members = (f'"name":"{each.name}"', f'"arguments":{each.arguments}', f'"_meta":{{{own}{each.meta}}}')
    params = ",".join(members[at] for at in each.order)
    body = f'{{"jsonrpc":"2.0","id":{each.id},"method":"tools/call","params":{{{params}}}}}'
    if not modern:
        return body.encode(), running.session.replace(LEGACY, "1999" if each.heads[:1] == VERSION else LEGACY)
    heads = {"Mcp-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": each.name}
    heads |= dict(line.split(": ") for line in each.heads)
    return body.encode(), "".join(f"{name}: {value}\r\n" for name, value in heads.items())


def _unlike(said: bytes) -> bytes:
    """Without what is another one each time."""
    said = re.sub(rb'"progressToken":\d+', b"", said)
    return re.sub(rb"[0-9a-f]{32}(-[0-9a-f]{16})?", b"", said)


VERSION = ("Mcp-Protocol-Version: 1999",)
