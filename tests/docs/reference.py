"""The parts of the documentation that are made from the code: run this file to write them anew."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import msgspec

from interlock.cli.app import EXIT_CODES, SECTIONS, app
from interlock.config import channel_settings, live_settings, model_settings, settings
from interlock.config.rates import Rate
from interlock.events.types import EVENTS
from interlock.hub.admin.table import OPERATIONS
from interlock.hub.upstreams.states import mermaid
from interlock.protocols.mcp.methods import METHODS
from interlock.protocols.mcpl import methods as mcpl
from interlock.protocols.mcpl.capabilities import MEANING_0_4, McplDialect
from interlock.protocols.mcpl.states import TRANSITIONS
from interlock.protocols.mcpx.capabilities import PROFILES
from interlock.protocols.mcpx.errors import MEANINGS
from interlock.protocols.mcpx.payloads import TARGET_MEMBERS
from interlock.protocols.mcpx.proposals import mermaid as proposal_states
from interlock.protocols.mgp.permissions import STANDARD
from interlock.web.metrics.table import METRICS, PROCESS
from interlock.wire.errors import TABLE

DOCS = Path(__file__).parents[2] / "docs"

TABLES: list[tuple[str, type[msgspec.Struct]]] = [
    ("[hub]", settings.HubSettings),
    ("[hub.timeouts]", settings.TimeoutSettings),
    ("[hub.limits]", settings.LimitSettings),
    ("[hub.approvals]", settings.ApprovalSettings),
    ("[hub.webhook]", settings.WebhookSettings),
    ("[hub.embeddings]", settings.EmbeddingSettings),
    ("[hub.oauth]", settings.OAuthSettings),
    ("[hub.oauth.issuers.NAME]", settings.IssuerSettings),
    ("[hub.login]", settings.HubLoginSettings),
    ("[hub.tracing]", settings.TracingSettings),
    ("[hub.retention]", settings.RetentionSettings),
    ("[hub.registration]", settings.RegistrationSettings),
    ("[hub.rate]", settings.Rate),
    ("[audit]", settings.AuditSettings),
    ("[servers.ID]", settings.ServerSettings),
    ("[servers.ID.oauth]", settings.ServerOAuthSettings),
    ("[servers.ID.restart]", settings.RestartSettings),
    ("[servers.ID.timeouts]", settings.ServerTimeoutSettings),
    ("[servers.ID.sandbox]", settings.SandboxSettings),
    ("[servers.ID.mask]", settings.MaskSettings),
    ("[servers.ID.permissions]", settings.PermissionSettings),
    ("[servers.ID.requests]", settings.RequestSettings),
    ("[servers.ID.tools]", settings.ToolSettings),
    ("[servers.ID.scopes.FEATURE]", settings.ScopeSettings),
    ("[servers.ID.live]", live_settings.ServerLiveSettings),
    ("[servers.ID.validators.TOOL]", settings.ValidationSettings),
    ("[profiles.NAME]", settings.ProfileSettings),
    ("[profiles.NAME.tool_context_budget]", settings.ContextBudgetSettings),
    ("[agents.NAME]", settings.AgentSettings),
    ("[agents.NAME.tool_context_budget]", settings.ContextBudgetSettings),
    ("[agents.NAME.rate]", settings.Rate),
    ("[rooms]", settings.RoomSettings),
    ("[rooms.topics.NAME]", settings.TopicSettings),
    ("[live]", live_settings.LiveSettings),
    ("[live.rules.NAME]", live_settings.LiveRuleSettings),
    ("[live.quiet_hours]", live_settings.QuietHoursSettings),
    ("[live.webhook]", live_settings.LiveWebhookSettings),
    ("[hooks.NAME]", live_settings.HookSettings),
    ("[models.NAME]", model_settings.ModelSettings),
    ("[host]", model_settings.HostSettings),
    ("[channels.NAME]", channel_settings.ChannelSettings),
    ("[channels.NAME.webhook]", channel_settings.ChannelWebhookSettings),
    ("[host.inference]", model_settings.InferenceSettings),
]


def errors() -> str:
    """Rows of the error table."""
    rows = []
    for kind in TABLE.values():
        codes = [kind.mcp, kind.new_mcp or kind.mcp, kind.mgp or "–", kind.mcpl or "–", kind.rest or "–", kind.http]
        retry, told = "yes" if kind.retryable else "no", "result" if kind.as_result else "error"
        cells = [f"`{kind.name}`", kind.domain, kind.meaning, *map(str, codes), retry, told]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def events() -> str:
    """Rows of the table of events."""
    rows = []
    for kind in EVENTS:
        said = field_texts(kind)
        own = [field.name for field in msgspec.structs.fields(kind) if field.name not in ("source", "sequence", "at")]
        texts = {name: said.get(name, "").rstrip(".") for name in own}
        members = "; ".join(f"`{name}`: {text}" if text else f"`{name}`" for name, text in texts.items())
        cells = [f"`{kind.__name__}`", kind.sources, kind.numbered_by, one_line(kind), members]
        rows.append(f"| {' | '.join(cells)} |")
    head = "| event | source | numbered by | when | members |\n|---|---|---|---|---|"
    return "\n".join([head, *rows])


def one_line(kind: type) -> str:
    """A class's docstring in one line."""
    return (inspect.getdoc(kind) or "").replace("\n", " ")


