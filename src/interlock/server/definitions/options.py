"""The options of a tool, a resource or a prompt beside its function.

Each option is declared here only: the decorators of `Server` and the constructors of `Tool`, `Resource` and `Prompt`
take the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from interlock.protocols.mcp.tasks import Support
from interlock.server.definitions.checks import ArgumentsCheck
from interlock.server.requests.content import Annotations, Icon, Meta, ToolHints

Scope = Literal["public", "private"]
From = Literal["start", "become_task"]
"""When a call becomes a task: at its start, or when the function calls `ctx.become_task()`."""


class _ListOptions(TypedDict, total=False):
    """The options of every entry in a list."""

    name: str | None
    """The name that callers use; by default the function's own."""
    title: str | None
    """A name for people."""
    description: str | None
    """Its purpose; by default the function's docstring."""
    icons: Sequence[Icon]
    meta: Meta | None
    """The entry's `_meta`, unchanged."""


class ToolOptions(_ListOptions, total=False):
    """The options of a tool."""

    hints: ToolHints | None
    """Hints about its behaviour: MCP's annotations."""
    headers: Mapping[str, str] | None
    """Parameters that clients repeat as `Mcp-Param-*` headers, each with its header's name."""
    security: Mapping[str, object] | None
    """MGP's declaration, unchanged."""
    input_schema: dict[str, object] | None
    """A schema of the author's own; the function then takes its arguments as one dict."""
    category: str | None
    tags: Sequence[str]
    version: str | None
    deprecated: bool | str
    """True, or the name of a replacement."""
    author: str | None
    documentation_url: str | None
    """Documentation; the error for arguments that do not fit names it."""
    validators: Sequence[ArgumentsCheck]
    """Checks of the arguments, run after the schema has passed them."""
    examples: Sequence[Mapping[str, object]]
    """Arguments that fit, checked when the tool is defined."""
    timeout_s: float | None
    """How long a call may take; each progress report starts the time anew."""
    task: Support
    """Whether a call can run on as a task while the client does something else."""
    task_from: From
    """When a call becomes a task: at its start, or when the function calls `ctx.become_task()`."""


class ResourceOptions(_ListOptions, total=False):
    """The options of a resource, or of a template of them."""

    mime_type: str | None
    size: int | None
    annotations: Annotations | None
    ttl_ms: int
    """How long a read is good for. The server caches it that long."""
    scope: Scope
    """Whether a read is good for every caller, or only for the one who read it."""


class PromptOptions(_ListOptions, total=False):
    """The options of a prompt."""
