"""`Server`: tools, resources, prompts and completions written as typed Python functions, served in every revision.

It is a `Service`: transports hand it requests, and each gets exactly one answer.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.headers import check_params
from interlock.protocols.mcp.meta import SERVER_INFO
from interlock.protocols.mcp.methods import LOG_LEVELS, METHODS
from interlock.protocols.mcp.revisions import MODERN_NAMES
from interlock.protocols.mcp.tasks import Support
from interlock.protocols.registry.errors import registry_fault, told
from interlock.protocols.traces import new_trace_id, read_traceparent
from interlock.server.checks import ArgumentsCheck
from interlock.server.content import Annotations, Completion, Icon, Meta, ToolHints
from interlock.server.context import SessionState
from interlock.server.kept import Kept
from interlock.server.listeners import MOST_URIS, Filter, Listeners
from interlock.server.nobody import NobodyThere
from interlock.server.pages import Pages
from interlock.server.prompts import Prompt, Suggestions, completion_members
from interlock.server.resources import UNCACHED, Resource, Scope, cache_hints, not_found
from interlock.server.task_desk import From, TaskDesk, Wanted
from interlock.server.tasks import TaskLimits
from interlock.server.threads import Threads
from interlock.server.tools import Tool
from interlock.server.work import Work
from interlock.transports.exchange import Caller, Exchange, Session
from interlock.transports.parking import Limits, Parking, binding_of
from interlock.wire.errors import Fault
from interlock.wire.limits import DEFAULT
from interlock.wire.messages import Notification, check_shape
from interlock.wire.seal import Seal

if TYPE_CHECKING:
    from interlock.server.over_http import Address

log = logging.getLogger("interlock.server")

F = TypeVar("F", bound=Callable[..., Any])
P = TypeVar("P")
Admit = Callable[[str, Mapping[bytes, bytes]], Caller]
Start = Callable[[Work], Coroutine[Any, Any, bytes]]


class Anyone(msgspec.Struct, frozen=True):
    """A caller of whom nothing is known, or whom the transport vouches for."""

    owner: str = "anyone"


class Server:
    """An MCP server."""

    def __init__(
        self,
        name: str,
        version: str = "0.1.0",
        *,
        instructions: str | None = None,
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[Icon] = (),
        page_size: int = 500,
        ttl_ms: int = 60_000,
        scope: Scope = "private",
        threads: int = 32,
        parked: Limits | None = None,
        tasks: TaskLimits | None = None,
        admit: Admit | None = None,
    ) -> None:
        said = {"title": title, "description": description, "websiteUrl": website_url, "icons": tuple(icons) or None}
        info = {"name": name, "version": version, **{key: value for key, value in said.items() if value is not None}}
        self.name = name
        self.version = version
        self.signed_meta: Mapping[str, object] = {SERVER_INFO: info}
        """What every result of the stateless era says about who made it."""
        self.threads = Threads(threads)
        secret = secrets.token_bytes(32)
        seal = Seal(b"cursor", secret)
        self._info = info
        self._instructions = instructions
        self._admit = admit
        self._tools: Pages[Tool] = Pages("tools", page_size, seal)
        self._resources: Pages[Resource] = Pages("resources", page_size, seal)
        self._templates: Pages[Resource] = Pages("resourceTemplates", page_size, seal)
        self._prompts: Pages[Prompt] = Pages("prompts", page_size, seal)
        self._suggestions: dict[tuple[str, str], Suggestions] = {}
        self._parking = Parking(parked or Limits(), secret)
        self._listeners = Listeners()
        self._task_desk = TaskDesk(
            tasks or TaskLimits(),
            self._listeners,
            seal,
            self.signed_meta,
            lists=admit is not None,
            offered=lambda: self._offers("tasks"),
        )
        self._kept = Kept()
        self._cache = cache_hints(ttl_ms, scope)
        self._head = b'{"resultType":"complete","_meta":%b,' % msgspec.json.encode(self.signed_meta)
        self._handlers: dict[str, Callable[[Exchange], None]] = {
            "tools/call": self._call_tool,
            "tools/validate": self._validate_tool,
            "tools/list": lambda exchange: self._list(exchange, self._tools),
            "resources/list": lambda exchange: self._list(exchange, self._resources),
            "resources/templates/list": lambda exchange: self._list(exchange, self._templates),
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "prompts/list": lambda exchange: self._list(exchange, self._prompts),
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
            **self._task_desk.methods,
        }

    # What it offers.

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        hints: ToolHints | None = None,
        icons: Sequence[Icon] = (),
        headers: Mapping[str, str] | None = None,
        security: Mapping[str, object] | None = None,
        meta: Meta | None = None,
        input_schema: dict[str, object] | None = None,
        category: str | None = None,
        tags: Sequence[str] = (),
        version: str | None = None,
        deprecated: bool | str = False,
        author: str | None = None,
        documentation_url: str | None = None,
        validators: Sequence[ArgumentsCheck] = (),
        examples: Sequence[Mapping[str, object]] = (),
        timeout_s: float | None = None,
        task: Support = "forbidden",
        task_from: From = "start",
    ) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, **options: Any) -> Any:
        """Offer a function as a tool. Its type hints are the schemas, its docstring is the description.

        `headers` names parameters that clients repeat as `Mcp-Param-*` headers; `security` is passed through as MGP's.
        `validators` see the arguments after the schema has passed them; `timeout_s` begins anew with each progress.
        With `task`, clients that can may have it run on while they do something else; with `task_from="told"` the
        function says from where on, with `ctx.become_task()`.
        """
        return _decorate(function, lambda given: self.add_tool(Tool(given, **options)))

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
        icons: Sequence[Icon] = (),
        meta: Meta | None = None,
        ttl_ms: int = 0,
        scope: Scope = "private",
    ) -> Callable[[F], F]:
        """Offer a function as the resource at an address, or at every address of a template: `notes://{name}`.

        It returns a text, bytes, something with a JSON form, or `ResourceContents`.
        """

        def offer(function: F) -> F:
            self.add_resource(
                Resource(
                    uri,
                    function,
                    name=name,
                    title=title,
                    description=description,
                    mime_type=mime_type,
                    size=size,
                    annotations=annotations,
                    icons=icons,
                    meta=meta,
                    ttl_ms=ttl_ms,
                    scope=scope,
                )
            )
            return function

        return offer

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(
        self,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] = (),
        meta: Meta | None = None,
    ) -> Callable[[F], F]: ...
    def prompt(self, function: Any = None, **options: Any) -> Any:
        """Offer a function as a prompt: it returns a text, content, `Message`s, or a list of these."""
        return _decorate(function, lambda given: self.add_prompt(Prompt(given, **options)))

    def completion(self, of: str, argument: str) -> Callable[[F], F]:
        """Suggest values for an argument of a prompt, or a variable of a template, named by its name or its text.

        The function takes what is typed so far as `value`, and if it likes the other arguments as `others`.
        """

        def offer(function: F) -> F:
            self._suggestions[of, argument] = Suggestions(function)
            return function

        return offer

    def add_tool(self, tool: Tool) -> None:
        """Offer a tool. Raises ValueError if its name is taken."""
        self._tools.add(tool)
        self._listeners.list_changed("tools")

    def replace_tool(self, tool: Tool) -> None:
        """Offer a tool in place of the one of its name, if there is one. Calls under way end as they began."""
        self._tools.put(tool)
        self._listeners.list_changed("tools")

    def get_tool(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool, in the order they are listed."""
        return tuple(self._tools)

    async def invoke(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Call a tool from this process, checked before and after as any call is; its value as JSON holds it.

        Raises LookupError, ArgumentsError, TimeoutError, or what the function raises.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise LookupError(f"no such tool: {name}")
        return await tool.invoke(self, Work(NobodyThere(), self._parking), dict(arguments or {}))

    def remove_tool(self, name: str) -> None:
        """Offer a tool no longer."""
        if self._tools.remove(name):
            self._listeners.list_changed("tools")

    def add_resource(self, resource: Resource) -> None:
        """Offer a resource or a template. Raises ValueError if its address is taken."""
        (self._resources if resource.template is None else self._templates).add(resource)
        self._listeners.list_changed("resources")

    def remove_resource(self, uri: str) -> None:
        """Offer a resource or a template no longer."""
        if self._resources.remove(uri) or self._templates.remove(uri):
            self._listeners.list_changed("resources")

    def add_prompt(self, prompt: Prompt) -> None:
        """Offer a prompt. Raises ValueError if its name is taken."""
        self._prompts.add(prompt)
        self._listeners.list_changed("prompts")

    def remove_prompt(self, name: str) -> None:
        """Offer a prompt no longer."""
        if self._prompts.remove(name):
            self._listeners.list_changed("prompts")

    def resource_updated(self, uri: str) -> None:
        """Tell whoever subscribed that a resource has changed, and read it anew. From any thread."""
        self._kept.forget(uri)
        self._listeners.resource_updated(uri)

    # How it runs.

    def run(self) -> None:
        """Serve standard input and output until the client has gone. The usual last line of a server's file."""
        from interlock.server.runner import run

        run(self.serve_stdio())

    async def serve_stdio(self) -> None:
        """The same, in a loop of the caller's."""
        from interlock.server.runner import serve_stdio

        await serve_stdio(self)

    def run_http(self, host: str = "127.0.0.1", port: int = 8000) -> None:
        """Serve Streamable HTTP at `/mcp` until the process is interrupted."""
        from interlock.server.over_http import serve_http_until_told
        from interlock.server.runner import run

        run(serve_http_until_told(self, host, port))

    def http(
        self, host: str = "127.0.0.1", port: int = 0, *, hosts: Iterable[str] = (), origins: Iterable[str] = ()
    ) -> AbstractAsyncContextManager[Address]:
        """The same, in a loop of the caller's, while the context is open. Port 0 takes a free one."""
        from interlock.server.over_http import serve_http

        return serve_http(self, host, port, hosts, origins)

    # What a transport asks of it.

    def admit(self, path: str, headers: Mapping[bytes, bytes]) -> Caller:
        """Who this is: anyone, unless the author says otherwise."""
        return Anyone() if self._admit is None else self._admit(path, headers)

    def initialize(self, session: Session) -> bytes:
        """Open a session of the handshake era."""
        session.state = SessionState()
        self._listeners.join(session)
        result: dict[str, object] = {
            "protocolVersion": session.dialect.revision.name,
            "capabilities": self._capabilities(session.dialect),
            "serverInfo": self._info,
        }
        if self._instructions is not None:
            result["instructions"] = self._instructions
        return msgspec.json.encode(result)

    def serve(self, exchange: Exchange) -> None:
        """Answer a request."""
        method = exchange.request.method
        handler = self._handlers.get(method)
        try:
            if handler is None or not self._offers(METHODS[method].needs):
                raise Fault("METHOD_NOT_FOUND", f"{method[:100]} is not served here")
            check_shape(exchange.request.params, DEFAULT)
            handler(exchange)
        except Fault as fault:
            exchange.fail(fault)
        except Exception:
            exchange.fail(_unexpected(method))

    def told(self, caller: Caller, session: Session | None, notification: Notification) -> None:
        """Nothing that a client tells of its own accord changes what is offered."""

    def closed(self, session: Session) -> None:
        """A session is over."""
        self._listeners.leave(session)

    def close(self) -> None:
        """End what is open: streams gracefully, parked calls by cancelling them."""
        self._listeners.close()
        self._task_desk.close()
        self._parking.close()
        self.threads.close()

    # Requests that run an author's function.

    def _call_tool(self, exchange: Exchange) -> None:
        params = _params(exchange, _CallTool)
        tool = self._tools.get(params.name)
        if tool is None:
            raise Fault("TOOL_NOT_FOUND", f"no such tool: {params.name[:200]}", mend="see tools/list")
        arguments = params.arguments or {}
        if exchange.headers is not None and exchange.dialect.modern:
            check_params(exchange.headers, tool.headers, arguments)
        wanted = None
        asked = None if params.task is msgspec.UNSET else params.task
        if tool.task != "forbidden" or asked is not None:
            wanted = self._task_desk.wanted(exchange.dialect, tool.task, tool.task_from, asked)
        self._run(exchange, params, lambda work: tool.call(self, work, arguments), wanted=wanted)

    def _validate_tool(self, exchange: Exchange) -> None:
        """The tool registry's dry run (Core Methods): whether a call would be taken, with the registry's own errors."""
        params = _params(exchange, _CallTool)
        meta = exchange.glance.meta
        parent = None if meta is None or meta.traceparent is None else read_traceparent(meta.traceparent)
        trace_id = new_trace_id() if parent is None else parent.trace
        tool = self._tools.get(params.name)
        if tool is None:
            missing = Fault("TOOL_NOT_FOUND", f"no such tool: {params.name[:200]}", mend="see tools/list")
            raise registry_fault(missing, trace_id, tool_name=params.name[:200])
        if problems := tool.check(params.arguments or {}):
            wrong = Fault("INVALID_TOOL_ARGS", "Validation failed", data={"problems": [told(p) for p in problems]})
            url = tool.about.documentation_url
            raise registry_fault(wrong, trace_id, tool_name=tool.key, documentation_url=url)
        self._answer(exchange, b'"valid":true')

    def _read_resource(self, exchange: Exchange) -> None:
        params = _params(exchange, _ReadResource)
        resource, variables = self._find_resource(params.uri)
        uri, ttl_ms, scope = params.uri, resource.ttl_ms, resource.scope
        if not ttl_ms:
            self._run(exchange, params, lambda work: resource.read(self, work, uri, variables), resource.cache)
            return
        owner = "" if scope == "public" else exchange.caller.owner
        kept = None if params.is_retry else self._kept.get(resource, uri, owner)
        if kept is not None:
            self._answer(exchange, kept.members, cache_hints(kept.left_ms, scope))
            return

        changes = self._kept.changes

        async def read(work: Work) -> bytes:
            members = await resource.read(self, work, uri, variables)
            if not work.asked:
                self._kept.put(resource, uri, owner, members, ttl_ms, changes)
            return members

        self._run(exchange, params, read, resource.cache)

    def _get_prompt(self, exchange: Exchange) -> None:
        params = _params(exchange, _GetPrompt)
        prompt = self._prompts.get(params.name)
        if prompt is None:
            raise Fault("PROMPT_NOT_FOUND", f"no such prompt: {params.name[:200]}", mend="see prompts/list")
        arguments = params.arguments or {}
        self._run(exchange, params, lambda work: prompt.get(self, work, arguments))

    def _complete(self, exchange: Exchange) -> None:
        params = _params(exchange, _Complete)
        if params.ref.type == "ref/prompt":
            of = params.ref.name
            known = self._prompts.get(of) is not None
        elif params.ref.type == "ref/resource":
            of = params.ref.uri
            known = self._templates.get(of) is not None or self._resources.get(of) is not None
        else:
            raise Fault("INVALID_PARAMS", f"ref.type {params.ref.type[:50]!r} is none of ref/prompt, ref/resource")
        if not known:
            raise Fault("INVALID_PARAMS", f"nothing called {of[:200]!r} is offered here")
        suggestions = self._suggestions.get((of, params.argument.name))
        if suggestions is None:
            self._answer(exchange, completion_members(Completion([])))
            return
        others = params.context.arguments
        self._run(exchange, None, lambda work: suggestions.suggest(self, work, params.argument.value, others))

    def _run(
        self,
        exchange: Exchange,
        params: _MayAsk | None,
        start: Start,
        cache: bytes = b"",
        wanted: Wanted | None = None,
    ) -> None:
        given = None
        if params is not None and exchange.dialect.modern:
            if params.inputResponses is not msgspec.UNSET:
                given = params.inputResponses
            if params.requestState is not None:
                place, answered = self._parking.find(params.requestState, binding_of(exchange))
                place.work.resume(exchange, answered, b"{}" if given is None else bytes(given))
                return
        work = Work(exchange, self._parking, given)
        if wanted is not None and wanted.at_once:
            self._task_desk.begin(work, wanted.ttl_ms)
        elif wanted is not None:
            work.detach = lambda work: self._task_desk.begin(work, wanted.ttl_ms)
        work.task = asyncio.get_running_loop().create_task(self._finish(work, start, cache))

    async def _finish(self, work: Work, start: Start, cache: bytes) -> None:
        try:
            members = await start(work)
            # What depended on answers must not be cached (2026-07-28, Caching: Cache Key).
            hints = UNCACHED if cache and work.asked else cache
            outcome: bytes | Fault = self._framed(work.dialect.modern, members, hints)
        except Fault as fault:
            outcome = fault
        except asyncio.CancelledError:
            outcome = Fault("CANCELLED", "the call was cancelled")
        except Exception:
            outcome = _unexpected(work.exchange.request.method)
        if work.running is not None:
            work.running.done(outcome)
        else:
            work.done(outcome)

    # Requests that are answered from what is known.

    def _list(self, exchange: Exchange, pages: Pages[Any]) -> None:
        member = METHODS[exchange.request.method].list_member
        cursor = _params(exchange, _List).cursor
        self._answer(exchange, pages.page(member, cursor, exchange.dialect.modern), self._cache)

    def _discover(self, exchange: Exchange) -> None:
        members: dict[str, object] = {
            "supportedVersions": MODERN_NAMES,
            "capabilities": self._capabilities(exchange.dialect),
        }
        if self._instructions is not None:
            members["instructions"] = self._instructions
        self._answer(exchange, msgspec.json.encode(members)[1:-1], self._cache)

    def _listen(self, exchange: Exchange) -> None:
        wanted = _params(exchange, _Listen).notifications
        granted = Filter(
            toolsListChanged=wanted.toolsListChanged and bool(self._tools),
            promptsListChanged=wanted.promptsListChanged and bool(self._prompts),
            resourcesListChanged=wanted.resourcesListChanged and self._offers("resources"),
            resourceSubscriptions=[uri for uri in wanted.resourceSubscriptions if self._knows(uri)],
            taskIds=self._task_desk.heard_of(exchange, wanted.taskIds),
        )
        self._listeners.listen(exchange, granted)

    def _subscribe(self, exchange: Exchange) -> None:
        uri = _params(exchange, _ReadResource).uri
        self._find_resource(uri)
        subscriptions = _state(exchange).subscriptions
        if len(subscriptions) >= MOST_URIS:
            raise Fault("RESOURCE_EXHAUSTED", f"a session subscribes to at most {MOST_URIS} resources")
        subscriptions.add(uri)
        self._answer(exchange, b"")

    def _unsubscribe(self, exchange: Exchange) -> None:
        _state(exchange).subscriptions.discard(_params(exchange, _ReadResource).uri)
        self._answer(exchange, b"")

    def _set_level(self, exchange: Exchange) -> None:
        level = _params(exchange, _SetLevel).level
        if level not in LOG_LEVELS:
            raise Fault("INVALID_PARAMS", f"unknown level {level[:50]!r}", mend=f"one of {', '.join(LOG_LEVELS)}")
        _state(exchange).level = LOG_LEVELS.index(level)
        self._answer(exchange, b"")

    def _answer(self, exchange: Exchange, members: bytes, cache: bytes = b"") -> None:
        exchange.result(self._framed(exchange.dialect.modern, members, cache))

    def _framed(self, modern: bool, members: bytes, cache: bytes) -> bytes:
        """A result object from its members, with what the stateless era adds."""
        if not modern:
            return b"{%b}" % members
        if members.startswith(b'"_meta":'):
            return b'{"resultType":"complete",%b%b}' % (members, cache)
        return b"%b%b%b}" % (self._head, members, cache)

    # What it knows.

    def _capabilities(self, dialect: Dialect) -> dict[str, object]:
        capabilities: dict[str, object] = {"logging": {}, **self._task_desk.capability(dialect)}
        if self._offers("tools"):
            capabilities["tools"] = {"listChanged": True}
        if self._offers("resources"):
            capabilities["resources"] = {"subscribe": True, "listChanged": True}
        if self._offers("prompts"):
            capabilities["prompts"] = {"listChanged": True}
        if self._offers("completions"):
            capabilities["completions"] = {}
        return capabilities

    def _offers(self, capability: str) -> bool:
        match capability:
            case "tools":
                return bool(self._tools)
            case "resources":
                return bool(self._resources) or bool(self._templates)
            case "prompts":
                return bool(self._prompts)
            case "completions":
                return bool(self._suggestions)
            case "tasks":
                return any(tool.task != "forbidden" for tool in self._tools)
        return True

    def _find_resource(self, uri: str) -> tuple[Resource, dict[str, str]]:
        resource = self._resources.get(uri)
        if resource is not None:
            return resource, {}
        for template in self._templates:
            variables = template.match(uri)
            if variables is not None:
                return template, variables
        raise not_found(uri)

    def _knows(self, uri: str) -> bool:
        return self._resources.get(uri) is not None or any(t.match(uri) is not None for t in self._templates)


def _decorate(function: Any, offer: Callable[[Any], None]) -> Any:
    def decorator(given: F) -> F:
        offer(given)
        return given

    return decorator if function is None else decorator(function)


def _params(exchange: Exchange, kind: type[P]) -> P:
    try:
        return msgspec.json.decode(exchange.request.params, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("INVALID_PARAMS", f"{exchange.request.method}: {cause}") from None


def _state(exchange: Exchange) -> SessionState:
    state = None if exchange.session is None else exchange.session.state
    if not isinstance(state, SessionState):
        raise Fault("METHOD_NOT_FOUND", f"{exchange.request.method} needs a session")
    return state


def _unexpected(what: str) -> Fault:
    log.exception("%s failed", what)
    return Fault("INTERNAL_ERROR", f"{what} failed; the server's log says why")


class _MayAsk(msgspec.Struct, kw_only=True):
    requestState: str | None = None
    inputResponses: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_retry(self) -> bool:
        """Whether it brings answers to what an earlier one was asked."""
        return self.requestState is not None or self.inputResponses is not msgspec.UNSET


class _CallTool(_MayAsk):
    name: str
    arguments: dict[str, Any] | None = None
    task: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _ReadResource(_MayAsk):
    uri: str


class _GetPrompt(_MayAsk):
    name: str
    arguments: dict[str, str] | None = None


class _List(msgspec.Struct):
    cursor: str | None = None


class _Listen(msgspec.Struct):
    notifications: Filter


class _SetLevel(msgspec.Struct):
    level: str


class _Ref(msgspec.Struct):
    type: str
    name: str = ""
    uri: str = ""


class _Argument(msgspec.Struct):
    name: str
    value: str


class _Others(msgspec.Struct):
    arguments: dict[str, str] = {}


class _Complete(msgspec.Struct):
    ref: _Ref
    argument: _Argument
    context: _Others = msgspec.field(default_factory=_Others)
