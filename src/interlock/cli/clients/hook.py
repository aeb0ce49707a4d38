"""`interlock hook`: Claude Code runs it when its user sends a prompt, and reads the events that wait for it.

It fails open: without a hub, without events, or when the time is up, the prompt goes on as it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from interlock.cli.terminal.failures import Failure
from interlock.cli.terminal.show import as_dict, say

REACH_S = 0.05
"""How long a prompt waits for a hub to greet."""
ANSWER_S = 3.0
"""How long it waits for the events of a hub that greeted: those are handed out once."""
MAX_EVENTS = 5
MAX_CHARS = 9_000
"""Claude Code shows its model up to 10,000 characters of a hook's context."""
READ_AGAIN = "call read_events with `again` to read them"


@click.command()
@click.argument("name", metavar="CLIENT", type=click.Choice(["claude-code"]))
def hook(name: str) -> None:
    """Print the events that wait for a client, for its next turn.

    Claude Code runs this command after `interlock connect claude-code --live`. It never fails and asks for nothing: if
    no hub greets within 50 ms, the prompt goes on without events. A hub that greeted has 3 s to hand them over.

    \b
    Example:
      interlock hook claude-code
    """
    if text := _waiting_events(name):
        added = {"hookEventName": "UserPromptSubmit", "additionalContext": text}
        say(json.dumps({"hookSpecificOutput": added}))


def _waiting_events(name: str) -> str:
    """The events that wait for a client, as its model reads them; empty if there are none, or no hub answers."""
    from interlock.cli.clients.clients import client
    from interlock.cli.clients.connect import existing_entry
    from interlock.cli.control.hub_link import HubError, HubLink

    sent = False
    try:
        env = as_dict((existing_entry(client(name)) or {}).get("env"))
        key, home = env.get("INTERLOCK_KEY"), env.get("INTERLOCK_HOME")
        if not isinstance(key, str):
            return ""
        with HubLink.open(Path(str(home)) if home else None, role="stdio", key=key, timeout=REACH_S) as link:
            sent = True
            answer = link.ask("tools/call", _READ, timeout=ANSWER_S)
    except HubError:
        return ""  # nothing is enabled for this client, or its rate is used up
    except (Failure, OSError, ValueError):
        # The hub may have handed out events that did not arrive in time.
        return f"[Events may wait: the hub did not answer in time. If this matters, {READ_AGAIN}.]" if sent else ""
    return _text(answer)


_READ: dict[str, Any] = {
    "name": "read_events",
    "arguments": {"max_events": MAX_EVENTS},
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "interlock-hook", "version": "1"},
    },
}


def _text(result: dict[str, Any]) -> str:
    """The texts of a result, within the bound. A refusal is no event."""
    content = result.get("content")
    if result.get("isError") or not isinstance(content, list):
        return ""
    text = "\n\n".join(str(as_dict(block).get("text", "")) for block in content)
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}\n[Cut here: {READ_AGAIN} whole.]"
