"""`interlock rooms create`, `call`, `propose` and `fulfil`: make a topic, and act in one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from .approvals import details
from .arguments import read_arguments
from .failures import WrongConfiguration, WrongUsage
from .perform import need_person, perform
from .room_connection import KEY, URL, joined, run, sent
from .servers import config_file, config_option, read_pairs, reload_hub, show_outcome
from .show import as_dict, bold, coloured, json_option, one_line, plain, say, show_json

MAX_SHOWN_CHARS = 2_000
CALL_S = 600.0
"""How long `call` waits for an answer."""


@click.command()
@click.argument("name")
@click.option(
    "--visibility",
    type=click.Choice(["private", "restricted", "public"]),
    default="restricted",
    show_default=True,
    help="Who may join: members, everyone with a key, or everyone.",
)
@click.option("--member", multiple=True, metavar="NAME=PROFILE", help="What the holder of a key may send.")
@click.option(
    "--kind", multiple=True, metavar="KIND=PROFILE", help="What agents, persons, services or admins may send."
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

    Profiles are full-access, proposal-only, response-only, read-only, tool-only and those of [rooms.profiles].

    \b
    Example:
      interlock rooms create build --member coder=proposal-only --kind person=full-access --server files
    """
    from interlock.config.edit import EditError, add_topic

    table: Mapping[str, object] = {
        "visibility": visibility,
        "members": read_pairs(member),
        "kinds": read_pairs(kind),
        "servers": list(servers),
        "strict": strict,
    }
    path = config_file(config)
    try:
        backup = add_topic(path, name, table)
    except EditError as error:
        raise WrongConfiguration(str(error), error.hint) from error
    told = [f"everyone in `{name}` reads the results of server:{server}" for server in servers]
    outcome = {"added": [name], "warnings": told, "path": str(path), "backup": str(backup) if backup else None}
    show_outcome({**outcome, **reload_hub(path)}, f"Added the topic `{name}` to {path}.", as_json)


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
    id_ = run(_propose(topic, params, to, key, url))
    if as_json:
        show_json({"id": id_})
    else:
        say(f"Proposed as {bold(id_)}.")


@click.command()
@click.argument("topic")
@click.argument("tool")
@click.argument("arguments", nargs=-1)
@click.option("--to", multiple=True, required=True, metavar="ID", help="Who carries it out, such as server:files.")
@click.option("--fulfils", metavar="PROPOSAL", help="The id of the proposal that this call fulfils.")
@KEY
@URL
@json_option
def call(
    topic: str,
    tool: str,
    arguments: tuple[str, ...],
    to: tuple[str, ...],
    fulfils: str | None,
    key: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Call a tool of a participant, and wait for its answer.

    \b
    Example:
      interlock rooms call build write_file path=notes.txt content=hello --to server:files
    """
    params = {"name": tool, "arguments": read_arguments(arguments, dict)}
    result = run(_call(topic, params, to, fulfils, key, url))
    if as_json:
        show_json(result)
        return
    _say_result(result)


@click.command()
@click.argument("topic")
@click.argument("proposal")
@click.option("--to", multiple=True, metavar="ID", help="Who should carry it out, where the proposal names nobody.")
@click.option("--always", is_flag=True, help="Also fulfil this exact proposal of this proposer in the future.")
@json_option
def fulfil(topic: str, proposal: str, to: tuple[str, ...], always: bool, as_json: bool) -> None:
    """Fulfil a proposal in your name. It shows the proposal in full and asks. Needs a terminal.

    The first characters of the proposal's id are enough.

    \b
    Example:
      interlock rooms fulfil build 5c1f
    """
    need_person()
    found = perform("approvals.show", {"id": _decision(topic, proposal)})
    details(found["decision"], found["view"] or "")
    click.confirm("Fulfil it?", default=False, abort=True, err=True)
    given = {"id": found["decision"]["id"], "answer": "always" if always else "once", "view": found["view_hash"]}
    done = perform("approvals.answer", {**given, "to": to, "terminal": True}, timeout=60)
    if as_json:
        show_json(done)
        return
    response = done["response"]
    if response is None:
        say("Sent. No answer came yet; the room will have it.")
    elif "error" in response:
        say(f"{coloured('failed', 'red')} {one_line(str(response['error'].get('message')), 400)}")
    else:
        _say_result(response["result"])


def _say_result(result: Any) -> None:
    """Print the texts of a tool's result, or all of another result."""
    found = as_dict(result)
    blocks = found.get("content") or []
    texts = [block["text"] for block in blocks if as_dict(block).get("type") == "text"]
    said = "\n".join(texts) if texts and len(texts) == len(blocks) else msgspec.json.encode(result).decode()
    word = coloured("failed", "red") if found.get("isError") else coloured("done", "green")
    say(f"{word} {one_line(said, MAX_SHOWN_CHARS)}")


def _decision(topic: str, proposal: str) -> str:
    rows = perform("approvals.list")["decisions"]
    found = [row for row in rows if row["server"] == f"room:{topic}" and row["proposal"].startswith(proposal)]
    if len(found) != 1:
        raise WrongUsage(
            f"{len(found)} open proposals in {plain(topic)} begin with {proposal!r}", "write more of the id"
        )
    return str(found[0]["id"])


async def _propose(topic: str, params: dict[str, Any], to: tuple[str, ...], key: str | None, url: str | None) -> str:
    async with await asyncio.to_thread(joined, topic, key, url) as me:
        id_ = await me.propose("tools/call", params, to)
    return await sent(me, id_)


async def _call(
    topic: str, params: dict[str, Any], to: tuple[str, ...], fulfils: str | None, key: str | None, url: str | None
) -> Any:
    async with await asyncio.to_thread(joined, topic, key, url) as me:
        return await me.request("tools/call", params, to, fulfils=fulfils, timeout=CALL_S)
