"""The hooks of `interlock connect claude-code --live` in Claude Code's settings. The user's own hooks do not change."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from interlock.cli.clients.clients import Client, changed_text
from interlock.cli.terminal.show import as_dict

HOOKS = "hooks"
EVENTS = ("UserPromptSubmit", "Stop")
"""A prompt was sent; an answer was given."""
OURS = "hook claude-code"
"""How our command ends, which no other command does."""
TIMEOUT_S = 5
CHANNEL = "claude --dangerously-load-development-channels server:interlock"
"""Starts a session that a wake also reaches between prompts."""


def settings_file() -> Client:
    """Claude Code's settings, which are another file than its servers."""
    from interlock.config.home import user_home

    folder = Path(os.environ.get("CLAUDE_CONFIG_DIR") or user_home() / ".claude")
    return Client("claude-code", "Claude Code", folder / "settings.json", (HOOKS,))


def with_hook(text: str, command: list[str]) -> str:
    """The settings with our hooks, each once."""
    words = [*command, *OURS.split()]
    line = subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
    ours = {"hooks": [{"type": "command", "command": line, "timeout": TIMEOUT_S}]}
    return _changed(text, lambda groups: [*groups, ours])


def without_hook(text: str) -> str:
    """The settings without our hooks."""
    return _changed(text, lambda groups: groups)


def _changed(text: str, add: Any) -> str:
    from interlock.config.documents import parse_json
    from interlock.config.json_members import remove_member, set_member

    file = settings_file()

    def change(plain: str) -> str:
        for event in EVENTS:
            plain = change_event(plain, event)
        return plain

    def change_event(plain: str, event: str) -> str:
        parsed: Any = parse_json(plain, str(file.path))
        hooks = as_dict(as_dict(parsed[0]).get(HOOKS))
        found = hooks.get(event, [])
        if not isinstance(found, list):
            raise ValueError(f"hooks.{event} is no list")
        groups = add([group for group in found if not _is_ours(group)])
        if groups == found:
            return plain
        if groups:
            return set_member(plain, (HOOKS, event), groups)
        return remove_member(plain, (HOOKS, event) if len(hooks) > 1 else (HOOKS,))

    return changed_text(file, text, change)


def _is_ours(group: object) -> bool:
    commands = as_dict(group).get("hooks")
    return isinstance(commands, list) and any(
        str(as_dict(each).get("command", "")).rstrip("\"'").endswith(OURS) for each in commands
    )
