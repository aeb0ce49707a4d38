"""What one server offers at one moment: its tools, prompts, resources and templates, ready to be listed.

An offer is made whole from a server's lists and never changed; a new listing makes a new one. Each item keeps the
server's own definition once; what clients see in its place is written from that when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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

MOST_ITEMS: Final = 100_000
LONGEST_NAME: Final = 1024
LARGEST: Final = 1024 * 1024
"""Bytes of one definition. No model could be told of a larger one, and judging it would hold everyone up."""
TOLD: Final = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations"})
"""The members of a tool's definition that help a model to choose and to call it."""


class Item(msgspec.Struct):
    """One tool, prompt, resource or template of one server."""

    kind: ItemKind
    server: str
    name: str
    """The server's own name or URI: with `server`, the identity."""
    shown: str
    """What a view of this server alone calls it: the same, or what the operator renamed it to."""
    exposed: str
    """What a view of many servers calls it."""
    definition: bytes
    """The definition as the server gave it."""
    bare: bytes
    """The definition as a view of this server alone shows it: most often the same bytes, and then the same object."""
    _full: bytes | None = None
    """What a view of many servers shows, where it is more than another name."""
    _fingerprint: str = ""
    _digest: bytes = b""

    @property
    def full(self) -> bytes:
        """The definition as a view of many servers shows it."""
        return _renamed(self.bare, self.kind, self.shown, self.exposed) if self._full is None else self._full

    @property
    def room(self) -> int:
        """Bytes that neither rendering exceeds."""
        return len(self.bare if self._full is None else self._full) + len(self.exposed)

    def fingerprint(self) -> str:
        """SHA-256 of the server's own definition, in canonical form: key order alone changes nothing."""
        if not self._fingerprint:
            self._fingerprint = fingerprint(msgspec.json.decode(self.definition))
        return self._fingerprint

    def digest(self) -> bytes:
        """What tells `full` from any other definition, and is small enough to be kept for each."""
        if not self._digest:
            self._digest = digest_of(self.full)
        return self._digest


def digest_of(definition: bytes) -> bytes:
    """A definition's digest."""
    return blake2b(definition, digest_size=16).digest()


Kept = TypeVar("Kept", bound=Item)


class Tool(Item):
    """A tool, with what a call of it needs to know."""

    idempotent: bool = False
    """The server says that a second call with the same arguments changes nothing more."""
    param_headers: tuple[ParamHeader, ...] = ()
    permissions: tuple[str, ...] | None = None
    """The permissions it says it needs; None where it does not say."""
    has_more: bool = False
    """Its definition says more than a model is told in an answer."""
    wraps: bool = False
    """Its structured content is no object, so that clients before 2026-07-28 get it inside of one."""
    tasks: Support = "forbidden"
    """Whether it can be called as a task (2025-11-25)."""

    @property
    def told(self) -> bytes:
        """What a model is told of it in an answer: of the full definition, what it needs to choose and to call."""
        return told_of(self.full) if self.has_more else self.full

    @property
    def schema(self) -> bytes:
        """What its arguments must be like."""
        return bytes(_decode_schema(self.definition).inputSchema)

    def validator(self) -> Validator | str:
        """The compiled input schema, made at first use; or why it cannot be used."""
        return _compiled(self.schema)


class _WithSchema(msgspec.Struct):
    inputSchema: msgspec.Raw


_decode_schema = msgspec.json.Decoder(_WithSchema).decode


@lru_cache(maxsize=4096)
def _compiled(schema: bytes) -> Validator | str:
    """Many tools have the same schema, if only the empty one: each is compiled and kept once."""
    from interlock.signatures.validate import Validator  # six megabytes, which wait for the first call

    try:
        return Validator(msgspec.json.decode(schema))
    except DefinitionError as cause:
        return str(cause)


