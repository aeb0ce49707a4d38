"""A result that is withheld, or of which only the beginning can be shown, has the form that its client's revision has
for the answer to its request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import ServerSettings
from interlock.hub import judging_threads

from .raw_server import RawHttpServer
from .running_hub import RawClient, running_hub

RESULTS = {
    "tools/call": ({"name": "ok", "arguments": {}}, b'"content":[]'),
    "prompts/get": ({"name": "say"}, b'"messages":[]'),
    "resources/read": ({"uri": "text://one"}, b'"contents":[]'),
}


class UnreadableServer(RawHttpServer):
    """Answers with a number that no reader takes."""

    def answer(self, message: dict[str, Any]) -> bytes:
        method = message["method"]
        if method in RESULTS:
            body = RESULTS[method][1] + b',"note":1e999'
            return b'{"jsonrpc":"2.0","id":%d,"result":{%b}}' % (message["id"], body)
        plain = super().answer(message).replace(b'"capabilities":{', b'"capabilities":{"prompts":{},"resources":{},')
        if method == "prompts/list":
            return plain.replace(b'"content"', b'"prompts":[{"name":"say"}],"content"')
        if method == "resources/list":
            return plain.replace(b'"content"', b'"resources":[{"uri":"text://one","name":"one"}],"content"')
        return plain.replace(b'"content"', b'"resourceTemplates":[],"content"') if "templates" in method else plain


async def answered(url: str, method: str, *, modern: bool) -> dict[str, Any]:
    client = RawClient(url + "/servers/s/mcp")
    if not modern:
        await client.initialize()
    ask = client.modern if modern else client.legacy
    said: dict[str, Any] = await ask(method, RESULTS[method][0])
    assert "result" in said, said
    if method == "resources/read":
        assert said["result"]["contents"][0]["uri"] == "text://one"
    found: dict[str, Any] = said["result"]
    return found


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize(
    ("method", "texts"),
    [
        ("tools/call", lambda result: [block["text"] for block in result["content"]]),
        ("prompts/get", lambda result: [message["content"]["text"] for message in result["messages"]]),
        ("resources/read", lambda result: [block["text"] for block in result["contents"]]),
    ],
)
async def test_a_result_that_cannot_be_masked_is_withheld_in_the_form_of_its_method(
    tmp_path: Path, modern: bool, method: str, texts: Any
) -> None:
    async with UnreadableServer() as server:
        servers = {"s": ServerSettings(url=server.url, era="legacy", scan_results="mask")}
        async with running_hub(tmp_path, servers) as hub:
            result = await answered(hub.url, method, modern=modern)
            assert texts(result) == ["[masked: the result could not be read]"]
            assert result.get("resultType") == ("complete" if modern else None)
            if method == "tools/call":
                assert result["isError"] is True
            if method == "resources/read" and modern:
                assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


@pytest.mark.parametrize("modern", [False, True])
async def test_the_beginning_of_a_result_that_no_thread_could_cut_is_a_result(
    tmp_path: Path, modern: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Any:
        raise judging_threads.TooManyResults

    monkeypatch.setattr(judging_threads.JudgingThreads, "holding_result", refused)
    async with RawHttpServer(modern=modern) as server:
        body = b'{"jsonrpc":"2.0","id":%ID%,"result":{"resultType":"complete","content":[{"type":"text","text":"' + (
            b"word " * 100 + b'"}]}}'
        )
        server.replies["ok"] = (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %LENGTH%\r\n\r\n" + body
        )
        servers = {"s": ServerSettings(url=server.url, era="modern" if modern else "legacy", max_result_tokens=20)}
        async with running_hub(tmp_path, servers) as hub:
            result = await answered(hub.url, "tools/call", modern=modern)
            assert "[Cut here: 80 of " in result["content"][0]["text"]
            assert result["isError"] is True
            assert result.get("resultType") == ("complete" if modern else None)
