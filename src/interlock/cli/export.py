"""`interlock export`: the tools of a running hub, or of an author's file, as documents for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .failures import Failure, WrongUsage
from .show import json_option, say, show_json

if TYPE_CHECKING:
    from interlock.protocols.registry.catalog import Examples

_MEMBERS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "security", "_meta")


@click.command()
@click.argument("kind", type=click.Choice(["catalog", "openapi", "schema"]))
@click.argument("file", required=False, metavar="[FILE.py]")
@click.option("--tool", metavar="NAME", help="Only this tool.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it to this file.")
@json_option
def export(kind: str, file: str | None, tool: str | None, output: Path | None, as_json: bool) -> None:
    """Print tools as a catalog, as OpenAPI, or as schemas.

    Without a FILE.py these are the tools of the running hub, under the names that its clients see. What is printed is
    always JSON; examples are made from the schemas, and each was validated.

    \b
    Examples:
      interlock export catalog ./weather.py
      interlock export openapi -o openapi.json
      interlock export schema --tool github__create_issue
    """
    source = _of_file(file) if file else _of_hub()
    if tool is not None:
        chosen = [definition for definition in source.definitions if definition["name"] == tool]
        if not chosen:
            raise Failure(f"there is no tool `{tool}`", "`interlock export catalog` names the tools there are")
        source.definitions = chosen
    document = _made(kind, source)
    if output is None:
        show_json(document)
        return
    import json

    output.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if as_json:
        show_json({"written": str(output), "tools": len(source.definitions)})
    else:
        count = len(source.definitions)
        say(f"{'1 tool is' if count == 1 else f'{count} tools are'} written to {output}.")


class _Source:
    """Where the tools come from."""

    def __init__(self, title: str, version: str, definitions: list[dict[str, Any]], examples: Examples) -> None:
        self.title = title
        self.version = version
        self.definitions = definitions
        self.examples = examples


def _of_file(text: str) -> _Source:
    from .authoring import load_server, python_file

    file = python_file(text)
    if file is None:
        raise WrongUsage(f"there is no Python file {text}", "give the path of a server's file")
    server = load_server(file)
    by_name = {tool.key: tool for tool in server.tools}
    definitions = [tool.definition for tool in server.tools]
    return _Source(server.name, server.version, definitions, lambda given: list(by_name[given["name"]].make_examples()))


def _of_hub() -> _Source:
    from interlock.config.home import home_folder
    from interlock.protocols.registry.catalog import examples_of

    from .hub_link import HubLink

    with HubLink.open(home_folder()) as link:
        tools = link.ask("hub/tools").get("tools") or []
        version = str(link.hello.get("version") or "")
    definitions = [{key: tool[key] for key in _MEMBERS if tool.get(key) is not None} for tool in tools]
    return _Source("Interlock", version, definitions, examples_of)


def _made(kind: str, source: _Source) -> object:
    from datetime import UTC, datetime

    from interlock.protocols.registry.catalog import catalog, tool_schema
    from interlock.protocols.registry.openapi import openapi

    match kind:
        case "catalog":
            now = datetime.now(UTC).isoformat(timespec="seconds")
            return catalog(source.definitions, version=source.version, generated_at=now, examples=source.examples)
        case "openapi":
            return openapi(source.definitions, title=source.title, version=source.version, examples=source.examples)
    return [tool_schema(definition, source.examples) for definition in source.definitions]
