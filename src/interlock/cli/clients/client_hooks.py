"""The hooks of `interlock connect claude-code --live` in Claude Code's settings. The user's own hooks do not change."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from typing import Any

from interlock.cli.clients.clients import MODULE, AgentClient, changed_text
from interlock.cli.terminal.show import as_dict

HOOKS = "hooks"
EVENTS = ("UserPromptSubmit", "Stop")
"""The hook events of Claude Code: a prompt was sent, and an answer was given."""
OURS = ("hook", "claude-code")
"""The last words of the hook's command. Before them is `interlock`, or a Python with its module."""
TIMEOUT_S = 10
"""The hook's timeout in Claude Code: 4.5 s for a slow hub, and time to start a process on a busy machine."""
CHANNEL = "claude --dangerously-load-development-channels server:interlock"
"""The command for a session that wakes also reach between prompts."""


def settings_file() -> AgentClient:
    """Claude Code's settings, which are another file than its servers."""
    from interlock.config.home import user_home

    folder = Path(os.environ.get("CLAUDE_CONFIG_DIR") or user_home() / ".claude")
    return AgentClient("claude-code", "Claude Code", folder / "settings.json", (HOOKS,))


def with_hook(text: str, command: list[str]) -> str:
    """The settings with our hooks, each once."""
    words = [*command, *OURS]
    line = subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
    ours = {"type": "command", "command": line, "timeout": TIMEOUT_S}

    def add(groups: list[Any]) -> list[Any]:
        if [each for group in groups for each in _commands(group) if _is_ours(each)] == [ours]:
            return groups
        return [*_without_ours(groups), {"hooks": [ours]}]

    return _changed(text, add)


def without_hook(text: str) -> str:
    """The settings without our hooks."""
    return _changed(text, _without_ours)


def _changed(text: str, change_groups: Callable[[list[Any]], list[Any]]) -> str:
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
        groups = change_groups(found)
        if groups == found:
            return plain
        if groups:
            return set_member(plain, (HOOKS, event), groups)
        return remove_member(plain, (HOOKS, event) if len(hooks) > 1 else (HOOKS,))

    return changed_text(file, text, change)


def _without_ours(groups: list[Any]) -> list[Any]:
    """Groups without our commands. A group that had nothing else is gone; other commands in it stay."""
    kept: list[Any] = []
    for group in groups:
        commands = _commands(group)
        others = [each for each in commands if not _is_ours(each)]
        if len(others) == len(commands):
            kept.append(group)
        elif others:
            kept.append({**group, "hooks": others})
    return kept


def _commands(group: object) -> list[Any]:
    found = as_dict(group).get("hooks")
    return found if isinstance(found, list) else []


def _is_ours(entry: object) -> bool:
    """Whether `with_hook` wrote a command, possibly of another installation. A user's own command never matches."""
    try:
        words = shlex.split(str(as_dict(entry).get("command", "")), posix=sys.platform != "win32")
    except ValueError:
        return False
    program = [word.strip('"') for word in words[:-2]]
    if tuple(words[-2:]) != OURS or not program:
        return False
    if len(program) == 1:
        return PureWindowsPath(program[0]).stem == "interlock"
    return tuple(program[1:]) == MODULE
