"""What a server offers: tools, resources, prompts and suggestions by name. Whoever listens hears of every change."""

from __future__ import annotations

import secrets

from interlock.server.listeners import Listeners
from interlock.server.pages import Pages
from interlock.server.parked_calls import Kept
from interlock.server.prompts import Prompt, Suggestions
from interlock.server.resources import Resource, not_found
from interlock.server.tools import Tool
from interlock.signatures import DefinitionError
from interlock.wire.seal import Seal


class Offers:
    """The lists of one server."""

    def __init__(self, page_size: int) -> None:
        seal = Seal(b"cursor", secrets.token_bytes(32))
        self.tools: Pages[Tool] = Pages("tools", page_size, seal)
        self.resources: Pages[Resource] = Pages("resources", page_size, seal)
        self.templates: Pages[Resource] = Pages("resourceTemplates", page_size, seal)
        self.prompts: Pages[Prompt] = Pages("prompts", page_size, seal)
        self.suggestions: dict[tuple[str, str], Suggestions] = {}
        self.listeners = Listeners()
        self.kept = Kept()
        """What resources held when they were last read."""

    # Changes.

    def add_tool(self, tool: Tool) -> None:
        """Raises DefinitionError if its name is taken."""
        self.tools.add(tool)
        self.listeners.list_changed("tools")

    def replace_tool(self, tool: Tool) -> None:
        """Put a tool in the place of the one of its name, if there is one."""
        self.tools.put(tool)
        self.listeners.list_changed("tools")

    def remove_tool(self, name: str) -> None:
        """Take a tool out."""
        if self.tools.remove(name):
            self.listeners.list_changed("tools")

    def add_resource(self, resource: Resource) -> None:
        """Raises DefinitionError if its address is taken."""
        (self.resources if resource.template is None else self.templates).add(resource)
        self.listeners.list_changed("resources")

    def remove_resource(self, uri: str) -> None:
        """Take a resource or a template out."""
        if self.resources.remove(uri) or self.templates.remove(uri):
            self.listeners.list_changed("resources")

    def add_prompt(self, prompt: Prompt) -> None:
        """Raises DefinitionError if its name is taken."""
        self.prompts.add(prompt)
        self.listeners.list_changed("prompts")

    def remove_prompt(self, name: str) -> None:
        """Take a prompt out."""
        if self.prompts.remove(name):
            self.listeners.list_changed("prompts")

    def suggest(self, of: str, argument: str, suggestions: Suggestions) -> None:
        """Raises DefinitionError if what it is of is offered already and has no such argument."""
        prompt, template = self.prompts.get(of), self.templates.get(of)
        if prompt is not None:
            known = argument in prompt.arguments
        else:
            known = template is None or template.template is None or argument in template.template.names
        if not known:
            raise DefinitionError(f"{suggestions.where}: {of!r} has no {argument!r} to suggest values for")
        self.suggestions[of, argument] = suggestions

    def resource_updated(self, uri: str) -> None:
        """What a resource holds has changed."""
        self.kept.forget(uri)
        self.listeners.resource_updated(uri)

    # What is there.

    def has(self, capability: str) -> bool:
        """Whether it has a capability that MCP names. Lists it always has, since an empty one can fill at any time."""
        match capability:
            case "completions":
                return bool(self.suggestions)
            case "tasks":
                return any(tool.task != "forbidden" for tool in self.tools)
        return True

    def capabilities(self) -> dict[str, object]:
        """What a server with these lists says it can do."""
        lists: dict[str, object] = {
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
        """Whether anything can be read at an address."""
        return self.resources.get(uri) is not None or any(t.match(uri) is not None for t in self.templates)
