"""The agent programs: how each is told of the scripted model, and how it is run once without a person.

The hub is written into their configuration by `interlock connect`, as a user would do it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec


class Program(msgspec.Struct, frozen=True):
    """One agent."""

    name: str
    """With `interlock connect`."""
    title: str
    package: str
    """On npm."""
    version: str
    program: str
    arguments: Callable[[str], list[str]]
    """For a prompt."""
    environ: Callable[[str], Mapping[str, str]]
    """For the address of the model."""
    configure: Callable[[Path, str], None]
    """Writes its settings into a home, for the address of the model."""


def _nothing(home: Path, url: str) -> None:
    """It needs no settings."""


def _merge(path: Path, settings: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **settings}))


def _codex(home: Path, url: str) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    provider = f'name = "scripted"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
    path.write_text(f'model = "gpt-5.1-codex"\nmodel_provider = "scripted"\n[model_providers.scripted]\n{provider}')


def _opencode(home: Path, url: str) -> None:
    options = {"baseURL": f"{url}/v1", "apiKey": "none"}
    model = {"name": "scripted", "tool_call": True, "limit": {"context": 1_000_000, "output": 10_000}}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": model}}
    settings = {"model": "scripted/scripted", "small_model": "scripted/scripted", "autoupdate": False}
    _merge(home / ".config" / "opencode" / "opencode.json", {**settings, "provider": {"scripted": provider}})


def _gemini(home: Path, url: str) -> None:
    security = {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}
    settings = {"privacy": {"usageStatisticsEnabled": False}, "general": {"disableAutoUpdate": True}}
    _merge(home / ".gemini" / "settings.json", {"security": security, **settings})


def _qwen(home: Path, url: str) -> None:
    settings = {"privacy": {"usageStatisticsEnabled": False}, "general": {"disableAutoUpdate": True}}
    _merge(home / ".qwen" / "settings.json", {"security": {"auth": {"selectedType": "openai"}}, **settings})


PROGRAMS: Final = (
    Program(
        "claude-code", "Claude Code", "@anthropic-ai/claude-code", "2.1.197", "claude",
        lambda prompt: ["-p", prompt, "--allowedTools", "mcp__interlock", "--max-turns", "30"],
        lambda url: {
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        _nothing,
    ),
    Program(
        "codex", "Codex", "@openai/codex", "0.166.0", "codex",
        lambda prompt: ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt],
        lambda url: {"OPENAI_API_KEY": "none"},
        _codex,
    ),
    Program(
        "gemini", "Gemini CLI", "@google/gemini-cli", "0.61.0", "gemini",
        lambda prompt: ["--yolo", "-m", "gemini-2.5-pro", "-p", prompt],
        lambda url: {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        _gemini,
    ),
    Program(
        "opencode", "opencode", "opencode-ai", "1.18.33", "opencode",
        lambda prompt: ["run", prompt],
        lambda url: {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        _opencode,
    ),
    Program(
        "qwen", "Qwen Code", "@qwen-code/qwen-code", "0.15.10", "qwen",
        lambda prompt: ["--yolo", "-p", prompt],
        lambda url: {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "scripted"},
        _qwen,
    ),
)  # fmt: skip
