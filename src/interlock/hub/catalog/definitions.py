"""Makes the offer of a server from its definitions. An unusable definition is left out without harm to the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from interlock.config.settings import ToolSettings
from interlock.hub.catalog.items import SUMMARY_MEMBERS, Fields, Item, ItemKind, ItemType, Tool, decode_fields, exact
from interlock.hub.catalog.null_members import drop_nulls
from interlock.hub.catalog.offer import Offer
from interlock.hub.catalog.resource_uris import exposed_uri
from interlock.judge.names import RESERVED, exposed_name
from interlock.protocols.mcp.headers import BadParamHeader, param_headers
from interlock.protocols.mcp.older_revisions import wraps
from interlock.protocols.mcp.tasks import Support
from interlock.protocols.mgp.security import named_permissions
from interlock.protocols.patterns import PatternSet
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json_or
from interlock.wire.names import may_spell
from interlock.wire.payload_checks import strict

MAX_ITEMS: Final = 100_000
MAX_NAME_CHARS: Final = 1024
MAX_DEFINITION_BYTES: Final = 1024 * 1024
"""Upper bound for a definition. No model can use a larger one, and judging it would delay other servers."""


OnlyFor = Mapping[tuple[ItemKind, str], frozenset[str]]
"""The audiences of items that not everybody has, by kind and the server's own name or address."""


def make_offer(
    server: str,
    tools: Iterable[bytes] = (),
    prompts: Iterable[bytes] = (),
    resources: Iterable[bytes] = (),
    templates: Iterable[bytes] = (),
    *,
    rules: ToolSettings | None = None,
    whole_results: bool = True,
    tasks: bool = False,
    only_for: OnlyFor | None = None,
    instructions: str = "",
) -> Offer:
    """Make an offer of a server's definitions.

    Where the hub may cut results, tools declare no output schema, as the first page would not satisfy it.
    """
    offer = Offer(server, instructions=instructions)
    items = _OfferItems(offer, rules or ToolSettings(), only_for or {}, whole_results=whole_results, tasks=tasks)
    _each(tools, items.add_tool, offer)
    _each(prompts, items.add_prompt, offer)
    _each(resources, items.add_resource, offer)
    _each(templates, items.add_template, offer)
    return offer


class _OfferItems:
    """Adds items to an offer. Each method raises if its item is unusable."""

    def __init__(
        self, offer: Offer, rules: ToolSettings, only_for: OnlyFor, *, whole_results: bool, tasks: bool
    ) -> None:
        self._offer = offer
        self._rules = rules
        self._only_for = only_for
        self._whole_results = whole_results
        self._tasks = tasks
        self._allowed = PatternSet(rules.allow or ("**",), rules.deny)

    def add_tool(self, definition: bytes, fields: Fields) -> None:
        name = _name_of(fields, "name")
        if not self._allowed.allows(name):
            return
        if not self._whole_results:
            fields.pop("outputSchema", None)
        if not self._tasks and "execution" in fields and not _forbids_tasks(fields["execution"]):
            # Without the server's capability this member is void (2025-11-25, Tasks: Tool-Level Negotiation).
            del fields["execution"]
        item = _tool(self._offer.server, name, definition, fields, self._rules, self._only_for.get(("tool", name)))
        _put(self._offer.tools, self._offer.tools_by_exposed, item)
        self._offer.add_audiences(item.only_for)

    def add_prompt(self, definition: bytes, fields: Fields) -> None:
        name = _name_of(fields, "name")
        item = _named("prompt", self._offer.server, name, name, definition, fields)
        _put(self._offer.prompts, self._offer.prompts_by_exposed, item)

    def add_resource(self, definition: bytes, fields: Fields) -> None:
        item = _addressed("resource", self._offer.server, definition, fields, "uri", self._only_for)
        _put(self._offer.resources, {}, item)
        self._offer.add_audiences(item.only_for)

    def add_template(self, definition: bytes, fields: Fields) -> None:
        item = _addressed("template", self._offer.server, definition, fields, "uriTemplate")
        _put(self._offer.templates, {}, item)


class _Unusable(ValueError):
    """The reason why an item is left out."""


