"""What an author can say of a tool, a resource or a prompt beside its function.

Each option is written here and nowhere else: the decorators of `Server` and the constructors of `Tool`, `Resource` and
`Prompt` take the same ones.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from interlock.protocols.mcp.tasks import Support
from interlock.server.checks import ArgumentsCheck
from interlock.server.content import Annotations, Icon, Meta, ToolHints

Scope = Literal["public", "private"]
From = Literal["start", "told"]
"""When a call becomes a task: at its start, or when the function says so."""


class _Shown(TypedDict, total=False):
    """How it stands in a list."""

    name: str | None
    """What it is called by; the function's own name if not given."""
    title: str | None
    """A name for people."""
    description: str | None
    """What it is for; the function's docstring if not given."""
    icons: Sequence[Icon]
    meta: Meta | None
    """The entry's `_meta`, as it is."""


class ToolOptions(_Shown, total=False):
    """The options of a tool."""

    hints: ToolHints | None
    """What it says about its own behaviour: MCP's annotations."""
    headers: Mapping[str, str] | None
    """Parameters that clients repeat as `Mcp-Param-*` headers, each with its header's name."""
    security: Mapping[str, object] | None
    """MGP's declaration, as it is."""
    input_schema: dict[str, object] | None
    """A schema of the author's own; the function then takes its arguments as one dict."""
    category: str | None
    tags: Sequence[str]
    version: str | None
    deprecated: bool | str
    """True, or what to use instead."""
    author: str | None
    documentation_url: str | None
    """Where to read more; told to a caller whose arguments do not fit."""
    validators: Sequence[ArgumentsCheck]
    """They see the arguments after the schema has passed them."""
    examples: Sequence[Mapping[str, object]]
    """Arguments that fit, checked when the tool is defined."""
    timeout_s: float | None
    """How long a call may take; it begins anew with each progress report."""
    task: Support
    """Whether it can run on as a task, while its client does something else."""
    task_from: From
    """When it becomes one: at its start, or when the function says so with `ctx.become_task()`."""


class ResourceOptions(_Shown, total=False):
    """The options of a resource, or of a template of them."""

    mime_type: str | None
    size: int | None
    annotations: Annotations | None
    ttl_ms: int
    """How long what was read is good for. The server keeps it that long and reads anew after that."""
    scope: Scope
    """Whether what was read is good for every caller, or for the one who read it."""


class PromptOptions(_Shown, total=False):
    """The options of a prompt."""


def check_options(what: str, given: Mapping[str, object], known: type) -> None:
    """Refuse an option that is none. Raises TypeError."""
    names = known.__annotations__
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(sorted(names))}"
            raise TypeError(f"{what}: no option {name!r}{hint}")
