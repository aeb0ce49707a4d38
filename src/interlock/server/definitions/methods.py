"""The part of `Server` that offers tools, resources, prompts and completions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Unpack, overload

from interlock.server.definitions.offers import Offers
from interlock.server.definitions.options import PromptOptions, ResourceOptions, ToolOptions
from interlock.server.definitions.prompts import Prompt, Suggestions
from interlock.server.definitions.resources import Resource
from interlock.server.definitions.tools import Tool
from interlock.signatures import DefinitionError

F = TypeVar("F", bound=Callable[..., Any])


class DefinitionMethods:
    """The definitions of a server, which may change while it runs. Clients are notified of each change."""

    _offers: Offers

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, **options: Any) -> Any:
        """Offer a function as a tool. Its type hints are the schemas, its docstring is the description."""
        return decorated("tool", function, lambda given: self.add_tool(Tool(given, **options)))

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Offer a function as the resource at an address, or at every address of a template: `notes://{name}`.

        It returns a text, bytes, a value with a JSON form, or `ResourceContents`.
        """
        if not isinstance(uri, str):
            raise TypeError('a resource has an address: write @server.resource("notes://{name}")')
        return _decorator(lambda given: self.add_resource(Resource(uri, given, **options)))

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(self, function: Any = None, **options: Any) -> Any:
        """Offer a function as a prompt: it returns a text, content, `Message`s, or a list of these."""
        return decorated("prompt", function, lambda given: self.add_prompt(Prompt(given, **options)))

    def completion(self, of: str, argument: str) -> Callable[[F], F]:
        """Suggest values for an argument of a prompt, or a variable of a template, named by its name or its text.

        The function takes the text typed so far as `value`, and optionally the other arguments as `others`.
        """
        return _decorator(lambda given: self._offers.suggest(of, argument, Suggestions(given)))

    def add_tool(self, tool: Tool) -> None:
        """Offer a tool. Raises DefinitionError if its name is taken."""
        self._offers.tools.add(tool)

    def replace_tool(self, tool: Tool) -> None:
        """Offer a tool, and replace the one of its name if there is one. Calls under way keep the old one."""
        self._offers.tools.put(tool)

    def get_tool(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._offers.tools.get(name)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool, in the order they are listed."""
        return tuple(self._offers.tools)

    def remove_tool(self, name: str) -> None:
        """Offer a tool no longer."""
        self._offers.tools.remove(name)

    def add_resource(self, resource: Resource) -> None:
        """Offer a resource or a template. Raises DefinitionError if its address is taken."""
        (self._offers.resources if resource.template is None else self._offers.templates).add(resource)

    def remove_resource(self, uri: str) -> None:
        """Offer a resource or a template no longer."""
        self._offers.resources.remove(uri)
        self._offers.templates.remove(uri)

    def add_prompt(self, prompt: Prompt) -> None:
        """Offer a prompt. Raises DefinitionError if its name is taken."""
        self._offers.prompts.add(prompt)

    def remove_prompt(self, name: str) -> None:
        """Offer a prompt no longer."""
        self._offers.prompts.remove(name)

    def resource_updated(self, uri: str) -> None:
        """Notify every subscriber that a resource has changed, and drop its cached reads. From any thread."""
        self._offers.resource_updated(uri)


def decorated(what: str, function: Any, offer: Callable[[Any], None]) -> Any:
    """A decorator with options, or the function that the decorator stands on without any."""
    if isinstance(function, str):
        raise TypeError(f"@server.{what} takes options by their names: write @server.{what}(name={function!r})")
    return _decorator(offer) if function is None else _decorator(offer)(function)


def _decorator(offer: Callable[[Any], None]) -> Callable[[F], F]:
    def decorate(given: F) -> F:
        try:
            offer(given)
        except DefinitionError as error:
            # Its message names the file, the line and the parameter; a traceback through this library would hide them.
            raise error.with_traceback(None) from None
        return given

    return decorate
