"""`interlock rooms`: list topics, take part in one from the terminal, and change what participants may send."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from interlock.cli.control.perform import Json, performs, say_rows
from interlock.cli.conversations.room_actions import call, create, fulfil, open_proposals, propose
from interlock.cli.conversations.room_connection import KEY, URL, joined, run, sent
from interlock.cli.terminal.call_outcomes import MAX_SHOWN_CHARS, outcome_line
from interlock.cli.terminal.failures import CommandFailure, WrongUsage
from interlock.cli.terminal.show import bold, coloured, counted, json_option, one_line, plain, say, show_json

if TYPE_CHECKING:
    from interlock.protocols.mcpx.envelopes import Envelope
    from interlock.rooms.participant import Participant

TO = click.option("--to", multiple=True, metavar="ID", help="Address a participant; repeat it for several.")


@click.group()
def rooms() -> None:
    """Take part in topics that agents and people share.

    Topics are in `interlock.toml`, as [rooms.topics.NAME]. At the terminal you are `person:` and your user name.

    \b
    Example:
      interlock rooms join build
    """


@rooms.command("list")
@performs("rooms.list", "rooms")
@click.argument("topic", required=False)
def list_(rows: list[Json], topic: str | None) -> None:
    """List topics and who is there.

    \b
    Example:
      interlock rooms list
    """
    none = "There are no topics. → `interlock rooms create NAME` makes one"
    say_rows(rows, _row, none)
    for row in rows:
        for one in row["participants"] if topic else ():
            say(f"  {bold(plain(one['id']))} {plain(', '.join(one['capabilities']))}")


@rooms.command()
@performs("rooms.capabilities")
@click.argument("id")
@click.option("--topic", metavar="NAME", help="The topic, where the participant is in several.")
@click.option("--add", multiple=True, metavar="CAPABILITY", help="Add this one, such as mcp/request:tools/*.")
@click.option("--remove", multiple=True, metavar="CAPABILITY", help="Remove this one, exactly as it is listed.")
def capabilities(changed: Json, id: str, topic: str | None, **_: Any) -> None:
    """Change what a participant may send. It holds at once and after restarts. --add needs a terminal.

    \b
    Example:
      interlock rooms capabilities coder --add "mcp/request:tools/*"
    """
    say(f"{plain(id)} may now send in {plain(changed['topic'])}: {plain(', '.join(changed['newCapabilities']))}")


@rooms.command()
@performs("rooms.mode")
@click.argument("id")
@click.argument("mode", type=click.Choice(["all", "directed"]))
@click.option("--topic", metavar="NAME", help="The topic, where the participant is in several.")
def mode(changed: Json, id: str, mode: str, topic: str | None) -> None:
    """Choose which envelopes a connected participant receives: all, or broadcasts and its own.

    \b
    Example:
      interlock rooms mode coder directed
    """
    say(f"{plain(id)} now receives in {plain(changed['topic'])}: {changed['mode']}")


@rooms.command("say")
@click.argument("topic")
@click.argument("text")
@TO
@KEY
@URL
@json_option
def say_(topic: str, text: str, to: tuple[str, ...], key: str | None, url: str | None, as_json: bool) -> None:
    """Say something in a topic.

    \b
    Example:
      interlock rooms say build "The tests are green again."
    """
    id_, here = run(_say(topic, text, to, key, url))
    if as_json:
        show_json({"id": id_})
        return
    absent = [each for each in to if each not in here]
    if absent:
        say(f"  → {plain(', '.join(absent))} is not in `{plain(topic)}` now", err=True)
    elif not [each for each in here if not each.startswith("system:")]:
        say(f"  → nobody else is in `{plain(topic)}` now; `interlock rooms list` shows who is where", err=True)


@rooms.command()
@click.argument("topic")
@click.option("--count", type=click.IntRange(1), help="Stop after so many messages.")
@KEY
@URL
@json_option
def watch(topic: str, count: int | None, key: str | None, url: str | None, as_json: bool) -> None:
    """Show who is in a topic and what happens there, live; stop with Ctrl-C.

    \b
    Example:
      interlock rooms watch build
    """
    run(_watch(topic, count, as_json, key, url))


@rooms.command()
@click.argument("topic")
@KEY
@URL
@json_option
def join(topic: str, key: str | None, url: str | None, as_json: bool) -> None:
    """Talk in a topic: each line you type is said there. End with Ctrl-D.

    A line `/fulfil PROPOSAL TARGET` sends the proposed request to a participant in your name, and
    `/reject PROPOSAL REASON` says no to it. The first characters of a proposal's id are enough.

    \b
    Example:
      interlock rooms join build
    """
    run(_Talk(topic, key, url, as_json).run())


async def _say(
    topic: str, text: str, to: tuple[str, ...], key: str | None, url: str | None
) -> tuple[str, tuple[str, ...]]:
    """Say something. Returns the id of the envelope, and the other participants at that time."""
    async with await asyncio.to_thread(joined, topic, key, url) as me:
        here = tuple(me.participants)
        id_ = await me.chat(text, to)
    return await sent(me, id_), here


async def _watch(topic: str, count: int | None, as_json: bool, key: str | None, url: str | None) -> None:
    shown = 0
    async with await asyncio.to_thread(joined, topic, key, url) as me:
        if not as_json:
            say(f"You are {plain(me.id)}, with {counted(len(me.participants), 'other participant')}.", err=True)
            for id_, texts in me.participants.items():
                say(f"  {bold(plain(id_))} {plain(', '.join(texts))}")
            for row in () if key is not None else await asyncio.to_thread(open_proposals, topic):
                say(f"{bold(plain(row['asker']))} {coloured('proposed', 'yellow')} {plain(row['proposal'])}")
                say(f"    {plain(row['name'])} {one_line(row['summary'], MAX_SHOWN_CHARS)}")
        async for envelope in me:
            if as_json:
                click.echo(envelope.raw)
            elif envelope.kind.text != "system/welcome":
                say(_line(envelope))
            shown += 1
            if shown == count:
                return


class _Talk:
    """A person at the terminal in a topic."""

    def __init__(self, topic: str, key: str | None, url: str | None, as_json: bool) -> None:
        self._joining = topic, key, url
        self._as_json = as_json
        self._proposals: dict[str, Envelope] = {}

    async def run(self) -> None:
        async with await asyncio.to_thread(joined, *self._joining, separate=False) as me:
            others = ", ".join(sorted(me.participants)) or "nobody else"
            say(f"You are {bold(plain(me.id))}; here: {plain(others)}. Type a line to say it.", err=True)
            showing = asyncio.create_task(self._show(me))
            try:
                while line := await asyncio.to_thread(sys.stdin.readline):
                    if showing.done():
                        break
                    await self._do(me, line.strip())
            finally:
                showing.cancel()
            if me.ended is not None:
                raise CommandFailure(me.ended.message, "join again")

    async def _show(self, me: Participant) -> None:
        async for envelope in me:
            if envelope.kind.type == "mcp/proposal":
                self._proposals[envelope.id] = envelope
                while len(self._proposals) > 256:
                    del self._proposals[next(iter(self._proposals))]
            if self._as_json:
                click.echo(envelope.raw)
            elif envelope.kind.text != "system/welcome":
                say(_line(envelope))

    async def _do(self, me: Participant, line: str) -> None:
        from interlock.rooms.errors import RoomError

        try:
            if line.startswith("/fulfil "):
                await self._fulfil(me, line)
            elif line.startswith("/reject "):
                _, id_, *reason = line.split(maxsplit=2)
                await me.reject(self._found(id_).id, " ".join(reason))
            elif line:
                await me.chat(line)
        except (RoomError, WrongUsage) as error:
            say(coloured(plain(error.message), "red"), err=True)

    async def _fulfil(self, me: Participant, line: str) -> None:
        parts = line.split()
        if len(parts) != 3:
            raise WrongUsage("`/fulfil` needs a proposal and a target", "write /fulfil PROPOSAL TARGET")
        proposal = self._found(parts[1])
        payload = msgspec.json.decode(proposal.payload)
        result = await me.request(payload["method"], payload.get("params", {}), [parts[2]], fulfils=proposal.id)
        say(outcome_line({"result": result}))

    def _found(self, id: str) -> Envelope:
        found = [one for one in self._proposals.values() if one.id.startswith(id)]
        if len(found) != 1:
            raise WrongUsage(f"{counted(len(found), 'proposal')} begin with {id!r}", "write more of the id")
        return found[0]


def _line(envelope: Envelope) -> str:
    """One envelope for the terminal. Proposals show all of what they propose, up to a bound."""
    to = f" → {', '.join(envelope.to)}" if envelope.to else ""
    who = f"{bold(plain(envelope.sender))}{plain(to)}"
    payload = msgspec.json.decode(envelope.payload)
    match envelope.kind.type:
        case "chat":
            return f"{who}: {one_line(payload['text'], MAX_SHOWN_CHARS)}"
        case "system/presence":
            event = "joined" if payload["event"] == "join" else "left"
            return f"{bold(plain(payload['participant']['id']))} {event}"
        case "mcp/withdraw" | "mcp/reject":
            word, why = envelope.kind.type.removeprefix("mcp/"), payload.get("reason")
            because = f": {one_line(str(why), MAX_SHOWN_CHARS)}" if why else ""
            return f"{who} {coloured(f'{word}s', 'yellow')} {plain(envelope.correlation_id or '')}{because}"
        case "mcp/request" if envelope.correlation_id:
            done = (
                f"{coloured('fulfils', 'green')} {plain(envelope.correlation_id)} with {plain(envelope.kind.operation)}"
            )
            return f"{who} {done}\n    {one_line(msgspec.json.encode(payload).decode(), MAX_SHOWN_CHARS)}"
        case "system/error":
            return coloured(plain(f"{payload['error']}: {payload['message']}"), "red")
    shown = one_line(msgspec.json.encode(payload).decode(), MAX_SHOWN_CHARS)
    return f"{who} {coloured(plain(envelope.kind.text), 'yellow')} {plain(envelope.id)}\n    {shown}"


def _row(row: Json) -> tuple[str, ...]:
    return (
        bold(plain(row["topic"])),
        row["visibility"],
        "strict" if row["strict"] else "",
        counted(len(row["participants"]), "participant"),
        counted(row["open_proposals"], "open proposal"),
        plain(", ".join(f"server:{name}" for name in row["servers"])),
    )


for command in (create, call, propose, fulfil):
    rooms.add_command(command)
