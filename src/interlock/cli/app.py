"""The table of commands. The module of a command is imported only when it runs or shows its help."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click

from interlock.cli.terminal.failures import OutputClosed, system_failure


class CommandEntry(NamedTuple):
    """The place of a command (`module:name` in this package), and its line in the overview."""

    place: str
    summary: str


SECTIONS: dict[str, dict[str, CommandEntry]] = {
    "Start": {
        "up": CommandEntry("lifecycle.up:up", "Run the hub and its servers."),
        "down": CommandEntry("lifecycle.up:down", "Stop the hub."),
        "status": CommandEntry("lifecycle.status:status", "Show the servers, and how to fix those that do not run."),
        "health": CommandEntry("lifecycle.health:health", "Show the health of the hub and its servers."),
        "doctor": CommandEntry("lifecycle.doctor:doctor", "Check this machine and the configuration."),
        "service": CommandEntry("lifecycle.service:service", "Run the hub at login, and start it again if it ends."),
        "demo": CommandEntry("lifecycle.demo:demo", "Show what a hub does, with a demonstration server."),
    },
    "Servers": {
        "add": CommandEntry("servers.servers:add", "Add a server: a program or a URL."),
        "remove": CommandEntry("servers.servers:remove", "Remove a server."),
        "import": CommandEntry("servers.importing:import_", "Import the servers of another program's file."),
        "discovery": CommandEntry(
            "servers.discovery:discovery", "List, register and deregister servers while the hub runs."
        ),
        "install": CommandEntry("servers.contained:install", "Install the packages of a contained server."),
        "start": CommandEntry("lifecycle.supervise:start", "Start a server that was stopped or is down."),
        "stop": CommandEntry("lifecycle.supervise:stop", "Stop a server, or without SERVER the hub."),
        "restart": CommandEntry("lifecycle.supervise:restart", "End a server's present run and start it again."),
        "login": CommandEntry("servers.login:login", "Log in to a server that wants a token."),
        "logout": CommandEntry("servers.login:logout", "End a login: revoke its tokens and forget them."),
        "secrets": CommandEntry("servers.secrets:secrets", "Keep passwords and tokens for servers, encrypted."),
        "logs": CommandEntry("lifecycle.logs:logs", "Print the log output of servers."),
    },
    "Clients": {
        "setup": CommandEntry(
            "clients.setup:setup", "Put the hub in the place of the servers that your clients start."
        ),
        "connect": CommandEntry(
            "clients.connect:connect", "Add the hub to a client's configuration, with its own key."
        ),
        "sessions": CommandEntry("clients.sessions:sessions", "List and end the sessions of clients."),
        "hook": CommandEntry(
            "clients.hook:hook", "Print what servers add to a client's next turn, or tell them of its answer."
        ),
        "stdio": CommandEntry("clients.stdio:stdio", "Connect standard input and output to the hub."),
    },
    "Tools": {
        "list": CommandEntry("tools.tools:list_", "List the tools of all servers."),
        "find": CommandEntry("tools.finding:find", "Find tools by what they do."),
        "call": CommandEntry("tools.tools:call", "Call a tool, as yourself or as the holder of a key."),
        "budget": CommandEntry("tools.finding:budget", "Show what fills an agent's context, in tokens."),
        "search-model": CommandEntry(
            "tools.search_model:search_model", "Show, install or remove the model that finds tools by meaning."
        ),
        "check": CommandEntry("tools.check:check", "Check a command, URL, code, path, SQL statement or tool."),
    },
    "Decide": {
        "console": CommandEntry("admin.console:console", "Open the console in a browser, with a login code."),
        "watch": CommandEntry("admin.watch:watch", "Answer approval requests as they arrive."),
        "approvals": CommandEntry("admin.approvals:approvals", "List and answer approval requests."),
        "taints": CommandEntry(
            "admin.taints:taints", "List agents whose tools ask because of untrusted results, and end that."
        ),
        "why": CommandEntry("admin.why:why", "Show why a call was refused, or whether one would be."),
        "grants": CommandEntry("admin.grants:grants", "Allow or deny agents the use of servers and tools."),
        "permissions": CommandEntry(
            "admin.permissions:permissions", "Approve or deny what servers may do on this machine."
        ),
        "keys": CommandEntry("admin.keys:keys", "Create, list and revoke keys of agents and people."),
    },
    "Chat": {
        "channels": CommandEntry("conversations.channels:channels", "List, open and close channels of servers."),
        "chat": CommandEntry("conversations.chat:chat", "Talk to a model that uses the tools of the hub."),
        "conversations": CommandEntry(
            "conversations.chat:conversations", "List, show and delete conversations with models."
        ),
        "rollback": CommandEntry(
            "conversations.rollback:rollback", "Take back what the last turns of a conversation changed."
        ),
    },
    "Live": {
        "features": CommandEntry(
            "conversations.features:features", "Let servers send events by themselves, per server and agent."
        ),
        "events": CommandEntry(
            "conversations.features:events", "List events that servers pushed, and what became of them."
        ),
        "usage": CommandEntry(
            "conversations.features:usage",
            "Count the events, inferences, tokens and cost of servers and conversations.",
        ),
    },
    "Rooms": {
        "rooms": CommandEntry("conversations.rooms:rooms", "Take part in topics that agents and people share."),
    },
    "Write": {
        "new": CommandEntry("writing.new:new", "Create a server project with a passing test."),
        "dev": CommandEntry(
            "writing.dev:dev", "Run a server's file, restart it after each change, and show its calls."
        ),
        "export": CommandEntry("writing.export:export", "Print tools as a catalog, as OpenAPI, or as schemas."),
    },
    "Audit log": {
        "audit": CommandEntry("admin.audit:audit", "Show, search, export and verify the audit log."),
        "backup": CommandEntry("admin.backup:backup", "Write all data of the hub to FILE."),
        "restore": CommandEntry("admin.backup:restore", "Restore a backup, while no hub runs."),
    },
    "Shell": {
        "completion": CommandEntry("control.completion:completion", "Print the completion script for a shell."),
    },
}

EXIT_CODES = """\
0 done · 1 failed · 2 wrong usage · 3 wrong configuration · 4 no hub is running · 5 refused · 130 interrupted"""


class Overview(click.Group):
    """A group that shows its overview without importing the commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in SECTIONS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = next((section[cmd_name] for section in SECTIONS.values() if cmd_name in section), None)
        if entry is None:
            return None
        module, _, name = entry.place.partition(":")
        command = getattr(importlib.import_module(f".{module}", __package__), name)
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Notice `--json` before anything is parsed: wrong usage is reported as JSON, too."""
        ctx.meta[_JSON_ASKED] = "--json" in args[: args.index("--") if "--" in args else None]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            _show_usage_error(ctx, error)
            raise

    def invoke(self, ctx: click.Context) -> object:
        """Report errors of the operating system like any other failure, in one sentence."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            _show_usage_error(ctx, error)
            raise
        except BrokenPipeError as error:
            raise OutputClosed from error
        except OSError as error:
            raise system_failure(error) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.summary) for name, entry in section.items()])
        with formatter.section("Exit codes"):
            formatter.write_text(EXIT_CODES)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            import difflib

            close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"Did you mean `interlock {close[0]}`?" if close else "See `interlock --help`."
            raise click.UsageError(f"There is no command `{args[0]}`. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.command(cls=Overview, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    help="Print the version and exit.",
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, asked: _version(ctx) if asked else None,
)
def app() -> None:
    """The hub between AI agents and their tools: one endpoint for every server.

    Start with `interlock up`, then `interlock connect CLIENT`.
    """


_JSON_ASKED = "interlock.json_asked"


def _show_usage_error(ctx: click.Context, error: click.UsageError) -> None:
    """Print the error as JSON and exit, if JSON was asked for."""
    if not ctx.meta[_JSON_ASKED] or ctx.resilient_parsing:
        return
    from interlock.cli.terminal.show import show_json

    path = error.ctx.command_path if error.ctx is not None else "interlock"
    hint = f"see `{path} --help`"
    show_json({"error": {"message": error.format_message(), "hint": hint, "exit_code": error.exit_code}})
    ctx.exit(error.exit_code)


def _version(ctx: click.Context) -> None:
    from interlock.version import VERSION

    click.echo(VERSION)
    ctx.exit()
