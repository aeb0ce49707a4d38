"""The tools, resources, prompts and completions that a server offers, by name."""

from __future__ import annotations

import secrets
from functools import partial

from interlock.server.definitions.pages import ItemPages
from interlock.server.definitions.prompts import Prompt, Suggestions
from interlock.server.definitions.resource_cache import ResourceCache
from interlock.server.definitions.resources import Resource, not_found
from interlock.server.definitions.tools import Tool
from interlock.server.requests.content import Members
from interlock.server.requests.listeners import Listeners
from interlock.signatures import DefinitionError
from interlock.wire.seal import Seal


class Offers:
    """The lists of one server."""

    def __init__(self, page_size: int) -> None:
        self.listeners = Listeners()
        pages = partial(
            ItemPages, page_size=page_size, seal=Seal(b"cursor", secrets.token_bytes(32)), listeners=self.listeners
        )
        self.tools: ItemPages[Tool] = pages("tools", "tools")
        self.resources: ItemPages[Resource] = pages("resources", "resources")
        self.templates: ItemPages[Resource] = pages("resourceTemplates", "resources")
        self.prompts: ItemPages[Prompt] = pages("prompts", "prompts")
        self.suggestions: dict[tuple[str, str], Suggestions] = {}
        self.cache = ResourceCache()

    def suggest(self, of: str, argument: str, suggestions: Suggestions) -> None:
        """Add suggestions for an argument. Raises DefinitionError if its prompt or template is known and lacks it."""
        prompt, resource = self.prompts.get(of), self.templates.get(of)
        if prompt is not None:
            known = argument in prompt.arguments
        else:
            known = resource is None or resource.template is None or argument in resource.template.names
        if not known:
            raise DefinitionError(f"{suggestions.where}: {of!r} has no {argument!r} to suggest values for")
        self.suggestions[of, argument] = suggestions

    def resource_updated(self, uri: str) -> None:
        """A resource has changed: its cached reads are dropped and its subscribers notified."""
        self.cache.forget(uri)
        self.listeners.resource_updated(uri)

    def has(self, capability: str) -> bool:
        """Whether the server has a capability of MCP. It always has its lists, since an empty one can fill later."""
        match capability:
            case "completions":
                return bool(self.suggestions)
            case "tasks":
                return any(tool.task != "forbidden" for tool in self.tools)
        return True

    def capabilities(self) -> Members:
        """The capabilities that the server declares, except tasks."""
        lists: Members = {
            "logging": {},
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
        }
        return {**lists, "completions": {}} if self.has("completions") else lists

    def find_resource(self, uri: str) -> tuple[Resource, dict[str, str]]:
        """The resource at an address, with the variables of its template. Raises RESOURCE_NOT_FOUND."""
        resource = self.resources.get(uri)
        if resource is not None:
            return resource, {}
        for template in self.templates:
            variables = template.match(uri)
            if variables is not None:
                return template, variables
        raise not_found(uri)

    def knows_resource(self, uri: str) -> bool:
        """Whether a resource or a template covers an address."""
        return self.resources.get(uri) is not None or any(t.match(uri) is not None for t in self.templates)
