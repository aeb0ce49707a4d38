"""The loop only hands on a peer's message at once, of any size and kind. Without the guards most of these cost
hundreds of milliseconds, and some several seconds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial

import pytest

from attacks.site import SHAPES, SIZE, AttackedHub, asking, attacked, call_of
from interlock.config.settings import Rate
from interlock.hub.upstreams.states import ServerState

LEGAL = ("text", "three_byte_text", "escaped_letters", "source_code", "blanks")
ILLEGAL = ("objects", "names", "same_names", "deep", "long_integers", "late_bad_utf8")


@pytest.fixture(scope="module")
async def shared_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AttackedHub]:
    async with attacked(tmp_path_factory.mktemp("attacked")) as site:
        yield site


@pytest.fixture
async def site(shared_site: AttackedHub) -> AttackedHub:
    """A server that was ended for the test before is back."""
    for server in ("good", "bad", "web"):
        await shared_site.hub.state(server, ServerState.CONNECTED)
    return shared_site


async def test_t38_large_arguments_of_every_shape_keep_the_loop_free(site: AttackedHub) -> None:
    for shape in (*LEGAL, *ILLEGAL):
        answer = await site.call("good__echo", partial(_marked, shape))
        await site.dog.check(SIZE)
        assert ("result" in answer) is (shape in LEGAL), (shape, answer)


READ_BY_VALIDATORS = {
    "command": "echo $(a;b|c) && ",
    "code": "import os; os.system('x')\n",
    "url": "http://a.example/b?c=d ",
    "path": "../a/./b//",
    "sql": "select a from b; -- c\n",
    "query": "select /* a */ b where c = 'd' ",
}


@pytest.mark.parametrize("address", ["/mcp", "/tools/good__echo/validate"])
async def test_t38_large_arguments_that_validators_read_keep_the_loop_free(site: AttackedHub, address: str) -> None:
    for name in READ_BY_VALIDATORS:
        answer = await site.call("good__echo", partial(_for_validators, name, address), address=address)
        await site.dog.check(SIZE)
        assert answer, name


@pytest.mark.parametrize("member", ["x", "trace_id", "id"])
async def test_t38_large_members_beside_a_call_keep_the_loop_free(site: AttackedHub, member: str) -> None:
    for shape in ("text", "escaped_lines", "objects", "names", "deep"):
        answer = await site.call("good__echo", partial(_beside, member, shape))
        await site.dog.check(SIZE)
        assert "error" in answer or member != "id"


@pytest.mark.parametrize("server", ["bad", "web"])
async def test_t38_what_servers_answer_keeps_the_loop_free(site: AttackedHub, server: str) -> None:
    tool = f"{server}__do"
    for what in ("result", "error", "error_data", "log", "stray"):
        for shape in ("text", "three_byte_text", "objects"):
            answer = await site.call(tool, partial(call_of, tool, asking(what, shape)))
            await site.dog.check(SIZE)
            assert "result" in answer or "error" in answer
            assert len(str(answer.get("error", ""))) < 10_000


@pytest.mark.parametrize("server", ["bad", "web"])
async def test_t38_tiny_pieces_without_an_end_keep_the_loop_free(site: AttackedHub, server: str) -> None:
    tool = f"{server}__do"
    for what in ("blank_lines", "tiny_lines", "data_lines"):
        answer = await site.call(tool, partial(call_of, tool, asking(what, "blanks")))
        await site.dog.check(SIZE)
        assert "result" in answer or "error" in answer


async def test_t38_large_arguments_reach_the_server_and_large_results_the_client_unchanged(site: AttackedHub) -> None:
    for shape in LEGAL:
        answer = await site.call("bad__do", partial(call_of, "bad__do", asking("result", shape)))
        (block,) = answer["result"]["content"]
        assert block["text"] == json.loads(SHAPES[shape]()), shape
        given = await site.call("good__echo", partial(_marked, shape))
        assert given["result"]["content"][0]["text"] == "m", shape


async def test_t38_malformed_requests_use_up_their_senders_rate(site: AttackedHub) -> None:
    key = await site.hub.new_key("sender", rate=Rate(per_minute=5))
    bad = call_of("good__echo", b"[{},{}", b'"x":[1,')
    codes = [(await site.call("good__echo", lambda: bad, key))["error"]["code"] for _ in range(7)]
    assert codes[:5] == [-32700] * 5
    large = call_of("good__echo", b'{"mark":"%b"}' % (b"x" * 100_000))
    for body in (bad, large, call_of("good__echo", b"{}")):
        refused = await site.call("good__echo", lambda body=body: body, key)
        assert "rate" in str(refused), refused
    assert "result" in await site.call("good__echo", lambda: large, await site.hub.new_key("another"))


def _marked(shape: str) -> bytes:
    return call_of("good__echo", b'{"mark":%b}' % SHAPES[shape]())


def _for_validators(name: str, address: str) -> bytes:
    piece = READ_BY_VALIDATORS[name]
    arguments = json.dumps({name: piece * (SIZE // len(piece)), "mark": "m"}).encode()
    return call_of("good__echo", arguments) if address == "/mcp" else arguments


def _beside(member: str, shape: str) -> bytes:
    return call_of("good__echo", b"{}", b'"%b":%b,' % (member.encode(), SHAPES[shape]()))
