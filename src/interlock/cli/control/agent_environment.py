"""Recognizes the environment of an agent program: whose terminal this is, and whether its client searches tools.

An agent that runs commands inherits the environment of its program. This is a guard against mistakes, not against a
program that removes these variables (see the threats).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

AGENTS: Final = {
    "CLAUDECODE": "Claude Code",
    "CLAUDE_CODE_ENTRYPOINT": "Claude Code",
    "CODEX_SANDBOX": "Codex",
    "CODEX_THREAD_ID": "Codex",
    "GEMINI_CLI": "Gemini CLI",
    "OPENCODE": "opencode",
    "QWEN_CODE": "Qwen Code",
    "CURSOR_AGENT": "Cursor",
    "CLINE_ACTIVE": "Cline",
    "GOOSE_TERMINAL": "Goose",
}
"""Variables that agent programs set for the commands that they run."""
WITHOUT_SEARCH: Final = "dev.interlock/withoutSearch"
_OFF: Final = ("0", "false", "no", "off")


def agent_of(environ: Mapping[str, str]) -> str | None:
    """The agent program whose command this is; None if none is recognized."""
    return next((f"{name} ({variable} is set)" for variable, name in AGENTS.items() if environ.get(variable)), None)


def with_environment(line: bytes, environ: Mapping[str, str]) -> bytes:
    """A client's `initialize`, marked where the environment says that its own tool search is off.

    Claude Code turns its search off behind an address that is not Anthropic's own.
    """
    import msgspec

    try:
        message: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        info = message["params"]["clientInfo"]
        if info["name"] != "claude-code" or not _search_is_off(environ):
            return line
        info[WITHOUT_SEARCH] = True
    except (msgspec.MsgspecError, KeyError, TypeError, UnicodeDecodeError):
        return line
    return msgspec.json.encode(message) + b"\n"


def _search_is_off(environ: Mapping[str, str]) -> bool:
    setting = environ.get("ENABLE_TOOL_SEARCH", "").strip().lower()
    if setting:
        return setting in _OFF
    address = environ.get("ANTHROPIC_BASE_URL", "")
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return True
    return bool(address) and host != "anthropic.com" and not host.endswith(".anthropic.com")
