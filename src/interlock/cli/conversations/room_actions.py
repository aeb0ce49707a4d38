"""`interlock rooms create`, `call`, `propose` and `fulfil`: make a topic, and act in one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.admin.approvals import details
from interlock.cli.control.perform import Json, need_person, perform
from interlock.cli.conversations.room_connection import KEY, URL, joined, run, sent
from interlock.cli.servers.servers import config_file, config_option, read_pairs, reload_hub, show_outcome
from interlock.cli.terminal.arguments import read_arguments
from interlock.cli.terminal.call_outcomes import finish_with
from interlock.cli.terminal.failures import CommandFailure, WrongConfiguration, WrongUsage
from interlock.cli.terminal.show import bold, json_option, plain, say, show_json

if TYPE_CHECKING:
    from interlock.rooms.participant import Participant

MAX_SHOWN = 20


@click.command()
@click.argument("name")
@click.option(
    "--visibility",
    type=click.Choice(["private", "restricted", "public"]),
    default="restricted",
    show_default=True,
    help="Who may join: members, everyone with a key, or everyone.",
)
@click.option("--member", multiple=True, metavar="NAME=PROFILE", help="A profile for the holder of a key.")
@click.option(
    "--kind", multiple=True, metavar="KIND=PROFILE", help="A profile for agents, persons, services or admins."
)
@click.option("--server", "servers", multiple=True, metavar="ID", help="Let a tool server take part, as server:ID.")
@click.option("--strict", is_flag=True, help="Refuse envelopes whose kind does not match their payload.")
@config_option
@json_option
def create(
    name: str,
    visibility: Any,
    member: tuple[str, ...],
    kind: tuple[str, ...],
    servers: tuple[str, ...],
    strict: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """Add a topic to `interlock.toml`.

    Profiles are full-access, proposal-only, response-only, read-only, tool-only and those of [rooms.profiles]. You
    yourself have full access, unless --member or --kind says otherwise.

    \b
    Example:
      interlock rooms create build --member coder=proposal-only --kind person=full-access --server files
    """
    from interlock.config.edit import EditError, add_topic

    path = config_file(config)
    _check_servers(path, servers)
    members, kinds = read_pairs(member), read_pairs(kind)
    if "person" not in kinds:
        members = {_me(): "full-access", **members}
    table: Mapping[str, object] = {
        "visibility": visibility,
        "members": members,
        "kinds": kinds,
        "servers": list(servers),
        "strict": strict,
    }
    try:
        backup = add_topic(path, name, table)
    except EditError as error:
        raise WrongConfiguration(str(error), error.hint) from error
    warnings = [f"everyone in `{name}` reads the results of server:{server}" for server in servers]
    warnings += [
        _elsewhere(member_id, server)
        for member_id, profile in members.items()
        if _only_here(profile)
        for server in servers
    ]
    outcome = {"added": [name], "warnings": warnings, "path": str(path), "backup": str(backup) if backup else None}
    show_outcome({**outcome, **reload_hub(path)}, f"Added the topic `{name}` to {path}.", as_json)


def _only_here(profile: str) -> bool:
    """Whether a profile forbids its members to call tools. That holds only in the topic."""
    from interlock.protocols.mcpx.capabilities import PROFILES, CapabilitySet

    texts = PROFILES.get(profile)
    return texts is not None and not CapabilitySet(texts).covers("mcp/request:tools/call:NAME")


def _elsewhere(id: str, server: str) -> str:
    return f"{id} may call {server} at `/mcp` as before; `interlock grants deny {id} {server}` ends that"


@click.command()
@click.argument("topic")
@click.argument("tool")
@click.argument("arguments", nargs=-1)
@click.option("--to", multiple=True, metavar="ID", help="Who should carry it out, such as server:files.")
@KEY
@URL
@json_option
def propose(
    topic: str,
    tool: str,
    arguments: tuple[str, ...],
    to: tuple[str, ...],
    key: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Propose a call of a tool. Somebody who may act fulfils it.

    Arguments are key=value pairs or one JSON object, as for `interlock call`.

    \b
    Example:
      interlock rooms propose build write_file path=notes.txt content=hello --to server:files
    """
    given = read_arguments(arguments, dict)
    params = {"name": tool, "arguments": given}
    id_, absent = run(_propose(topic, params, to, key, url))
    if as_json:
        show_json({"id": id_})
        return
    say(f"Proposed as {bold(id_)}.")
    if absent:
        say(f"  → {plain(absent)}; until then nobody can fulfil it", err=True)
    elif not to:
        choose = f"`interlock rooms fulfil {plain(topic)} {id_[:8]} --to ID`"
        say(f"  → it names nobody who carries it out; a person chooses that: {choose}", err=True)


