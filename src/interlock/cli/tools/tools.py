"""`interlock list` and `interlock call`: list and call tools like an agent."""

from __future__ import annotations

from typing import Final

import click

from interlock.cli.control.completion import server_names, tool_names
from interlock.cli.control.hub_link import HubError
from interlock.cli.control.perform import Json, perform
from interlock.cli.terminal.arguments import read_arguments
from interlock.cli.terminal.failures import CommandFailure, CommandRefused, WrongUsage
from interlock.cli.terminal.show import (
    as_dict,
    bold,
    counted,
    json_option,
    one_line,
    plain,
    say,
    say_table,
    show_json,
    waiting,
)
from interlock.cli.tools.with_key import called_with_key, listed_with_key

REFUSALS: Final = frozenset(("RATE_LIMITED", "QUOTA_EXCEEDED", "TOOL_DISABLED"))
"""Errors outside the domain `security` by which the hub refuses a call."""


@click.command("list")
@click.option("--server", metavar="ID", shell_complete=server_names, help="Only tools of this server.")
@click.option("--profile", metavar="NAME", help="Only tools of this profile.")
@click.option(
    "--key",
    envvar="INTERLOCK_KEY",
    metavar="KEY",
    help="List as the holder of this key; better in the variable INTERLOCK_KEY.",
)
@json_option
def list_(server: str | None, profile: str | None, key: str | None, as_json: bool) -> None:
    """List the tools of all servers.

    With a key, list those that its holder is shown.

    \b
    Example:
      interlock list --server github
    """
    if key and profile:
        raise WrongUsage("a key has its own profile", "leave out --profile, or --key and the variable INTERLOCK_KEY")
    found = listed_with_key(key, server) if key else perform("tools", {"server": server, "profile": profile})
    if as_json:
        show_json(found)
        return
    tools = found["tools"]
    say_table((bold(tool["name"]), _tokens(tool), one_line(_about(tool), 80)) for tool in tools)
    if not tools:
        say(_why_none())
        return
    count = counted(len(tools), "tool")
    tokens = [tool["tokens"] for tool in tools if tool.get("tokens") is not None]
    say(f"{count}, {sum(tokens):,} tokens" if len(tokens) == len(tools) else count)
    if starting := still_starting(perform("status")["servers"], server):
        say(f"  → still starting: {', '.join(starting)}; their tools follow", err=True)


@click.command()
@click.argument("name", shell_complete=tool_names)
@click.argument("arguments", nargs=-1)
@click.option("--timeout", type=click.FloatRange(0.1, 86_400), help="Seconds to wait for the answer.")
@click.option(
    "--key",
    envvar="INTERLOCK_KEY",
    metavar="KEY",
    help="Call as the holder of this key; better in the variable INTERLOCK_KEY.",
)
@json_option
def call(name: str, arguments: tuple[str, ...], timeout: float | None, key: str | None, as_json: bool) -> None:
    """Call a tool, as yourself or as the holder of a key.

    Arguments are one JSON object, `-` to read it from standard input, or key=value pairs, whose values are read by the
    tool's schema.

    \b
    Exit codes:
      0  the tool answered
      1  the tool reported an error, or its server failed
      2  there is no such tool, or the arguments do not match its schema
      4  no hub is running
      5  the hub refused the call, or a person must approve it first

    \b
    Examples:
      interlock call demo__convert value=3 source=km target=mi
      interlock call github__search '{"query": "is:open"}'
    """
    given = read_arguments(arguments, lambda: _schema(name))
    with waiting(name):
        result = _called(name, given, timeout, key)
    if as_json:
        show_json(result)
    else:
        for block in result.get("content") or []:
            say(_block(block))
    if result.get("isError"):
        raise _failure(name, result)


def still_starting(servers: list[Json], only: str | None = None) -> list[str]:
    """The servers, or only this one, whose tools are not known yet because they are being started."""
    from interlock.cli.lifecycle.status import STARTING

    waited_for = (server for server in servers if server.get("state") in STARTING and not server.get("tools"))
    return [plain(str(server["id"])) for server in waited_for if only in (None, server["id"])]