def _each(definitions: Iterable[bytes], take: Callable[[bytes, Fields], None], offer: Offer) -> None:
    for count, definition in enumerate(definitions):
        if count >= MAX_ITEMS:
            offer.left_out.append(f"all items beyond {MAX_ITEMS}")
            return
        try:
            if len(definition) > MAX_DEFINITION_BYTES:
                raise _Unusable(f"its definition has {len(definition)} bytes, more than {MAX_DEFINITION_BYTES}")
            _refuse_duplicates(definition)
            fields = decode_fields(definition)
            drop_nulls(definition, fields)
            take(definition, fields)
        except (_Unusable, BadParamHeader, Fault, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
            offer.left_out.append(f"{definition[:60]!r}: {cause}")


def _refuse_duplicates(definition: bytes) -> None:
    """Refuse duplicate names at any depth: the hub would judge one value, and a client might read the other."""
    if msgspec.json.encode(msgspec.json.decode(definition)) != definition:
        strict(definition)


def _put(items: dict[str, ItemType], by_exposed: dict[str, ItemType], item: ItemType) -> None:
    if item.shown in items or item.exposed in by_exposed:
        raise _Unusable("another item has the same name")
    items[item.shown] = by_exposed[item.exposed] = item


def _name_of(fields: Fields, member: str) -> str:
    raw = fields.get(member)
    name = None if raw is None else msgspec.json.decode(raw)
    if not isinstance(name, str) or not name:
        raise _Unusable(f"no {member}")
    if len(name) > MAX_NAME_CHARS:
        raise _Unusable(f"{member} is longer than {MAX_NAME_CHARS} characters")
    if not name.isprintable():
        raise _Unusable(f"{member} contains invisible characters")
    return name


def _tool(
    server: str, name: str, definition: bytes, fields: Fields, rules: ToolSettings, only_for: frozenset[str] | None
) -> Tool:
    schema = fields.get("inputSchema")
    if schema is None or bytes(schema)[:1] != b"{":
        raise _Unusable("no inputSchema")
    if name in rules.describe:
        fields["description"] = msgspec.Raw(msgspec.json.encode(rules.describe[name]))
    item = _named("tool", server, name, rules.rename.get(name, name), definition, fields)
    hints = msgspec.json.decode(fields["annotations"], type=_Hints) if "annotations" in fields else _Hints()
    raw = bytes(schema)
    output = fields.get("outputSchema")
    # Every HTTP client would refuse a tool with bad header annotations.
    headers = param_headers(msgspec.json.decode(raw)) if may_spell(raw, b"x-mcp-header") else ()
    return Tool(
        item.kind,
        server,
        name,
        item.shown,
        item.exposed,
        definition,
        item.bare,
        item._full,
        only_for=only_for,
        has_more=not SUMMARY_MEMBERS.issuperset(fields),
        idempotent=hints.idempotentHint is True or hints.readOnlyHint is True,
        param_headers=headers,
        permissions=named_permissions(bytes(fields["security"])) if "security" in fields else None,
        wraps=wraps(None if output is None else bytes(output)),
        tasks=msgspec.json.decode(fields["execution"], type=_Execution).taskSupport
        if "execution" in fields
        else "forbidden",
    )


class _Execution(msgspec.Struct):
    taskSupport: Support = "forbidden"


def _forbids_tasks(execution: msgspec.Raw) -> bool:
    return decode_json_or(execution, _Execution, _Execution("required")).taskSupport == "forbidden"


class _Hints(msgspec.Struct):
    readOnlyHint: bool | None = None
    idempotentHint: bool | None = None


def _named(kind: ItemKind, server: str, name: str, shown: str, definition: bytes, fields: Fields) -> Item:
    exposed = exposed_name(server, shown)
    if shown in RESERVED:
        # The hub's own tools keep their names in a view of one server, too.
        shown = exposed
    bare = _shared(definition, msgspec.json.encode({**fields, "name": shown}))
    with_ui = _with_exposed_ui(server, fields)
    full = None if with_ui is None else _shared(definition, msgspec.json.encode({**with_ui, "name": exposed}))
    return Item(kind, server, name, shown, exposed, definition, bare, full)


def _addressed(
    kind: ItemKind, server: str, definition: bytes, fields: Fields, member: str, only_for: OnlyFor | None = None
) -> Item:
    uri = _name_of(fields, member)
    bare = _shared(definition, msgspec.json.encode(fields))
    audiences = None if only_for is None else only_for.get((kind, uri))
    return Item(kind, server, uri, uri, exposed_uri(server, uri), definition, bare, only_for=audiences)


def _shared(definition: bytes, rendered: bytes) -> bytes:
    """The rendered definition, or the original object if they are equal, to save memory."""
    return definition if rendered == definition else exact(rendered)


def _with_exposed_ui(server: str, fields: Fields) -> dict[str, object] | None:
    """The fields of a tool with an app (MCP Apps): `_meta.ui.resourceUri` gets the hub's address. None for others."""
    raw = fields.get("_meta")
    if raw is None or not may_spell(bytes(raw), b"ui://"):
        return None
    meta = msgspec.json.decode(raw)
    if not isinstance(meta, dict):
        return None
    ui = meta.get("ui")
    if isinstance(ui, dict) and isinstance(ui.get("resourceUri"), str):
        ui["resourceUri"] = exposed_uri(server, ui["resourceUri"])
    if isinstance(meta.get("ui/resourceUri"), str):
        meta["ui/resourceUri"] = exposed_uri(server, meta["ui/resourceUri"])
    return {**fields, "_meta": meta}
