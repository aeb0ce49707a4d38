"""`interlock export`: prints the tools of a running hub, or of a server's file, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.terminal.failures import CommandFailure, WrongUsage
from interlock.cli.terminal.show import counted, json_option, show_json, show_outcome

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

    Without FILE.py, it exports the tools of the running hub under the names that clients see. The output is always
    JSON. Its examples are made from the schemas and validated.

    \b
    Examples:
      interlock export catalog ./weather.py
      interlock export openapi -o openapi.json
      interlock export schema --tool github__create_issue
    """
    source = _from_file(file) if file else _from_hub()
    if tool is not None:
        chosen = [definition for definition in source.definitions if definition["name"] == tool]
        if not chosen:
            raise CommandFailure(f"there is no tool `{tool}`", "run `interlock export catalog` to see all tools")
        source.definitions = chosen
    document = _render(kind, source)
    if output is None:
        show_json(document)
        return
    import json

    output.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    show_outcome(
        {"written": str(output), "tools": len(source.definitions)},
        f"Wrote {counted(len(source.definitions), 'tool')} to {output}.",
        as_json,
    )


class _Source:
    def __init__(self, title: str, version: str, definitions: list[dict[str, Any]], examples: Examples) -> None:
        self.title = title
        self.version = version
        self.definitions = definitions
        self.examples = examples


def _from_file(text: str) -> _Source:
    from interlock.cli.writing.authoring import load_server, python_file

    file = python_file(text)
    if file is None:
        raise WrongUsage(f"there is no Python file {text}", "give the path of a server's file")
    server = load_server(file)
    by_name = {tool.key: tool for tool in server.tools}
    definitions = [tool.definition for tool in server.tools]
    return _Source(server.name, server.version, definitions, lambda given: list(by_name[given["name"]].make_examples()))


def _from_hub() -> _Source:
    from interlock.cli.control.hub_link import HubLink
    from interlock.protocols.registry.catalog import examples_of

    with HubLink.open() as link:
        tools = link.ask("hub/tools").get("tools") or []
        version = str(link.hello.get("version") or "")
    definitions = [{key: tool[key] for key in _MEMBERS if tool.get(key) is not None} for tool in tools]
    return _Source("Interlock", version, definitions, examples_of)


def _render(kind: str, source: _Source) -> object:
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
