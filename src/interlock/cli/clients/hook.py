"""`interlock hook`: Claude Code runs it when its user sends a prompt and when it has answered.

With a prompt, it prints the context that servers add and the events that wait. After an answer, it tells the hub and
prints nothing: a printed decision could make Claude Code continue for ever. It fails open: without a hub, or when the
time is up, Claude Code continues as without a hook.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.terminal.failures import CommandFailure
from interlock.cli.terminal.show import as_dict, say

if TYPE_CHECKING:
    from interlock.cli.control.hub_link import HubLink

PROMPT = "UserPromptSubmit"
"""Events are handed out only with a prompt. With other inputs, the model would not see them."""
REACH_S = 0.05
"""How long the hook waits for the hub's greeting, and after an answer for the hub's receipt."""
CONTEXT_S = 2.0
"""How long a prompt waits for the context of servers, once a hub greeted."""
ANSWER_S = 2.5
"""How long a prompt waits for events. It is longer, because events are handed out only once."""
MAX_EVENTS = 5
MAX_CHARS = 9_000
"""Claude Code shows its model up to 10,000 characters of a hook's context."""
MAX_INPUT = 4 * 1024 * 1024
MAX_TRANSCRIPT = 1024 * 1024
"""Bytes at the end of a transcript in which the last answer is searched."""
READ_AGAIN = "call read_events with `again` to read them"


@click.command()
@click.argument("name", metavar="CLIENT", type=click.Choice(["claude-code"]))
def hook(name: str) -> None:
    """Print what servers add to a client's next turn, or tell them of its answer.

    Claude Code runs this command after `interlock connect claude-code --live`, and says on standard input what
    happened. It never fails and asks for nothing: if no hub greets within 50 ms, Claude Code goes on without it. A hub
    that greeted has 4.5 s for the context and the events of a prompt.

    \b
    Example:
      interlock hook claude-code
    """
    event = _input()
    if event.get("hook_event_name") == "Stop":
        _tell(name, event)
    elif event.get("hook_event_name") == PROMPT and (text := _context(name, event)):
        added = {"hookEventName": PROMPT, "additionalContext": text}
        say(json.dumps({"hookSpecificOutput": added}))


def _input() -> dict[str, Any]:
    """The JSON that Claude Code writes; empty at a terminal, and for any other input."""
    try:
        if sys.stdin.isatty():
            return {}
        return as_dict(json.loads(sys.stdin.buffer.read(MAX_INPUT)))
    except (OSError, ValueError, RecursionError):
        return {}


def _link(name: str) -> HubLink | None:
    """A connection with this client's key; None if it has none. Raises CommandFailure, OSError and ValueError."""
    from interlock.cli.clients.clients import client
    from interlock.cli.clients.connect import existing_entry
    from interlock.cli.control.hub_link import HubLink

    env = as_dict((existing_entry(client(name)) or {}).get("env"))
    key, home = env.get("INTERLOCK_KEY"), env.get("INTERLOCK_HOME")
    if not isinstance(key, str):
        return None
    return HubLink.open(Path(str(home)) if home else None, role="stdio", key=key, timeout=REACH_S)


# With a prompt


def _context(name: str, event: dict[str, Any]) -> str:
    """The context for a prompt; empty if there is none, or no hub answers."""
    try:
        link = _link(name)
    except (CommandFailure, OSError, ValueError):
        return ""
    if link is None:
        return ""
    with link:
        texts = [text for text in (_added(link, event), _events(link)) if text]
    text = "\n\n".join(texts)
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}\n[Cut here: {READ_AGAIN} whole.]"


def _added(link: HubLink, event: dict[str, Any]) -> str:
    """The context of servers that may see this client's prompts."""
    conversation, prompt = event.get("session_id"), event.get("prompt")
    if not isinstance(conversation, str) or not isinstance(prompt, str):
        return ""
    params = {"conversationId": conversation, "userMessage": prompt, **_META}
    try:
        answer = link.ask("context/beforeInference", params, timeout=CONTEXT_S)
    except (CommandFailure, OSError, ValueError):
        return ""
    found = answer.get("contextInjections")
    return "\n".join(str(as_dict(each).get("content", "")) for each in found) if isinstance(found, list) else ""


def _events(link: HubLink) -> str:
    """The events that wait for this client, as its model reads them."""
    from interlock.cli.control.hub_link import HubError

    try:
        answer = link.ask("tools/call", _READ, timeout=ANSWER_S)
    except HubError:
        return ""  # No feature set is on for this client, or its rate is used up.
    except (CommandFailure, OSError, ValueError):
        # The hub may have handed out events that did not arrive in time.
        return f"[Events may wait: the hub did not answer in time. If this matters, {READ_AGAIN}.]"
    content = answer.get("content")
    if answer.get("isError") or not isinstance(content, list):
        return ""
    blocks = [as_dict(block) for block in content]
    # The hub marks the block that says that no event waits.
    return "\n\n".join(str(block.get("text", "")) for block in blocks if "_meta" not in block)


_META: dict[str, Any] = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "interlock-hook", "version": "1"},
    }
}
_READ: dict[str, Any] = {"name": "read_events", "arguments": {"max_events": MAX_EVENTS}, **_META}


# After an answer


def _tell(name: str, event: dict[str, Any]) -> None:
    """Tell the hub of an answer. A written message arrives, so the hook waits for the receipt only for a moment."""
    if event.get("stop_hook_active"):
        return  # Another Stop hook made Claude Code continue. The hub knows this turn already.
    conversation = event.get("session_id")
    last = _last_answer(event.get("transcript_path"))
    text = event.get("last_assistant_message") or last.pop("text", "")
    last.pop("text", None)
    if not isinstance(conversation, str) or not isinstance(text, str) or not text:
        return
    params = {"conversationId": conversation, "assistantMessage": text, **last, **_META}
    try:
        link = _link(name)
        if link is not None:
            with link:
                link.ask("context/afterInference", params, timeout=REACH_S)
    except (CommandFailure, OSError, ValueError):
        return


def _last_answer(path: object) -> dict[str, Any]:
    """Text, model and tokens of the last answer in a transcript, as far as it has them."""
    if not isinstance(path, str):
        return {}
    try:
        lines = _end_of(Path(path)).splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            entry = as_dict(json.loads(line))
        except (ValueError, RecursionError):
            continue
        if entry.get("type") != "assistant":
            continue
        message = as_dict(entry.get("message"))
        content = message.get("content")
        blocks = [as_dict(block) for block in content] if isinstance(content, list) else []
        found: dict[str, Any] = {"text": "\n".join(str(each["text"]) for each in blocks if "text" in each)}
        if isinstance(message.get("model"), str) and message["model"]:
            found["model"] = {"id": message["model"][:200], "vendor": "anthropic"}
        used = as_dict(message.get("usage"))
        tokens = {"inputTokens": used.get("input_tokens"), "outputTokens": used.get("output_tokens")}
        if all(isinstance(count, int) and count >= 0 for count in tokens.values()):
            found["usage"] = tokens
        return found
    return {}


def _end_of(path: Path) -> bytes:
    """The last bytes of a regular file. Raises OSError."""
    if not path.is_file():
        raise OSError(f"{path} is no regular file")
    with path.open("rb") as handle:
        handle.seek(max(0, path.stat().st_size - MAX_TRANSCRIPT))
        return handle.read(MAX_TRANSCRIPT)
