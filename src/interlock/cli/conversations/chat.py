"""`interlock chat` and `interlock conversations`: talk to a model that uses the hub's tools."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from interlock.cli.control.hub_link import HubLink
from interlock.cli.control.perform import Json, perform, performs, say_rows
from interlock.cli.terminal.failures import CommandFailure, WrongUsage
from interlock.cli.terminal.show import (
    bold,
    coloured,
    counted,
    is_attended,
    json_option,
    one_line,
    plain,
    say,
)

READ_S = 20.0
"""How long one request for the next pieces waits."""
SHOWN_CHARS = 160


@click.command()
@click.argument("message", required=False)
@click.option("-c", "--conversation", metavar="ID", help="Continue this conversation.")
@click.option("-m", "--model", metavar="NAME", help="A model of [models]; else the one of [host].")
@click.option("--agent", metavar="NAME", help="The agent whose rights a new conversation has; else `local`.")
@json_option
def chat(message: str | None, conversation: str | None, model: str | None, agent: str | None, as_json: bool) -> None:
    """Talk to a model that uses the tools of the hub.

    On a terminal, it asks for messages until you end it with Ctrl-D. In a pipe, the input is one message. Tool calls
    pass the same checks as those of any agent; approval requests wait in `interlock watch`. With `--json` it prints
    each piece of the answer as a line of JSON.

    \b
    Example:
      interlock chat "Which of my notes mention the tide?"
    """
    with HubLink.open() as link:
        talk = _Talk(link, {"conversation": conversation, "model": model, "agent": agent}, as_json)
        if message is not None:
            if not message.strip():
                raise WrongUsage("the message is empty", 'write one: interlock chat "…", or pipe it in')
            talk.say(message)
        elif not is_attended():
            text = sys.stdin.read().strip()
            if not text:
                raise WrongUsage("there is no message", 'write one: interlock chat "…", or pipe it in')
            talk.say(text)
        else:
            talk.converse()


class _Talk:
    """One run of the command: the conversation that it began or continues."""

    def __init__(self, link: HubLink, begins: Json, as_json: bool) -> None:
        self._link = link
        self._params = begins
        self._as_json = as_json
        self._in_line = False
        """Whether text of the answer stands in the current line."""

    def converse(self) -> None:
        """Ask a person for messages until the end of input."""
        say("Write a message; end with Ctrl-D.", err=True)
        while True:
            try:
                click.echo(bold("> ", err=True), nl=False, err=True)
                text = input().strip()
            except EOFError:
                break
            if text:
                try:
                    self.say(text)
                except CommandFailure as failure:
                    failure.show()
        if self._params["conversation"]:
            say(f"\nGo on with: interlock chat --conversation {self._params['conversation']}", err=True)

    def say(self, text: str) -> None:
        """Send a message, and print the answer as it comes."""
        params = {name: value for name, value in {**self._params, "text": text}.items() if value is not None}
        sent = self._link.ask("hub/chat.send", params)
        self._params = {"conversation": sent["conversation"], "model": None, "agent": None}
        if self._as_json:
            self._line({"kind": "turn", **sent})
        at, ended = 0, False
        while not ended:
            try:
                turn = {"conversation": sent["conversation"], "turn": sent["turn"], "after": at, "wait_s": READ_S}
                found = self._link.ask("hub/chat.read", turn, timeout=READ_S + 30)
            except KeyboardInterrupt:
                # The old connection would still get the answer to the interrupted request.
                self._link = HubLink.open()
                self._link.ask("hub/chat.stop", {"id": sent["conversation"]})
                continue
            for piece in found["pieces"]:
                self._line(piece) if self._as_json else self._print(piece)
            at, ended = at + len(found["pieces"]), found["ended"]
        last = found["pieces"][-1] if found["pieces"] else {}
        if last.get("kind") == "error":
            raise CommandFailure(f"{last['name']}: {last['text']}")
        if not self._as_json and not is_attended():
            hint = f"conversation {sent['conversation']}, {counted(last['output_tokens'], 'token')}"
            say(hint, err=True)

    def _print(self, piece: Json) -> None:
        kind, text = piece["kind"], piece["text"]
        if kind == "text":
            click.echo(plain(text), nl=False)
            self._in_line = True
        elif kind != "thinking" and self._in_line:
            say()
            self._in_line = False
        if kind == "tool":
            say(coloured(f"· {plain(piece['name'])} {one_line(text, SHOWN_CHARS)}", "cyan", err=True), err=True)
        elif kind == "result":
            colour = "red" if piece["failed"] else "green"
            say(coloured(f"  {one_line(text, SHOWN_CHARS)}", colour, err=True), err=True)
        elif kind == "approval":
            say(
                coloured(f"  waits for approval {plain(piece['name'])}; see `interlock watch`", "yellow", err=True),
                err=True,
            )

    def _line(self, piece: Json) -> None:
        say(json.dumps(piece, ensure_ascii=False))


@click.group(invoke_without_command=True)
@click.option("--agent", metavar="NAME", help="Only the conversations of this agent.")
@json_option
@click.pass_context
def conversations(ctx: click.Context, agent: str | None, as_json: bool) -> None:
    """List, show and delete conversations with models.

    Without a command, it lists them, newest first. `interlock chat --conversation ID` continues one.

    \b
    Example:
      interlock conversations
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, agent=agent, as_json=as_json)


@conversations.command("list")
@performs("conversations.list")
@click.option("--agent", metavar="NAME", help="Only the conversations of this agent.")
def list_(found: Json, agent: str | None) -> None:
    """List conversations with models, newest first.

    \b
    Example:
      interlock conversations list --agent cursor
    """
    say_rows(found["conversations"], _conversation, "There are no conversations.")


def _whole(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """The full id of the conversation whose id begins with these characters."""
    ids = [str(row["id"]) for row in perform("conversations.list")["conversations"]]
    found = [id_ for id_ in ids if id_.startswith(value)]
    if len(found) > 1 and value not in found:
        raise WrongUsage(f"{len(found)} conversations begin with {value!r}", "write more of the id")
    return found[0] if len(found) == 1 else value


@conversations.command()
@performs("conversations.show")
@click.argument("id", callback=_whole)
def show(found: Json, id: str) -> None:
    """Print everything that was said in a conversation. The first characters of its id are enough.

    \b
    Example:
      interlock conversations show conv_5a1f…
    """
    for turn in found["turns"]:
        say(coloured(f"{turn['at'][:19].replace('T', ' ')} {plain(turn['model'])} {turn['inference']}", "blue"))
        for message in turn["messages"]:
            name = f" {plain(message['name'])}" if message["name"] else ""
            name = f" by{name}" if message["role"] == "injected" else name
            say(f"{bold(message['role'] + name)}: {plain(message['text'])}")
        if turn["error"]:
            say(coloured(plain(turn["error"]), "red"))


@conversations.command()
@performs("conversations.delete")
@click.argument("id", callback=_whole)
def delete(done: Json, id: str) -> None:
    """Delete a conversation and everything that was said in it.

    \b
    Example:
      interlock conversations delete conv_5a1f…
    """
    if not done["deleted"]:
        raise CommandFailure(f"there is no conversation {plain(id)}", "`interlock conversations` lists them")
    say(f"Deleted {plain(id)}.")


def _conversation(row: dict[str, Any]) -> tuple[str, ...]:
    when = str(row["updated"])[:16].replace("T", " ")
    return bold(row["id"]), plain(row["agent"]), plain(row["model"]), counted(row["turns"], "turn"), when
