"""`interlock list` and `interlock call`: the tools as an agent would see and call them."""

from __future__ import annotations

from typing import Any

import click

from .arguments import read_arguments
from .completion import server_names, tool_names
from .failures import Failure
from .show import as_dict, bold, columns, json_option, one_line, plain, say, show_json


@click.command("list")
@click.option("--server", metavar="ID", shell_complete=server_names, help="Only this server's.")
@click.option("--profile", metavar="NAME", help="Only those of this profile.")
@json_option
def list_(server: str | None, profile: str | None, as_json: bool) -> None:
    """List the tools of all servers.

    \b
    Example:
      interlock list --server github
    """
    wanted = {**({"server": server} if server else {}), **({"profile": profile} if profile else {})}
    found = ask_hub("hub/tools", wanted)
    tools = found.get("tools") or []
    if as_json:
        show_json(found)
        return
    for line in columns((bold(str(tool["name"])), _tokens(tool), one_line(_about(tool), 80)) for tool in tools):
        say(line)
    if not tools:
        say(_why_none())
        return
    count = "1 tool" if len(tools) == 1 else f"{len(tools)} tools"
    counted = [tool["tokens"] for tool in tools if tool.get("tokens") is not None]
    say(f"{count}, {sum(counted):,} tokens" if len(counted) == len(tools) else count)


@click.command()
@click.argument("name", shell_complete=tool_names)
@click.argument("arguments", nargs=-1)
@click.option("--timeout", type=click.FloatRange(0.1, 86_400), help="Seconds to wait for the answer.")
@json_option
def call(name: str, arguments: tuple[str, ...], timeout: float | None, as_json: bool) -> None:
    """Call a tool.

    Arguments are one JSON object, `-` to read it from standard input, or key=value pairs; a value is read as the
    tool's schema says. Exit code 1 means that the tool reported an error or was refused.

    \b
    Examples:
      interlock call demo__convert value=3 source=km target=mi
      interlock call github__search '{"query": "is:open"}'
    """
    given = read_arguments(arguments, lambda: _schema(name))
    params: dict[str, Any] = {"name": name, "arguments": given, **({"timeout_s": timeout} if timeout else {})}
    answer = _called(params, timeout=(timeout or 3600) + 5)
    result = as_dict(answer.get("result"))
    if as_json:
        show_json(result)
    else:
        for block in result.get("content") or []:
            say(_block(block))
    if result.get("isError"):
        raise _failure(name, result)


def _why_none() -> str:
    from .status import STARTING

    servers = ask_hub("hub/status").get("servers") or []
    starting = [plain(str(server["id"])) for server in servers if server.get("state") in STARTING]
    if starting:
        return f"No tools yet: {', '.join(starting)} {'is' if len(starting) == 1 else 'are'} still starting."
    return "No tools. → see `interlock status`"


def _called(params: dict[str, Any], timeout: float) -> dict[str, Any]:
    """The hub's answer. What it says to agents about mending is put as commands."""
    from .hub_link import HubError

    try:
        return ask_hub("hub/call", params, timeout=timeout)
    except HubError as error:
        if error.name == "TOOL_NOT_FOUND":
            error.hint = "`interlock list` names the tools there are"
        elif not error.hint:
            server = str(params["name"]).partition("__")[0]
            error.hint = f"see `interlock status`, and `interlock logs {server}` for what its server wrote"
        raise


def _failure(name: str, result: dict[str, Any]) -> Failure:
    """Why a call failed: its arguments are wrong, the hub did not let it through, or the tool could not do it."""
    hub_says = as_dict(as_dict(result.get("_meta")).get("dev.interlock/error"))
    server_says = as_dict(as_dict(result.get("structuredContent")).get("error"))
    if "INVALID_TOOL_ARGS" in (hub_says.get("name"), server_says.get("name")):
        hint = "correct the arguments; `interlock list --json` shows what it takes"
        return Failure(f"the arguments do not fit {name}", hint)
    if hub_says:
        return Failure(f"the hub did not let the call of {name} through", "`interlock why` shows what decided")
    hint = f"`interlock logs {name.partition('__')[0]}` shows what its server wrote"
    return Failure(f"{name} reported an error", hint)


def _schema(name: str) -> dict[str, Any]:
    tools = ask_hub("hub/tools").get("tools") or []
    return next((as_dict(tool.get("inputSchema")) for tool in tools if tool.get("name") == name), {})


def ask_hub(method: str, params: dict[str, Any] | None = None, timeout: float = 30) -> dict[str, Any]:
    from interlock.config.home import home_folder

    from .hub_link import HubLink

    with HubLink.open(home_folder()) as link:
        return link.ask(method, params, timeout=timeout)


def _about(tool: dict[str, Any]) -> str:
    return str(tool.get("description") or tool.get("title") or "")


def _tokens(tool: dict[str, Any]) -> str:
    return f"{tool['tokens']:,}" if tool.get("tokens") is not None else ""


def _block(block: dict[str, Any]) -> str:
    """A piece of content as text; what is not text is named, not printed."""
    kind = block.get("type")
    if kind == "text":
        return plain(str(block.get("text", "")))
    if kind in ("image", "audio"):
        return f"[{kind} {plain(str(block.get('mimeType')))}, {len(str(block.get('data', '')))} characters; see --json]"
    if kind == "resource_link":
        return f"[resource {plain(str(block.get('uri')))}]"
    resource = as_dict(block.get("resource"))
    return plain(str(resource.get("text") or f"[{kind} {resource.get('uri', '')}]"))