class Withheld(msgspec.Struct, frozen=True):
    """Something that is not offered because of what was found in its definition, until the operator trusts it."""

    kind: str
    server: str
    name: str
    shown: str
    exposed: str
    fingerprint: str
    findings: tuple[Finding, ...]

    def trusted_by(self, trust: Iterable[str]) -> bool:
        """Whether one of the operator's `trust` entries is for exactly this definition."""
        for entry in trust:
            name, _, prefix = entry.rpartition("@")
            if name == self.name and self.fingerprint.startswith(prefix) and prefix:
                return True
        return False

    def told(self) -> str:
        """What it is and what was found, in a line."""
        rules = ", ".join(dict.fromkeys(finding.rule for finding in self.findings))
        return f"{self.kind} {self.name!r} ({rules}): {self.findings[0].message}"

    def hint(self) -> str:
        """What the operator writes to have it offered all the same."""
        return f"[servers.{self.server}] tools.trust = [{self.name + '@' + self.fingerprint[:16]!r}]"


class Offer(msgspec.Struct):
    """Everything one server offers, and what was left out of it."""

    server: str
    tools: dict[str, Tool] = {}
    """By shown name, in the server's order; so are the others."""
    prompts: dict[str, Item] = {}
    resources: dict[str, Item] = {}
    templates: dict[str, Item] = {}
    tools_by_exposed: dict[str, Tool] = {}
    prompts_by_exposed: dict[str, Item] = {}
    left_out: list[str] = []
    """Items that cannot be offered, each with the reason, for the operator."""
    withheld: dict[str, tuple[Tool, str]] = {}
    """Tools that wait for a person's approval, by exposed name, each with the decision it waits for."""
    instructions: str = ""
    """What the server wants models to know."""
    held: tuple[Withheld, ...] = ()
    """What is in quarantine."""
    lacking: dict[str, Tool] = {}
    """Tools that lack a permission, by exposed name: known, and not offered."""

    def leave_out(self, tool: Tool, reason: str) -> None:
        """Do not offer a tool after all."""
        del self.tools[tool.shown], self.tools_by_exposed[tool.exposed]
        self.left_out.append(reason)

    def withhold(self, tool: Tool, decision: str) -> None:
        """Do not offer a tool until a decision is made."""
        self.leave_out(tool, f"{tool.name}: its definition has changed; see `interlock approvals show {decision}`")
        self.withheld[tool.exposed] = (tool, decision)

    def without(self, held: Iterable[Withheld]) -> Offer:
        """The same without what is in quarantine."""
        held = tuple(held)
        out = {(each.kind, each.name) for each in held}

        def kept(items: dict[str, Kept]) -> dict[str, Kept]:
            return {name: item for name, item in items.items() if (item.kind, item.name) not in out}

        return msgspec.structs.replace(
            self,
            tools=kept(self.tools),
            prompts=kept(self.prompts),
            resources=kept(self.resources),
            templates=kept(self.templates),
            tools_by_exposed=kept(self.tools_by_exposed),
            prompts_by_exposed=kept(self.prompts_by_exposed),
            instructions="" if ("instructions", "instructions") in out else self.instructions,
            held=held,
        )

    def unpermitted(self, tools: Iterable[Tool]) -> Offer:
        """The same without tools that lack a permission."""
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
        """The tool that the server itself calls so."""
        tool = self.tools.get(name)
        if tool is not None and tool.name == name:
            return tool
        return next((tool for tool in self.tools.values() if tool.name == name), None)

    def items(self, kind: ItemKind) -> Iterable[Item]:
        """All of one kind, in the server's order."""
        match kind:
            case "tool":
                return self.tools.values()
            case "prompt":
                return self.prompts.values()
            case "resource":
                return self.resources.values()
            case "template":
                return self.templates.values()


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
    """An offer from a server's own definitions. What is wrong with an item leaves out that item, never the others.

    Where results may be cut, tools promise no structure of theirs: a client would hold the head to it.
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
            # What the server's capabilities do not say does not count (2025-11-25, Tasks: Tool-Level Negotiation).
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
    """Why an item is left out."""


def _each(definitions: Iterable[bytes], take: Callable[[bytes, _Fields], None], offer: Offer) -> None:
    for count, definition in enumerate(definitions):
        if count >= MOST_ITEMS:
            offer.left_out.append(f"everything beyond {MOST_ITEMS} items")
            return
        try:
            if len(definition) > LARGEST:
                raise _Unusable(f"its definition has {len(definition)} bytes, more than {LARGEST}")
            _means_one_thing(definition)
            take(definition, _decode_fields(definition))
        except (_Unusable, BadParamHeader, Fault, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
            offer.left_out.append(f"{definition[:60]!r}: {cause}")


def _means_one_thing(definition: bytes) -> None:
    """Raises where a name stands twice in one object, at any depth: what is judged and pinned here is one of the two,
    and what a client reads may be the other."""
    if msgspec.json.encode(msgspec.json.decode(definition)) != definition:
        strict(definition)


def _put(items: dict[str, Kept], by_exposed: dict[str, Kept], item: Kept) -> None:
    if item.shown in items or item.exposed in by_exposed:
        raise _Unusable("a second one of that name")
    items[item.shown] = by_exposed[item.exposed] = item


def _name_of(fields: _Fields, member: str) -> str:
    raw = fields.get(member)
    name = None if raw is None else msgspec.json.decode(raw)
    if not isinstance(name, str) or not name:
        raise _Unusable(f"no {member}")
    if len(name) > LONGEST_NAME:
        raise _Unusable(f"{member} is longer than {LONGEST_NAME} characters")
    if not name.isprintable():
        raise _Unusable(f"{member} holds characters that cannot be seen")
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
    # A tool with bad header annotations would be refused by every client that comes over HTTP.
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
        has_more=not TOLD.issuperset(fields),
        idempotent=hints.idempotentHint is True or hints.readOnlyHint is True,
        param_headers=headers,
        permissions=named_permissions(bytes(fields["security"])) if "security" in fields else None,
        wraps=wraps(None if output is None else bytes(output)),
        tasks=msgspec.json.decode(fields["execution"], type=_Execution).taskSupport
        if "execution" in fields
        else "forbidden",
    )


def told_of(full: bytes) -> bytes:
    """What a model is told of a tool in an answer, of its definition."""
    return msgspec.json.encode({name: value for name, value in _decode_fields(full).items() if name in TOLD})


class _Execution(msgspec.Struct):
    taskSupport: Support = "forbidden"


class _Hints(msgspec.Struct):
    readOnlyHint: bool | None = None
    idempotentHint: bool | None = None


def _named(kind: ItemKind, server: str, name: str, shown: str, definition: bytes, fields: _Fields) -> Item:
    exposed = exposed_name(server, shown)
    if shown in RESERVED:
        # A view of this server alone must not shadow the hub's own tools either.
        shown = exposed
    bare = _kept(definition, msgspec.json.encode({**fields, "name": shown}))
    led = _with_exposed_ui(server, fields)
    full = None if led is None else _kept(definition, msgspec.json.encode({**led, "name": exposed}))
    return Item(kind, server, name, shown, exposed, definition, bare, full)


def _addressed(kind: ItemKind, server: str, definition: bytes, fields: _Fields, member: str) -> Item:
    uri = _name_of(fields, member)
    bare = _kept(definition, msgspec.json.encode(fields))
    return Item(kind, server, uri, uri, exposed_uri(server, uri), definition, bare)


_IDENTITY: Final[dict[ItemKind, str]] = {
    "tool": "name",
    "prompt": "name",
    "resource": "uri",
    "template": "uriTemplate",
}


def _renamed(bare: bytes, kind: ItemKind, shown: str, exposed: str) -> bytes:
    """A definition under another name or address. Nearly all begin with it; the others are taken apart."""
    member = _IDENTITY[kind]
    head = b'{"%b":%b' % (member.encode(), msgspec.json.encode(shown))
    if bare.startswith(head):
        return b'{"%b":%b%b' % (member.encode(), msgspec.json.encode(exposed), bare[len(head) :])
    return _exact(msgspec.json.encode({**_decode_fields(bare), member: exposed}))


def _kept(definition: bytes, rendered: bytes) -> bytes:
    """The rendering, without a second copy of what is there already."""
    return definition if rendered == definition else _exact(rendered)


def _exact(encoded: bytes) -> bytes:
    """The encoder leaves room behind what it wrote: what is kept for long is better without."""
    return bytes(memoryview(encoded))


def _with_exposed_ui(server: str, fields: _Fields) -> dict[str, object] | None:
    """A tool that brings an app says so in `_meta.ui.resourceUri` (MCP Apps); the app must be found behind the hub.

    None for all others, which only get another name."""
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