def methods() -> str:
    """Rows of the table of methods."""
    rows = []
    for method in METHODS.values():
        era = "both" if len(method.eras) == 2 else next(iter(method.eras)).value
        rows.append(f"| `{method.name}` | {method.sender} | {era} | {method.needs or '–'} |")
    return "\n".join(rows)


def mcpl_methods() -> str:
    """Rows of the table of MCPL's methods."""
    rows = []
    for row in mcpl.METHODS.values():
        dialects = ", ".join(dialect.value for dialect in McplDialect if dialect in row.dialects)
        needs = f"`{row.needs}`" if row.needs else "one of the hook's paths" if row.needs_one_of else "–"
        tagged = ", an enabled feature set" if row.tagged else ""
        rows.append(f"| `{row.name}` | {row.sender} | {row.kind} | {dialects} | {needs}{tagged} |")
    return "\n".join(rows)


def mcpl_meaning() -> str:
    """Rows of the table of what 0.4's names stand for."""

    def listed(paths: frozenset[str]) -> str:
        return ", ".join(f"`{path}`" for path in sorted(paths)) or "–"

    return "\n".join(f"| `{name}` | {listed(m.needs)} | {listed(m.may)} |" for name, m in MEANING_0_4.items())


def mcpl_phases() -> str:
    """Rows of the table of transitions."""
    return "\n".join(
        f"| {phase.value} | {event.value} | {after.value} |"
        for phase, events in TRANSITIONS.items()
        for event, after in events.items()
    )


def states() -> str:
    """The life of a server as a diagram."""
    return f"```mermaid\n{mermaid()}\n```"


