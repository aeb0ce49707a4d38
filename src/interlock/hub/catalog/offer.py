"""The offer of one server: its tools, prompts, resources and templates, ready to be listed.

Each listing makes a new offer. An item keeps the server's definition once; the definitions for clients are rendered
from it on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import msgspec

from interlock.config.settings import Tools
from interlock.hub.catalog.resource_uris import exposed_uri
from interlock.judge.findings import Finding
from interlock.judge.fingerprints import fingerprint
from interlock.judge.names import RESERVED, exposed_name
from interlock.protocols.mcp.headers import BadParamHeader, ParamHeader, param_headers
from interlock.protocols.mcp.older_revisions import wraps
from interlock.protocols.mcp.tasks import Support
from interlock.protocols.mgp.security import named_permissions
from interlock.protocols.patterns import PatternSet
from interlock.signatures.problems import DefinitionError
from interlock.wire.errors import Fault
from interlock.wire.messages import strict
from interlock.wire.names import may_spell

if TYPE_CHECKING:
    from interlock.signatures.validate import Validator

ItemKind = Literal["tool", "prompt", "resource", "template"]

MAX_ITEMS: Final = 100_000
MAX_NAME_CHARS: Final = 1024
MAX_DEFINITION_BYTES: Final = 1024 * 1024
"""No model can use a larger definition, and judging one would delay everyone."""
SUMMARY_MEMBERS: Final = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations"})
"""The members of a tool's definition that a model needs to choose and to call it."""


class Item(msgspec.Struct):
    """One tool, prompt, resource or template of one server."""

    kind: ItemKind
    server: str
    name: str
    """The server's own name or URI. Together with `server`, it is the identity of the item."""
    shown: str
    """The name in a view of this server alone: the server's, or the one that the operator set."""
    exposed: str
    """The name in a view of many servers."""
    definition: bytes
    """The server's definition."""
    bare: bytes
    """The definition in a view of this server alone. Most often it is the same object as `definition`."""
    _full: bytes | None = None
    """The definition in a view of many servers, if more than the name differs."""
    _fingerprint: str = ""
    _digest: bytes = b""

    @property
    def full(self) -> bytes:
        """The definition in a view of many servers."""
        return _renamed(self.bare, self.kind, self.shown, self.exposed) if self._full is None else self._full

    @property
    def max_bytes(self) -> int:
        """An upper bound for the bytes of either definition."""
        return len(self.bare if self._full is None else self._full) + len(self.exposed)

    def fingerprint(self) -> str:
        """SHA-256 of the server's definition in canonical form, in which the order of keys does not matter."""
        if not self._fingerprint:
            self._fingerprint = fingerprint(msgspec.json.decode(self.definition))
        return self._fingerprint

    def digest(self) -> bytes:
        """The digest of `full`."""
        if not self._digest:
            self._digest = digest_of(self.full)
        return self._digest


def digest_of(definition: bytes) -> bytes:
    """The digest of a definition."""
    return blake2b(definition, digest_size=16).digest()


ItemType = TypeVar("ItemType", bound=Item)


class Tool(Item):
    """A tool, with the properties that its calls depend on."""

    idempotent: bool = False
    """Whether the server declares that a repeated call changes nothing more."""
    param_headers: tuple[ParamHeader, ...] = ()
    permissions: tuple[str, ...] | None = None
    """The permissions that the tool declares; None if it declares none."""
    has_more: bool = False
    """Whether its definition has members beyond its summary."""
    wraps: bool = False
    """Whether its structured content is not an object, so that clients before 2026-07-28 get it wrapped in one."""
    tasks: Support = "forbidden"
    """Whether it can be called as a task (2025-11-25)."""

    @property
    def summary(self) -> bytes:
        """The part of the full definition that a model needs to choose and to call the tool."""
        return summary_of(self.full) if self.has_more else self.full

    @property
    def schema(self) -> bytes:
        """The schema of its arguments."""
        return bytes(_decode_schema(self.definition).inputSchema)

    def validator(self) -> Validator | str:
        """The compiled input schema, or the reason why it cannot be used."""
        return _compiled(self.schema)


class _WithSchema(msgspec.Struct):
    inputSchema: msgspec.Raw


_decode_schema = msgspec.json.Decoder(_WithSchema).decode


@lru_cache(maxsize=4096)
def _compiled(schema: bytes) -> Validator | str:
    """Compile each schema once: many tools share one, such as the empty schema."""
    from interlock.signatures.validate import Validator  # imported late, as it takes six megabytes

    try:
        return Validator(msgspec.json.decode(schema))
    except DefinitionError as cause:
        return str(cause)