def _why_none() -> str:
    starting = still_starting(perform("status")["servers"])
    if starting:
        return f"No tools yet: {', '.join(starting)} {'is' if len(starting) == 1 else 'are'} still starting."
    return "No tools. → see `interlock status`"


def _called(name: str, given: Json, timeout: float | None, key: str | None) -> Json:
    """The result of a tool. Raises a failure with an exit code of `call`, and with commands for hints."""
    try:
        if key:
            return called_with_key(key, name, given, timeout)
        params = {"name": name, "arguments": given, "timeout_s": timeout}
        return as_dict(perform("call", params, timeout=(timeout or 3600) + 5)["result"])
    except HubError as error:
        if error.name == "TOOL_NOT_FOUND":
            raise WrongUsage(error.message, _nearest(name, error.message)) from None
        if error.name in REFUSALS:
            raise CommandRefused(error.message, error.hint or "run `interlock why` to see the reason") from None
        if not error.hint:
            server = name.partition("__")[0]
            error.hint = f"see `interlock status`, and `interlock logs {server}` for the output of its server"
        raise


def _nearest(name: str, message: str) -> str:
    """The hint for a tool that does not exist: the tool that was meant, where the message does not name it."""
    import difflib

    if "did you mean" in message:
        return "`interlock list` shows all tools"
    names = [str(tool.get("name")) for tool in perform("tools")["tools"]]
    if name in names:
        return f"it exists, but this caller may not use it: `interlock why AGENT {plain(name)}` names the rule"
    close = difflib.get_close_matches(name, names, n=1) or [each for each in names if each.endswith(f"__{name}")]
    see = "`interlock list` shows all tools"
    return f"did you mean `{close[0]}`? {see}" if close else see


def _failure(name: str, result: Json) -> CommandFailure:
    """Why a call failed: wrong arguments, a refusal of the hub, a missing login, or an error of the tool."""
    hub_error = as_dict(as_dict(result.get("_meta")).get("dev.interlock/error"))
    server_error = as_dict(as_dict(result.get("structuredContent")).get("error"))
    server = name.partition("__")[0]
    if "INVALID_TOOL_ARGS" in (hub_error.get("name"), server_error.get("name")):
        hint = f"correct them; `interlock list --server {server} --json` shows the schema"
        return WrongUsage(f"the arguments do not match the schema of {name}", hint)
    match hub_error.get("name"):
        case None:
            return CommandFailure(
                f"{name} reported an error", f"run `interlock logs {server}` to see the output of its server"
            )
        case "LOGIN_REQUIRED":
            how = str(hub_error.get("hint") or f"run `interlock login {server}`")
            return CommandFailure(f"{server} wants a login", f"{how}, then this again")
        case "APPROVAL_PENDING":
            hint = "answer it with `interlock approvals` or `interlock watch`, then run this again"
            return CommandRefused(f"a person must approve the call of {name} first", hint)
        case _:
            return CommandRefused(f"the hub refused the call of {name}", "run `interlock why` to see the reason")


def _schema(name: str) -> Json:
    tools = perform("tools")["tools"]
    return next((as_dict(tool.get("inputSchema")) for tool in tools if tool.get("name") == name), {})


def _about(tool: Json) -> str:
    return str(tool.get("description") or tool.get("title") or "")


def _tokens(tool: Json) -> str:
    return f"{tool['tokens']:,}" if tool.get("tokens") is not None else ""


def _block(block: Json) -> str:
    """A content block as text. Other blocks are named, not printed."""
    kind = block.get("type")
    if kind == "text":
        return plain(str(block.get("text", "")))
    if kind in ("image", "audio"):
        return f"[{kind} {plain(str(block.get('mimeType')))}, {len(str(block.get('data', '')))} characters; see --json]"
    if kind == "resource_link":
        return f"[resource {plain(str(block.get('uri')))}]"
    resource = as_dict(block.get("resource"))
    return plain(str(resource.get("text") or f"[{kind} {resource.get('uri', '')}]"))
