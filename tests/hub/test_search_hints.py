"""A search that finds nothing, or not as it was asked to, says what to do; so does a source of meanings that fails."""

from __future__ import annotations

from pathlib import Path

from interlock.config.settings import ApprovalSettings, EmbeddingSettings, HubSettings, TimeoutSettings

from .running_hub import child, running_hub

HUB = HubSettings(timeouts=TimeoutSettings(start_s=30, discovery_s=20, tool_s=20), approvals=ApprovalSettings(hold_s=0))
SERVERS = {"many": child("many_server.py", "20")}


async def test_a_person_is_told_what_to_do_after_a_search(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=HUB) as hub:
        nothing = await hub.operate("find", query="xyzzy")
        assert nothing["tools"] == []
        assert "interlock search-model install" in nothing["hint"]
        category = await hub.operate("find", query="xyzzy", strategy="category")
        assert category["hint"].startswith("no such category; there are ")
        named = category["hint"].removeprefix("no such category; there are ").split(", ")[0]
        found = await hub.operate("find", query=named.replace("/", " "), strategy="category")
        assert found["tools"], f"{named} is a category"
        assert "hint" not in found
        semantic = await hub.operate("find", query="tide height", strategy="semantic")
        assert semantic["search_strategy"] == "keyword"
        assert "interlock search-model install" in semantic["hint"]
        assert "hint" not in await hub.operate("find", query="tide height")
    async with running_hub(tmp_path / "empty", {}, hub=HUB) as hub:
        assert "interlock status" in (await hub.operate("find", query="tide height"))["hint"]


async def test_a_wrong_path_of_the_model_is_a_problem_in_the_status(tmp_path: Path) -> None:
    for path, problem in ((tmp_path / "gone", "there is no file or folder"), (tmp_path, "has no vocab.txt")):
        wrong = HubSettings(
            timeouts=HUB.timeouts, approvals=HUB.approvals, embeddings=EmbeddingSettings(path=str(path))
        )
        async with running_hub(tmp_path / "home", SERVERS, hub=wrong) as hub:
            (shown,) = (await hub.operate("status"))["config"]["problems"]
            assert problem in shown["message"]
            assert "[hub.embeddings]" in shown["message"]
            assert shown["hint"]
            semantic = await hub.operate("find", query="tide height", strategy="semantic")
            assert problem in semantic["hint"]


async def test_an_endpoint_that_fails_is_a_problem_in_the_status(tmp_path: Path) -> None:
    gone = HubSettings(
        timeouts=HUB.timeouts, approvals=HUB.approvals, embeddings=EmbeddingSettings(url="http://127.0.0.1:1/v1")
    )
    async with running_hub(tmp_path, SERVERS, hub=gone) as hub:
        assert (await hub.operate("status"))["config"]["problems"] == []
        await hub.operate("find", query="tide height")
        (shown,) = (await hub.operate("status"))["config"]["problems"]
        assert "not by meaning" in shown["message"]
