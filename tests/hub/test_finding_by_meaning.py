"""Tools found by what they mean: with an embedding endpoint, with vectors from a file, and by words when both fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.config.home import home_folder
from interlock.config.settings import ApprovalSettings, EmbeddingSettings, HubSettings, TimeoutSettings
from interlock.discovery import model_files
from interlock.hub.tool_search.embedding_endpoint import EmbeddingEndpoint
from interlock.hub.tool_search.model_process import ModelProcess
from interlock.transports.resolving import Resolver

from .embedding_server import embedding_server, vector_of
from .running_hub import SOURCE, RawClient, RunningHub, child, running_hub

QUERY = "ocean at the port"
"""No word of it stands in the sought tool."""
SOUGHT = "many__measure_tide_height"


def hub_with(**embeddings: Any) -> HubSettings:
    timeouts = TimeoutSettings(start_s=30, discovery_s=20, tool_s=20)
    return HubSettings(
        budget=4_000,
        timeouts=timeouts,
        approvals=ApprovalSettings(hold_s=0),
        embeddings=EmbeddingSettings(**embeddings),
    )


async def find(hub: RunningHub, query: str = QUERY, **more: Any) -> Any:
    answer = await RawClient(hub.url + "/mcp").modern("mgp/tools/discover", {"query": query, **more})
    return answer["result"]


async def found_by_meaning(hub: RunningHub) -> Any:
    """Search once so that the tools' meanings are worked out, and again when they are."""
    await find(hub)
    await hub.hub_app.search.settled()
    return await find(hub)


async def test_an_endpoint_finds_what_no_word_does_and_each_text_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-123")
    servers = {"many": child("many_server.py", "100")}
    async with embedding_server() as server:
        hub = hub_with(url=server.url, model="toy", key_env="MY_KEY")
        async with running_hub(tmp_path, servers, hub=hub) as running:
            assert (await find(running))["search_strategy"] == "keyword"  # nothing is known of the tools yet
            await running.hub_app.search.settled()
            found = await find(running)
            assert found["search_strategy"] == "hybrid"
            assert found["tools"][0]["name"] == SOUGHT
            assert server.keys == {"Bearer sk-123"}
            assert max(server.batches) <= 32
            assert len(server.texts) == len(set(server.texts)) == 101
        async with running_hub(tmp_path, servers, hub=hub) as running:
            server.texts.clear()
            assert (await found_by_meaning(running))["tools"][0]["name"] == SOUGHT
            assert server.texts == [QUERY]  # the tools' vectors were in the store


async def test_vectors_of_a_file_do_the_same_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    words = ["tide", "ocean", "harbour", "port", "invoice", "ticket"]
    file = tmp_path / "words.vec"
    file.write_text("".join(f"{word} {' '.join(map(str, vector_of(word)))}\n" for word in words))
    async with running_hub(tmp_path, {"many": child("many_server.py", "100")}, hub=hub_with(path=str(file))) as running:
        found = await found_by_meaning(running)
        assert found["search_strategy"] == "hybrid"
        assert found["tools"][0]["name"] == SOUGHT


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"{}"),
        (200, b"not json"),
        (200, b'{"data":[]}'),
        (200, json.dumps({"data": [{"index": 0, "embedding": [1.0] * 5_000}]}).encode()),
        (200, b'{"data":[{"index":7,"embedding":[1.0]}]}'),
        (200, b"[" * 100_000),
        (307, b"{}"),
    ],
)
async def test_an_endpoint_that_fails_leaves_the_words(tmp_path: Path, answer: tuple[int, bytes]) -> None:
    async with embedding_server() as server:
        server.answer = lambda asked: answer
        async with running_hub(
            tmp_path, {"many": child("many_server.py", "30")}, hub=hub_with(url=server.url)
        ) as running:
            found = await find(running, "how high is the tide?")
            assert found["search_strategy"] == "keyword"
            assert found["tools"][0]["name"] == SOUGHT
            asked = len(server.batches)
            await find(running, "how high is the tide now?")
            assert len(server.batches) == asked  # it is left alone for a while
            assert any("by their words" in line.text for line in running.hub_app.logs.tail("hub", 100))


async def test_an_endpoint_that_is_not_there_leaves_the_words(tmp_path: Path) -> None:
    hub = hub_with(url="http://127.0.0.1:9/v1")
    async with running_hub(tmp_path, {"many": child("many_server.py", "30")}, hub=hub) as running:
        assert (await find(running, "how high is the tide?"))["tools"][0]["name"] == SOUGHT


async def test_no_endpoint_lies_where_a_machine_hands_out_its_credentials(tmp_path: Path) -> None:
    hub = hub_with(url="http://169.254.169.254/v1")
    async with running_hub(tmp_path, {"many": child("many_server.py", "30")}, hub=hub) as running:
        assert (await find(running, "how high is the tide?"))["search_strategy"] == "keyword"
        assert any("metadata" in line.text.lower() for line in running.hub_app.logs.tail("hub", 100))


async def test_another_endpoint_means_other_vectors(tmp_path: Path) -> None:
    servers = {"many": child("many_server.py", "30")}
    async with embedding_server() as first, embedding_server() as second:
        async with running_hub(tmp_path, servers, hub=hub_with(url=first.url)) as running:
            await found_by_meaning(running)
            config = running.hub_app.config
            second.answer = _shorter
            await running.hub_app.apply(type(config)(hub=hub_with(url=second.url), servers=servers))
            await found_by_meaning(running)
            assert len(second.texts) == 31  # nothing of the first was taken for it


def _shorter(asked: dict[str, Any]) -> tuple[int, bytes]:
    rows = [{"index": place, "embedding": vector_of(text)[:4]} for place, text in enumerate(asked["input"])]
    return 200, json.dumps({"data": rows}).encode()


async def test_only_for_the_published_model_it_is_known_how_near_gibberish_comes(tmp_path: Path) -> None:
    file = tmp_path / "words.vec"
    file.write_text("tide 1 0\n")
    assert ModelProcess(tmp_path).least_alone > 0
    assert ModelProcess(file).least_alone == 0
    endpoint = EmbeddingEndpoint(EmbeddingSettings(url="http://127.0.0.1:9/v1", model="toy"), Resolver())
    assert endpoint.least_alone == 0
    await endpoint.close()


@pytest.mark.skipif(model_files.installed(home_folder()) is None, reason="no model is installed")
async def test_gibberish_finds_nothing_with_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    hub = hub_with(path=str(model_files.installed(home_folder())))
    async with running_hub(tmp_path, {"many": child("many_server.py", "100")}, hub=hub) as running:
        assert (await found_by_meaning(running))["tools"]
        found = await find(running, "blorf snarg quux")
        assert (found["search_strategy"], found["tools"]) == ("hybrid", [])