def configuration() -> str:
    """A table for each table of `interlock.toml`."""
    parts = []
    for title, struct in TABLES:
        said = field_texts(struct)
        hidden: frozenset[str] = getattr(struct, "derived", frozenset())
        rows = [
            f"| `{field.encode_name}` | {default_of(field)} | {said[field.name]} |"
            for field in msgspec.structs.fields(struct)
            if field.name not in hidden and not nested(field)
        ]
        intro = (inspect.getdoc(struct) or "").replace("\n", " ")
        parts.append(f"### `{title}`\n\n{intro}\n\n| setting | default | meaning |\n|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts)


def commands() -> str:
    """Every command with its help, as the terminal prints it."""
    parts = []
    for title, section in SECTIONS.items():
        parts.append(f"## {title}")
        for name in section:
            command = app.get_command(click.Context(app), name)
            assert command is not None
            parts.append(help_of(command, ["interlock", name]))
    return "\n\n".join([*parts, "## Exit codes", EXIT_CODES])


def help_of(command: click.Command, path: list[str]) -> str:
    """A command's help, and that of the commands under it."""
    # The names as the app gives them: a command remembers those it was first asked with.
    names = app.context_settings["help_option_names"]
    context = click.Context(
        command, info_name=" ".join(path), max_content_width=100, terminal_width=100, help_option_names=names
    )
    text = re.sub(r"[ \t]+$", "", command.get_help(context), flags=re.MULTILINE)
    parts = [f"### `{' '.join(path)}`\n\n```text\n{text}\n```"]
    if isinstance(command, click.Group):
        parts += [help_of(command.commands[name], [*path, name]) for name in sorted(command.commands)]
    return "\n\n".join(parts)


def addresses() -> str:
    """Rows of the table of the admin API."""
    rows = []
    for operation in OPERATIONS.values():
        if operation.path:
            takes = ", ".join(f"`{name}`" for name in operation.api_fields()) or "–"
            cells = [operation.verb, f"`{operation.path}`", f"`{operation.right}`", operation.summary, takes]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def operations() -> str:
    """Rows of the table of all operations."""
    rows = []
    for operation in OPERATIONS.values():
        events = ", ".join(f"`{event}`" for event in operation.events) or "–"
        right = "the hub's user" if operation.right == "owner" else f"`{operation.right}`"
        address = f"`{operation.verb} {operation.path}`" if operation.path else "–"
        proof = f"{operation.terminal or '–'} | {operation.passphrase or '–'}"
        rows.append(f"| `{operation.name}` | {operation.summary} | {right} | {proof} | {address} | {events} |")
    return "\n".join(rows)


def field_texts(struct: type) -> dict[str, str]:
    """The text under each field of a struct, those it has from another too."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(struct)))  # type: ignore[arg-type]
    names = {parent.__name__ for parent in struct.__mro__}
    texts: dict[str, str] = {}
    for node in tree.body:
        for field, after in pairwise(node.body if isinstance(node, ast.ClassDef) and node.name in names else ()):
            match field, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = " ".join(text.split())
    return texts


def nested(field: Any) -> bool:
    """Whether a field is a table of its own."""
    if isinstance(field.default, Rate) and field.default != Rate():
        return False
    return isinstance(field.default, msgspec.Struct) or isinstance(field.type, type(msgspec.Struct))


def default_of(field: Any) -> str:
    """A field's default as it would be written in the file."""
    if field.default_factory is not msgspec.NODEFAULT:
        return "none"
    value = field.default
    if value is msgspec.NODEFAULT:
        return "required"
    if value is None or value in ((), ""):
        return "none"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    if isinstance(value, Rate):
        given = ", ".join(f"{name} = {count}" for name, count in msgspec.structs.asdict(value).items() if count)
        return f"`{{ {given} }}`"
    return f"`{value:,}`".replace(",", "_") if isinstance(value, int) else f"`{value}`"


def permissions() -> str:
    """Rows of the table of permissions."""
    return "\n".join(f"| `{name}` | {risk.word} |" for name, risk in STANDARD.items())


def metrics() -> str:
    """Rows of the table of metrics."""
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |")
    return "\n".join(rows)


def process() -> str:
    """Rows of the metrics of the process."""
    rows = ["| metric | meaning |", "|---|---|"]
    return "\n".join(rows + [f"| `{name}` | {meaning} |" for name, meaning in PROCESS.items()])


def profiles() -> str:
    """The ready-made sets of capabilities of a room's participants."""
    rows = [f"| `{name}` | {', '.join(f'`{text}`' for text in texts)} |" for name, texts in PROFILES.items()]
    return "\n".join(["| profile | capabilities |", "|---|---|", *rows])


def targets() -> str:
    """The text that CONTEXT of a room's kind equals."""
    shown = {"ref": "`params.ref.name` or `params.ref.uri`"}
    rows = [f"| `{method}` | {shown.get(member, f'`params.{member}`')} |" for method, member in TARGET_MEMBERS.items()]
    return "\n".join(["| METHOD | CONTEXT |", "|---|---|", *rows])


def proposals() -> str:
    """The life of a proposal as a diagram."""
    return f"```mermaid\n{proposal_states()}\n```"


def reasons() -> str:
    """Rows of the reasons why a room refuses an envelope."""
    return "\n".join(f"| `{reason}` | {meaning} |" for reason, meaning in MEANINGS.items())


GENERATED: list[tuple[str, str, Callable[[], str]]] = [
    ("errors.md", "errors", errors),
    ("events.md", "events", events),
    ("permissions.md", "permissions", permissions),
    ("protocol.md", "methods", methods),
    ("protocol.md", "states", states),
    ("configuration.md", "settings", configuration),
    ("commands.md", "commands", commands),
    ("admin-api.md", "addresses", addresses),
    ("admin-api.md", "operations", operations),
    ("metrics.md", "metrics", metrics),
    ("metrics.md", "process", process),
    ("rooms-protocol.md", "profiles", profiles),
    ("rooms-protocol.md", "targets", targets),
    ("rooms-protocol.md", "proposals", proposals),
    ("rooms-protocol.md", "reasons", reasons),
    ("mcpl.md", "mcpl-methods", mcpl_methods),
    ("mcpl.md", "mcpl-meaning", mcpl_meaning),
    ("mcpl.md", "mcpl-phases", mcpl_phases),
]


def between(name: str) -> re.Pattern[str]:
    """The part of a page between two marks."""
    return re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)


def write() -> None:
    """Write every part anew."""
    for page, name, make in GENERATED:
        path = DOCS / page
        text = path.read_text()
        made = make()
        new = between(name).sub(lambda match, made=made: f"{match[1]}{made}\n{match[2]}", text)
        path.write_text(new)


if __name__ == "__main__":
    write()