@click.command()
@click.argument("topic")
@click.argument("tool")
@click.argument("arguments", nargs=-1)
@click.option("--to", multiple=True, required=True, metavar="ID", help="Who carries it out, such as server:files.")
@click.option("--fulfils", metavar="PROPOSAL", help="The id of the proposal that this call fulfils.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 3600),
    default=120,
    show_default=True,
    help="Seconds to wait for the answer.",
)
@KEY
@URL
@json_option
def call(
    topic: str,
    tool: str,
    arguments: tuple[str, ...],
    to: tuple[str, ...],
    fulfils: str | None,
    timeout: float,
    key: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Call a tool of a participant, and wait for its answer. A call that fails ends with 1.

    \b
    Example:
      interlock rooms call build write_file path=notes.txt content=hello --to server:files
    """
    params = {"name": tool, "arguments": read_arguments(arguments, dict)}
    propose_it = f"propose it: `interlock rooms propose {topic} {tool} … --to {to[0]}`"
    result = run(_call(topic, params, to, fulfils, key, url, timeout), {"capability_violation": propose_it})
    finish_with({"result": result}, as_json=result if as_json else None)


@click.command()
@click.argument("topic")
@click.argument("proposal")
@click.option("--to", multiple=True, metavar="ID", help="Who should carry it out, where the proposal names nobody.")
@click.option("--always", is_flag=True, help="Also fulfil this exact proposal of this proposer in the future.")
@json_option
def fulfil(topic: str, proposal: str, to: tuple[str, ...], always: bool, as_json: bool) -> None:
    """Fulfil a proposal in your name. It shows the proposal in full and asks. Needs a terminal.

    The first characters of the proposal's id are enough. A call that fails ends with 1.

    \b
    Example:
      interlock rooms fulfil build 5c1f
    """
    need_person("fulfil proposals")
    found = perform("approvals.show", {"id": _decision(topic, proposal)})
    details(found["decision"], found["view"] or "")
    click.confirm("Fulfil it?", default=False, abort=True, err=True)
    given = {"id": found["decision"]["id"], "answer": "always" if always else "once", "view": found["view_hash"]}
    done = perform("approvals.answer", {**given, "to": to, "terminal": True}, timeout=60)
    finish_with(done["response"], as_json=done if as_json else None)


def open_proposals(topic: str) -> list[Json]:
    """The approval requests of the topic's open proposals."""
    return [row for row in perform("approvals.list")["decisions"] if row["server"] == f"room:{topic}"]


def _decision(topic: str, proposal: str) -> str:
    rows = open_proposals(topic)
    found = [row for row in rows if row["proposal"].startswith(proposal)]
    if len(found) > 1:
        raise WrongUsage(f"{len(found)} open proposals in {topic} begin with {proposal!r}", "write more of the id")
    if not found:
        ids = ", ".join(row["proposal"] for row in rows[:MAX_SHOWN])
        hint = f"open: {ids}" if ids else f"no proposal is open in {topic}; it may be fulfilled, rejected or expired"
        raise WrongUsage(f"no open proposal in {topic} begins with {proposal!r}", hint)
    return str(found[0]["id"])


def _me() -> str:
    from interlock.config.home import user_name
    from interlock.hub.auth.principals import local_person

    return local_person(user_name()).id


def _check_servers(path: Path, servers: tuple[str, ...]) -> None:
    """Refuse a server that is not configured: it could never take part."""
    from interlock.config.load import load

    known = load(path).config.servers if servers and path.exists() else {}
    for name in servers:
        if name not in known:
            configured = f"configured: {', '.join(known)}" if known else "add it first, with `interlock add`"
            raise WrongUsage(f"there is no server `{name}`", configured)


async def _propose(
    topic: str, params: dict[str, Any], to: tuple[str, ...], key: str | None, url: str | None
) -> tuple[str, str]:
    """The id of the proposal, and who is not there to carry it out."""
    async with await asyncio.to_thread(joined, topic, key, url) as me:
        id_ = await me.propose("tools/call", params, to)
        absent = _absent(me, topic, to) if to else ""
    return await sent(me, id_), absent


async def _call(
    topic: str,
    params: dict[str, Any],
    to: tuple[str, ...],
    fulfils: str | None,
    key: str | None,
    url: str | None,
    timeout: float,
) -> Any:
    async with await asyncio.to_thread(joined, topic, key, url) as me:
        if absent := _absent(me, topic, to):
            raise CommandFailure(absent, "name somebody who is there with --to")
        return await me.request("tools/call", params, to, fulfils=fulfils, timeout=timeout)


def _absent(me: Participant, topic: str, to: tuple[str, ...]) -> str:
    """A sentence that nobody of `to` is in the topic, and who is; empty if one of them is."""
    if any(id_ in me.participants for id_ in to):
        return ""
    here = ", ".join(sorted(me.participants)[:MAX_SHOWN]) or "nobody"
    return f"{', '.join(to)} is not in {topic}; here: {here}"
