"""The table of commands. A command's module is imported only when it is run or asked for its own help."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click

from .failures import Enough, of_the_system


class Entry(NamedTuple):
    """Where a command lives (`module:name` in this package), and what it says of itself in the overview."""

    place: str
    summary: str


SECTIONS: dict[str, dict[str, Entry]] = {
    "Start": {
        "up": Entry("up:up", "Run the hub and its servers."),
        "down": Entry("up:down", "Stop the hub."),
        "status": Entry("status:status", "Say what runs, and how to fix what does not."),
        "doctor": Entry("doctor:doctor", "Check this machine and the configuration."),
        "demo": Entry("demo:demo", "Show what a hub does, with a server of its own."),
    },
    "Servers": {
        "add": Entry("servers:add", "Add a server: a program or an address."),
        "remove": Entry("servers:remove", "Remove a server."),
        "import": Entry("servers:import_", "Take over the servers of another program's file."),
        "logs": Entry("logs:logs", "Print what servers wrote."),
    },
    "Clients": {
        "connect": Entry("connect:connect", "Write a client's configuration, with a key of its own."),
        "stdio": Entry("stdio:stdio", "Speak with the hub over standard input and output."),
    },
    "Tools": {
        "list": Entry("tools:list_", "List the tools of all servers."),
        "find": Entry("finding:find", "Find tools by what they do."),
        "call": Entry("tools:call", "Call a tool."),
        "budget": Entry("finding:budget", "Show what fills an agent's context, in tokens."),
        "search-model": Entry("search_model:search_model", "Install or remove the model that finds tools by meaning."),
        "check": Entry("check:check", "Judge a command, address, program, path, statement or tool."),
    },
    "Decide": {
        "watch": Entry("watch:watch", "Answer questions as they come."),
        "approvals": Entry("approvals:approvals", "Answer what agents and servers ask a person."),
        "why": Entry("why:why", "Say why a call was refused, or what one would come to."),
        "grants": Entry("grants:grants", "Allow and deny agents servers and tools."),
        "permissions": Entry("permissions:permissions", "Say what servers may do on this machine."),
        "keys": Entry("keys:keys", "Make, list and revoke the keys of agents and people."),
    },
    "Write": {
        "new": Entry("new:new", "Make a server project, with a test that passes."),
        "dev": Entry("dev:dev", "Run a server's file, again after each change, and show its calls."),
        "export": Entry("export:export", "Print tools as a catalog, as OpenAPI, or as schemas."),
    },
    "Record": {
        "audit": Entry("audit:audit", "Show, search, export and verify the record of what happened."),
        "backup": Entry("backup:backup", "Write everything the hub keeps to FILE."),
        "restore": Entry("backup:restore", "Put a backup back. Only while no hub runs."),
    },
    "Shell": {
        "completion": Entry("completion:completion", "Print the completion script for a shell."),
    },
}

EXIT_CODES = """\
0 done · 1 failed · 2 wrong usage · 3 configuration is wrong · 4 no hub is running · 5 refused · 130 interrupted"""


class Overview(click.Group):
    """A group whose overview needs none of its commands."""

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

    def invoke(self, ctx: click.Context) -> object:
        """What the system refuses a command ends it like any other failure: in a sentence."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise Enough from error
        except OSError as error:
            raise of_the_system(error) from error

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


def _version(ctx: click.Context) -> None:
    from interlock.version import VERSION

    click.echo(VERSION)
    ctx.exit()
