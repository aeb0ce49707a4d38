"""`[rooms]` is checked when it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.config.load import load

GOOD = """
[rooms.profiles]
builder = ["mcp/request:tools/*", "chat"]

[rooms.topics.build]
visibility = "restricted"
members = { coder = "builder", boss = "full-access" }
kinds = { person = "full-access" }
strict = true
proposals = "agents"
[rooms.topics.build.rate]
per_minute = 10
"""


def loaded(tmp_path: Path, text: str) -> tuple[list[str], object]:
    path = tmp_path / "interlock.toml"
    path.write_text(text)
    found = load(path, home=tmp_path / "home", environ={})
    return [problem.message for problem in found.problems], found.config.rooms


def test_topics_and_profiles_are_read(tmp_path: Path) -> None:
    problems, rooms = loaded(tmp_path, GOOD)
    assert problems == []
    topic = rooms.topics["build"]  # type: ignore[attr-defined]
    assert (topic.visibility, topic.strict, topic.proposals, topic.rate.per_minute) == (
        "restricted",
        True,
        "agents",
        10,
    )
    assert topic.members == {"coder": "builder", "boss": "full-access"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[rooms.topics.build]\nvisibility = "hidden"', 'must be one of "public", "private", "restricted"'),
        ('[rooms.topics.build]\nprofile = "builders"', "there is no profile `builders`"),
        ('[rooms.topics.build]\nmembers = { coder = "x" }', "there is no profile `x`"),
        ('[rooms.topics.build]\nmembers = { "system:gateway" = "full-access" }', "cannot be a member"),
        ('[rooms.topics.build]\nmembers = { "server:files" = "full-access" }', "cannot be a member"),
        ('[rooms.topics.build]\nkinds = { person = "full-access" }', "no use in a private topic"),
        ('[rooms.topics.build]\nkinds = { robot = "full-access" }', "`kinds`"),
        ('[rooms.topics."a/b"]', "the name `a/b` in [rooms.topics]"),
        ("[rooms.topics.build]\nparticipants = 0", "`participants`"),
        ("[rooms.topics.build]\nstrickt = true", "did you mean `strict`?"),
        ('[rooms.profiles]\nfull-access = ["chat"]', "is built in"),
        ('[rooms.profiles]\nmine = ["system/*"]', "the profile `mine` is not valid"),
        ("rooms = 3", "`rooms` must be a table"),
        ("[rooms]\ntopics = 3", "`topics` must be tables"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    problems, _ = loaded(tmp_path, text)
    assert any(said in problem for problem in problems), problems
