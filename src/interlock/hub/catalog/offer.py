"""The offer of one server: its tools, prompts, resources and templates, ready to be listed.

Each listing makes a new offer. An item keeps the server's definition once; the definitions for clients are rendered
from it on demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from interlock.hub.catalog.items import Item, ItemKind, ItemType, Tool
from interlock.judge.findings import Finding


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
        return f"in [servers.{self.server}], add the line tools.trust = [{self.name + '@' + self.fingerprint[:16]!r}]"


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
    audiences: frozenset[str] = frozenset()
    """The audiences of items that not everybody has."""

    def add_audiences(self, audiences: frozenset[str] | None) -> None:
        """Note the audiences of an item; None for one that everybody has."""
        self.audiences |= audiences or frozenset()

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
