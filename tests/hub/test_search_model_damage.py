"""A search model that is damaged, replaced or killed: tools are still found, and the hub says by what."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from interlock.config.settings import ApprovalSettings, EmbeddingSettings, HubSettings, TimeoutSettings
from interlock.discovery.model_files import FILES
from waiting import until

from .embedding_server import vector_of
from .running_hub import SOURCE, RunningHub, child, running_hub

QUERY = "ocean at the port"
"""No word of it stands in the sought tool."""
SERVERS = {"many": child("many_server.py", "20")}
WORDS = ("tide", "ocean", "harbour", "port", "invoice", "ticket")


@pytest.fixture(autouse=True)
def _package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))


def hub_with(path: Path | None) -> HubSettings:
    timeouts = TimeoutSettings(start_s=30, discovery_s=20, tool_s=20)
    embeddings = EmbeddingSettings(path=None if path is None else str(path))
    return HubSettings(timeouts=timeouts, approvals=ApprovalSettings(hold_s=0), embeddings=embeddings)


def write_vectors(file: Path, meanings: dict[str, str]) -> None:
    """Word vectors; `meanings` names for a word another one whose vector it has."""
    vectors = {word: vector_of(meanings.get(word, word)) for word in WORDS}
    file.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items()))


async def found(hub: RunningHub, query: str = QUERY) -> tuple[str, str]:
    """The strategy of a search after the meanings of the tools were worked out, and the first tool."""
    await hub.operate("find", query=query)
    await hub.hub_app.search.settled()
    answer = await hub.operate("find", query=query)
    return answer["search_strategy"], answer["tools"][0]["name"] if answer["tools"] else ""


async def problems(hub: RunningHub) -> list[tuple[str, str]]:
    shown = (await hub.operate("status"))["config"]["problems"]
    return [(each["message"], each["hint"]) for each in shown]


@pytest.mark.parametrize("left", [{"vocab.txt": 1}, {"vocab.txt": 0, "model.safetensors": 0}, {}])
async def test_a_damaged_installed_model_is_a_problem_before_the_first_search(
    tmp_path: Path, left: dict[str, int]
) -> None:
    folder = tmp_path / "home" / "search-model"
    folder.mkdir(parents=True)
    for name, size in left.items():
        (folder / name).write_bytes(b"x" * size)
    async with running_hub(tmp_path, SERVERS, hub=hub_with(None)) as hub:
        ((message, hint),) = await problems(hub)
        assert "found by their words" in message
        assert "search-model" in message
        assert "interlock search-model install" in hint
        assert await found(hub, "how high is the tide?") == ("keyword", "many__measure_tide_height")


async def test_a_model_with_other_bytes_of_the_same_size_is_a_problem_after_a_search(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "search-model"
    folder.mkdir(parents=True)
    for file in FILES:
        with (folder / file.name).open("wb") as sparse:
            sparse.truncate(file.size)
    async with running_hub(tmp_path, SERVERS, hub=hub_with(None)) as hub:
        assert (await found(hub, "how high is the tide?"))[0] == "keyword"
        ((message, _),) = await until(lambda: problems(hub))
        assert "as it was published; install it again" in message


async def test_a_corrected_file_is_used_by_the_next_search(tmp_path: Path) -> None:
    file = tmp_path / "words.vec"
    file.write_text("not a table\n")
    async with running_hub(tmp_path, SERVERS, hub=hub_with(file)) as hub:
        assert (await found(hub))[0] == "keyword"
        assert "line 1" in (await until(lambda: problems(hub)))[0][0]
        write_vectors(file, {})
        assert await found(hub) == ("hybrid", "many__measure_tide_height")
        assert await problems(hub) == []


async def test_vectors_of_a_file_are_not_compared_with_those_of_the_file_before(tmp_path: Path) -> None:
    file = tmp_path / "words.vec"
    write_vectors(file, {})
    async with running_hub(tmp_path, SERVERS, hub=hub_with(file)) as hub:
        assert await found(hub) == ("hybrid", "many__measure_tide_height")
        write_vectors(file, {"ocean": "invoice", "port": "invoice"})
        strategy, name = await found(hub)
        assert (strategy, "invoice" in name) == ("hybrid", True)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")
async def test_a_model_process_that_was_killed_is_started_again(tmp_path: Path) -> None:
    file = tmp_path / "words.vec"
    write_vectors(file, {})
    async with running_hub(tmp_path, SERVERS, hub=hub_with(file)) as hub:
        assert (await found(hub))[0] == "hybrid"
        pid = embedding_process(file)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not Path(f"/proc/{pid}").exists())
        again = await hub.operate("find", query="the sea and the ocean")
        assert (again["search_strategy"], again["tools"][0]["name"]) == ("hybrid", "many__measure_tide_height")
        assert await problems(hub) == []


def embedding_process(file: Path) -> int:
    """The process of the model at a path."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                command = (place / "cmdline").read_bytes()
            except OSError:
                continue
            if b"embedding_process" in command and str(file).encode() in command:
                return int(place.name)
    raise AssertionError("the model's process does not run")
