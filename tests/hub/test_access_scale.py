"""Very many grants: each question still looks at a handful, and a change of one agent's leaves others' lists alone."""

from __future__ import annotations

from interlock.hub.auth.grants import GRANTS, Grant, Grants, grant_id
from interlock.store import Mirror
from interlock.store.documents import Change


def change(agent: str, tool: str | None, permission: str, version: int = 1, *, gone: bool = False) -> Change:
    id_ = grant_id(agent, "s", tool, permission)  # type: ignore[arg-type]
    kind = "server_grant" if tool is None else "tool_grant"
    grant = Grant(kind, agent, "s", permission, tool, id=id_)  # type: ignore[arg-type]
    return Change(GRANTS.name, id_, version, version, None if gone else GRANTS.encode(grant))


def test_a_question_looks_at_four_entries_at_most_however_many_there_are() -> None:
    mirror, grants, heard = Mirror(GRANTS), Grants(), []
    grants.follow(mirror, lambda: heard.append(1))
    for number in range(20_000):
        mirror.apply(change("busy", f"tool{number}", "allow"))
    for tool in ("tool7", None):
        mirror.apply(change("busy", tool, "deny"))
    mirror.apply(change("busy", None, "allow"))
    assert len(grants.list()) == 20_003
    assert len(heard) == 20_003
    assert len(grants.at("busy", "s", "tool7")) == 4
    assert len(grants.at("busy", "s", "tool8")) == 3
    assert grants.at("other", "s", "tool7") == ()
    assert grants.revision("other") == 0
    before = grants.revision("busy")
    mirror.apply(change("busy", "tool7", "deny", 2, gone=True))
    assert grants.revision("busy") > before
    assert {grant.permission for grant in grants.at("busy", "s", "tool7") if grant.tool_name} == {"allow"}