class QuarantinedItem(msgspec.Struct, frozen=True):
    """An item in quarantine for findings in its definition, until the operator trusts it."""

    kind: str
    server: str
    name: str
    shown: str
    exposed: str
    fingerprint: str
    findings: tuple[Finding, ...]

    def trusted_by(self, trust: Iterable[str]) -> bool:
        """Whether one of the operator's `trust` entries matches this very definition."""
        for entry in trust:
            name, _, prefix = entry.rpartition("@")
            if name == self.name and self.fingerprint.startswith(prefix) and prefix:
                return True
        return False

    def describe(self) -> str:
        """The item and its findings in one line."""
        rules = ", ".join(dict.fromkeys(finding.rule for finding in self.findings))
        return f"{self.kind} {self.name!r} ({rules}): {self.findings[0].message}"

    def hint(self) -> str:
        """The setting that allows the item."""
        return f"[servers.{self.server}] tools.trust = [{self.name + '@' + self.fingerprint[:16]!r}]"


class Offer(msgspec.Struct):
    """All items of one server, and those that the hub does not offer."""

    server: str
    tools: dict[str, Tool] = {}
    """By shown name, in the server's order, as all kinds are."""
    prompts: dict[str, Item] = {}
    resources: dict[str, Item] = {}
    templates: dict[str, Item] = {}
    tools_by_exposed: dict[str, Tool] = {}
    prompts_by_exposed: dict[str, Item] = {}
    left_out: list[str] = []
    """Items that the hub cannot offer, each with the reason, for the operator."""
    withheld: dict[str, tuple[Tool, str]] = {}
    """Tools that wait for approval of a changed definition, by exposed name, each with the id of the decision."""
    instructions: str = ""
    """The server's instructions for models."""
    quarantined: tuple[QuarantinedItem, ...] = ()
    lacking: dict[str, Tool] = {}
    """Tools that lack a permission, by exposed name."""

    def leave_out(self, tool: Tool, reason: str) -> None:
        """Remove a tool from the offer."""
        del self.tools[tool.shown], self.tools_by_exposed[tool.exposed]
        self.left_out.append(reason)

    def all_tool_names(self) -> set[str]:
        """The server's own names of all its tools, also of those that are not offered now."""
        withheld = (tool for tool, _ in self.withheld.values())
        names = {tool.name for tool in (*self.tools.values(), *self.lacking.values(), *withheld)}
        return names | {each.name for each in self.quarantined if each.kind == "tool"}

    def withhold(self, tool: Tool, decision: str) -> None:
        """Remove a tool until its changed definition is approved."""
        self.leave_out(tool, f"{tool.name}: its definition has changed; see `interlock approvals show {decision}`")
        self.withheld[tool.exposed] = (tool, decision)

    def without(self, quarantined: Iterable[QuarantinedItem]) -> Offer:
        """The offer without items in quarantine."""
        quarantined = tuple(quarantined)
        removed = {(each.kind, each.name) for each in quarantined}

        def clean(items: dict[str, ItemType]) -> dict[str, ItemType]:
            return {name: item for name, item in items.items() if (item.kind, item.name) not in removed}

        return msgspec.structs.replace(
            self,
            tools=clean(self.tools),
            prompts=clean(self.prompts),
            resources=clean(self.resources),
            templates=clean(self.templates),
            tools_by_exposed=clean(self.tools_by_exposed),
            prompts_by_exposed=clean(self.prompts_by_exposed),
            instructions="" if ("instructions", "instructions") in removed else self.instructions,
            quarantined=quarantined,
        )

    def unpermitted(self, tools: Iterable[Tool]) -> Offer:
        """The offer without tools that lack a permission."""
        lacking = {tool.exposed: tool for tool in tools}
        if not lacking:
            return self
        return msgspec.structs.replace(
            self,
            tools={name: tool for name, tool in self.tools.items() if tool.exposed not in lacking},
            tools_by_exposed={name: tool for name, tool in self.tools_by_exposed.items() if name not in lacking},
            lacking=lacking,
        )

    def named(self, name: str) -> Tool | None:
        """The tool with this name at the server."""
        tool = self.tools.get(name)
        if tool is not None and tool.name == name:
            return tool
        return next((tool for tool in self.tools.values() if tool.name == name), None)

    def items(self, kind: ItemKind) -> Iterable[Item]:
        """All items of one kind, in the server's order."""
        by_kind: dict[ItemKind, Mapping[str, Item]] = {
            "tool": self.tools,
            "prompt": self.prompts,
            "resource": self.resources,
            "template": self.templates,
        }
        return by_kind[kind].values()


def make_offer(
    server: str,
    tools: Iterable[bytes] = (),
    prompts: Iterable[bytes] = (),
    resources: Iterable[bytes] = (),
    templates: Iterable[bytes] = (),
    *,
    rules: Tools | None = None,
    whole_results: bool = True,
    tasks: bool = False,
) -> Offer:
    """Make an offer of a server's definitions. An unusable item is left out without harm to the others.

    Where the hub may cut results, tools declare no output schema, as the first page would not satisfy it.
    """
    offer = Offer(server)
    rules = rules or Tools()
    allowed = PatternSet(rules.allow or ("**",), rules.deny)

    def tool(definition: bytes, fields: _Fields) -> None:
        name = _name_of(fields, "name")
        if not allowed.allows(name):
            return
        if not whole_results:
            fields.pop("outputSchema", None)
        if not tasks:
            # Without the server's capability this member is void (2025-11-25, Tasks: Tool-Level Negotiation).
            fields.pop("execution", None)
        item = _tool(server, name, definition, fields, rules)
        _put(offer.tools, offer.tools_by_exposed, item)

    def prompt(definition: bytes, fields: _Fields) -> None:
        name = _name_of(fields, "name")
        item = _named("prompt", server, name, name, definition, fields)
        _put(offer.prompts, offer.prompts_by_exposed, item)

    def resource(definition: bytes, fields: _Fields) -> None:
        _put(offer.resources, {}, _addressed("resource", server, definition, fields, "uri"))

    def template(definition: bytes, fields: _Fields) -> None:
        _put(offer.templates, {}, _addressed("template", server, definition, fields, "uriTemplate"))

    _each(tools, tool, offer)
    _each(prompts, prompt, offer)
    _each(resources, resource, offer)
    _each(templates, template, offer)
    return offer


_Fields = dict[str, msgspec.Raw]
_decode_fields = msgspec.json.Decoder(_Fields).decode


class _Unusable(ValueError):
    """The reason why an item is left out."""


def _each(definitions: Iterable[bytes], take: Callable[[bytes, _Fields], None], offer: Offer) -> None:
    for count, definition in enumerate(definitions):
        if count >= MAX_ITEMS:
            offer.left_out.append(f"all items beyond {MAX_ITEMS}")
            return
        try:
            if len(definition) > MAX_DEFINITION_BYTES:
                raise _Unusable(f"its definition has {len(definition)} bytes, more than {MAX_DEFINITION_BYTES}")
            _refuse_duplicates(definition)
            take(definition, _decode_fields(definition))
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


def _name_of(fields: _Fields, member: str) -> str:
    raw = fields.get(member)
    name = None if raw is None else msgspec.json.decode(raw)
    if not isinstance(name, str) or not name:
        raise _Unusable(f"no {member}")
    if len(name) > MAX_NAME_CHARS:
        raise _Unusable(f"{member} is longer than {MAX_NAME_CHARS} characters")
    if not name.isprintable():
        raise _Unusable(f"{member} contains invisible characters")
    return name


def _tool(server: str, name: str, definition: bytes, fields: _Fields, rules: Tools) -> Tool:
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
        has_more=not SUMMARY_MEMBERS.issuperset(fields),
        idempotent=hints.idempotentHint is True or hints.readOnlyHint is True,
        param_headers=headers,
        permissions=named_permissions(bytes(fields["security"])) if "security" in fields else None,
        wraps=wraps(None if output is None else bytes(output)),
        tasks=msgspec.json.decode(fields["execution"], type=_Execution).taskSupport
        if "execution" in fields
        else "forbidden",
    )


def summary_of(full: bytes) -> bytes:
    """The members of a tool's definition that a model needs."""
    return msgspec.json.encode({name: value for name, value in _decode_fields(full).items() if name in SUMMARY_MEMBERS})


class _Execution(msgspec.Struct):
    taskSupport: Support = "forbidden"


class _Hints(msgspec.Struct):
    readOnlyHint: bool | None = None
    idempotentHint: bool | None = None


def _named(kind: ItemKind, server: str, name: str, shown: str, definition: bytes, fields: _Fields) -> Item:
    exposed = exposed_name(server, shown)
    if shown in RESERVED:
        # The hub's own tools keep their names in a view of one server, too.
        shown = exposed
    bare = _shared(definition, msgspec.json.encode({**fields, "name": shown}))
    with_ui = _with_exposed_ui(server, fields)
    full = None if with_ui is None else _shared(definition, msgspec.json.encode({**with_ui, "name": exposed}))
    return Item(kind, server, name, shown, exposed, definition, bare, full)


def _addressed(kind: ItemKind, server: str, definition: bytes, fields: _Fields, member: str) -> Item:
    uri = _name_of(fields, member)
    bare = _shared(definition, msgspec.json.encode(fields))
    return Item(kind, server, uri, uri, exposed_uri(server, uri), definition, bare)


_IDENTITY: Final[dict[ItemKind, str]] = {
    "tool": "name",
    "prompt": "name",
    "resource": "uri",
    "template": "uriTemplate",
}


def _renamed(bare: bytes, kind: ItemKind, shown: str, exposed: str) -> bytes:
    """A definition under another name or address. Nearly all start with the name; the others are decoded."""
    member = _IDENTITY[kind]
    head = b'{"%b":%b' % (member.encode(), msgspec.json.encode(shown))
    if bare.startswith(head):
        return b'{"%b":%b%b' % (member.encode(), msgspec.json.encode(exposed), bare[len(head) :])
    return _exact(msgspec.json.encode({**_decode_fields(bare), member: exposed}))


def _shared(definition: bytes, rendered: bytes) -> bytes:
    """The rendered definition, or the original object if they are equal, to save memory."""
    return definition if rendered == definition else _exact(rendered)


def _exact(encoded: bytes) -> bytes:
    """A copy without the spare memory that the encoder leaves at the end."""
    return bytes(memoryview(encoded))


def _with_exposed_ui(server: str, fields: _Fields) -> dict[str, object] | None:
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
