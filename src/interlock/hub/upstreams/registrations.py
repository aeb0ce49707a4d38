"""Servers that were registered while the hub runs (MGP, Dynamic Registration): stored, and shared between nodes.

What an agent registers needs a person's approval, passes code safety at `strict`, is `sandboxed` and `opt-in`, and runs
contained. Its source is kept with the registration and pinned by its hash: the file it came from is never run.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

import interlock
from interlock.config.names import adopt_id, why_bad_id
from interlock.config.settings import Config, Permissions, Sandbox, Server
from interlock.config.value_types import TrustLevel
from interlock.containment.installs import wanted
from interlock.containment.policy import ContainmentRefused
from interlock.hub.approvals.decision import Decision, Question
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.contained_servers import FOLDER
from interlock.judge.code import judge_code
from interlock.judge.code.rules import CodeRules
from interlock.judge.code.vocabulary import STRICT_MODULES
from interlock.judge.text import show_hidden
from interlock.protocols.mgp.permissions import STANDARD, Risk, expand
from interlock.store import Collection, Mirror, Store
from interlock.wire.errors import Fault

MAX_REGISTRATIONS: Final = 1000
MAX_PER_CREATOR: Final = 16
MAX_SOURCE_BYTES: Final = 10_000
"""The size that code safety allows at `strict`."""
SOURCE: Final = "registered"
"""The `source` of registered servers in the status."""
_NAMES: Final = (
    "Annotations Answer ArgumentsCheck Audio Completion Content Context Embedded Icon Image Message NotFound Prompt "
    "Resource ResourceContents ResourceLink Root Sampled Server TaskLimits Text Tool ToolError ToolHints ToolResult"
)
_LIBRARY: Final = ("interlock.Context", "interlock.Server", *(f"interlock.server.{name}" for name in _NAMES.split()))
"""The names of the library that a script may import. Its modules hold others, which reach processes and files."""
_RULES: Final = CodeRules(level="strict", allowed_imports=(*sorted(STRICT_MODULES), *_LIBRARY))
_PYTHON: Final = ("python", "python3")

Word = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
Short = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class MgpPart(msgspec.Struct, frozen=True):
    """The `mgp` member of a registration."""

    extensions: Annotated[tuple[Short, ...], msgspec.Meta(max_length=32)] = ()
    permissions_required: Annotated[tuple[Short, ...], msgspec.Meta(max_length=32)] = ()
    trust_level: TrustLevel = "sandboxed"


class Register(msgspec.Struct, frozen=True):
    """Params of `mgp/discovery/register`. A `created_by` is ignored: the credential says who registers."""

    id: Short
    command: Word
    args: Annotated[tuple[Word, ...], msgspec.Meta(max_length=64)] = ()
    transport: Literal["stdio"] = "stdio"
    mgp: MgpPart = MgpPart()
    justification: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    source: Annotated[str, msgspec.Meta(max_length=MAX_SOURCE_BYTES)] = ""
    """The text of the script, if the hub cannot read the file that `args` names."""


class Registration(msgspec.Struct, frozen=True):
    """One registered server, or one that waits for its approval."""

    id: str
    name: str
    """The id as its creator wrote it."""
    command: tuple[str, ...]
    trust: TrustLevel
    permissions: tuple[str, ...]
    extensions: tuple[str, ...]
    created_by: str
    created_kind: str
    justification: str
    at: datetime
    script: str = ""
    """The source that runs, if the command is a script."""
    sha256: str = ""
    approved: bool = True
    decision: str = ""
    """The approval request, where one was needed."""

    def settings(self, home: Path) -> Server:
        """The server that the hub runs."""
        command = self.command
        read: tuple[str, ...] = ()
        env: dict[str, str] = {}
        if self.script:
            file = _script_file(home, self.id, self.sha256)
            command = (sys.executable, str(file), *self.command[2:])
            # A script imports the library of this hub, also where that is not installed beside the interpreter.
            library = str(Path(interlock.__file__).parent.parent)
            read, env = (str(file), library), {"PYTHONPATH": library}
        return Server(
            command=command,
            env=env,
            access="opt-in",
            trust=self.trust,
            isolation="sandbox",
            sandbox=Sandbox(read=read),
            permissions=Permissions(require=self.permissions),
            source=SOURCE,
        )


REGISTRATIONS: Final = Collection("registrations", Registration, key="id")


class Registered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a registration."""

    registered: bool
    id: str
    server_id: str
    """The id that the hub uses in tool names and addresses."""
    created_by: str
    trust_level: TrustLevel
    status: Literal["registered", "pending_approval"]
    decision: str = ""
    hint: str = ""


class Registrations:
    """All registered servers of a hub, following the store."""

    def __init__(self, inbox: Inbox, access: Access, packages: Callable[[], tuple[str, ...]], home: Path) -> None:
        self._inbox = inbox
        self._access = access
        self._packages = packages
        self._home = home
        self._store: Store | None = None
        self._mirror: Mirror[Registration] | None = None
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, store: Store, on_change: Callable[[], None]) -> None:
        """Load the registrations; `on_change` is called after every further one."""
        self._mirror = await store.mirror(REGISTRATIONS)
        self._store = store
        self._mirror.on_change(lambda key, registration: on_change())
        self._inbox.on_change(self._decided)
        for waiting in [each for each in self._mirror.values() if not each.approved]:
            await self._settle(waiting)

    async def close(self) -> None:
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def merged(self, config: Config) -> Config:
        """The configuration with the approved registrations. A configured server keeps its id."""
        found = {each.id: each.settings(self._home) for each in self.list() if each.approved}
        return msgspec.structs.replace(config, servers={**found, **config.servers}) if found else config

    def write_scripts(self) -> None:
        """Write the pinned source of every approved registration to this node's disk. Blocks."""
        for each in self.list():
            if each.script and each.approved:
                file = _script_file(self._home, each.id, each.sha256)
                file.parent.mkdir(parents=True, exist_ok=True)
                if not file.exists() or _digest(file.read_text()) != each.sha256:
                    file.write_text(each.script)

    def list(self) -> list[Registration]:
        return [] if self._mirror is None else sorted(self._mirror.values(), key=lambda each: each.at)

    def find(self, id: str) -> Registration | None:
        """A registration by its creator's id or by ours."""
        return next((each for each in self.list() if id in (each.id, each.name)), None)

    async def register(self, by: Principal, asked: Register, configured: Config, trace: str = "") -> Registered:
        """Register a server, or ask a person to. Raises Fault."""
        operator = self._is_operator(by)
        made = await self._made(by, asked, operator)
        async with self._changing:
            self._check_free(made, configured)
            if not operator:
                question = _question(made, by, trace)
                decision = await self._inbox.ask(question, view=_view(made))
                made = msgspec.structs.replace(made, approved=False, decision=decision.id)
            await self._put(made)
        if operator:
            return Registered(True, made.name, made.id, by.id, made.trust, "registered")
        hint = "a person must approve it: interlock approvals"
        return Registered(False, made.name, made.id, by.id, made.trust, "pending_approval", made.decision, hint)

    async def deregister(self, by: Principal, id: str) -> Registration:
        """Remove a registration: its creator may, and an operator. Raises NOT_FOUND for everybody else."""
        found = self.find(id)
        own = found is not None and (found.created_by, found.created_kind) == (by.id, by.kind)
        if found is None or not (own or self._is_operator(by)):
            raise Fault("NOT_FOUND", f"no registered server {id[:100]!r}")
        async with self._changing, self._ready().transaction() as change:
            change.delete(REGISTRATIONS, found.id)
        if not found.approved:
            await self._inbox.void([self._inbox.get(found.decision)])
        return found

    async def _made(self, by: Principal, asked: Register, operator: bool) -> Registration:
        id_ = adopt_id(asked.id)
        if id_ is None or why_bad_id(id_):
            raise Fault("INVALID_PARAMS", f"`{asked.id[:100]}` cannot be a server's id", hint="use letters and digits")
        command = (asked.command, *asked.args)
        if any("${" in word or "\0" in word for word in command):
            raise Fault("INVALID_PARAMS", "a registration may not use variables", hint="write plain arguments")
        trust: TrustLevel = "sandboxed" if not operator or asked.mgp.trust_level == "sandboxed" else "standard"
        permissions = tuple(expand(asked.mgp.permissions_required))
        if trust == "sandboxed":
            _check_permissions(permissions)
        script = "" if operator and not asked.source else await self._script(asked)
        return Registration(
            id_,
            asked.id,
            command,
            trust,
            permissions,
            asked.mgp.extensions,
            by.id,
            by.kind,
            asked.justification,
            datetime.now(UTC),
            script,
            _digest(script) if script else "",
        )

    async def _script(self, asked: Register) -> str:
        """The source of a script, judged; "" for a package that the operator listed. Raises Fault."""
        if os.path.basename(asked.command) not in _PYTHON:
            self._check_package((asked.command, *asked.args))
            return ""
        if not asked.args or asked.args[0].startswith("-"):
            raise Fault("INVALID_PARAMS", "a registered script is the first argument of `python`", hint="name its file")
        source = asked.source or await asyncio.to_thread(_read_script, asked.args[0])
        findings = await asyncio.to_thread(judge_code, source, _RULES)
        if findings:
            first = findings[0]
            raise Fault("CODE_SAFETY_VIOLATION", f"the script is refused at `strict`: {first.rule}", hint=first.hint)
        return source

    def _check_package(self, command: tuple[str, ...]) -> None:
        try:
            package = wanted(command)
        except ContainmentRefused as refused:
            raise Fault("ACCESS_DENIED", refused.message, hint=refused.hint) from None
        if package is None or package.package not in self._packages():
            message = "the hub has no source of this command to judge"
            hint = "register a Python script, or ask the operator to list the package in [hub.registration]"
            raise Fault("ACCESS_DENIED", message, hint=hint)

    def _check_free(self, made: Registration, configured: Config) -> None:
        known = self.list()
        if made.id in configured.servers or any(each.id == made.id for each in known):
            raise Fault("INVALID_PARAMS", f"there is a server `{made.id}` already", hint="choose another id")
        if len(known) >= MAX_REGISTRATIONS:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_REGISTRATIONS} servers are registered", hint="deregister some")
        if sum(each.created_by == made.created_by for each in known) >= MAX_PER_CREATOR:
            message = f"{made.created_by} has registered {MAX_PER_CREATOR} servers"
            raise Fault("RESOURCE_EXHAUSTED", message, hint="deregister one of them")

    def _decided(self, decision: Decision) -> None:
        if decision.question.kind != "registration":
            return
        waiting = next((each for each in self.list() if each.decision == decision.id and not each.approved), None)
        if waiting is not None:
            task = asyncio.ensure_future(self._settle(waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _settle(self, waiting: Registration) -> None:
        """Act on the answer to a registration. Every node may: the outcome is the same."""
        try:
            state = self._inbox.get(waiting.decision).state
        except Fault:
            state = DecisionState.EXPIRED
        if state is DecisionState.OPEN:
            return
        if state is DecisionState.APPROVED:
            await self._put(msgspec.structs.replace(waiting, approved=True))
        else:
            async with self._ready().transaction() as change:
                change.delete(REGISTRATIONS, waiting.id)

    async def _put(self, registration: Registration) -> None:
        async with self._ready().transaction() as change:
            change.put(REGISTRATIONS, registration)

    def _is_operator(self, by: Principal) -> bool:
        rights = self._access.rights(by)
        return by.decides and rights is not None and rights.admin_write

    def _ready(self) -> Store:
        if self._store is None:
            raise Fault("SERVER_NOT_READY", "the hub is starting", retry_after_ms=500)
        return self._store


def _check_permissions(permissions: tuple[str, ...]) -> None:
    """A sandboxed server may ask for nothing dangerous, and for nothing that the hub does not know."""
    for permission in permissions:
        if STANDARD.get(permission, Risk.DANGEROUS) >= Risk.DANGEROUS:
            message = f"a sandboxed server may not ask for `{permission}`"
            raise Fault("PERMISSION_DENIED", message, hint="register it without that permission")


def _question(made: Registration, by: Principal, trace: str) -> Question:
    return Question(
        kind="registration",
        asker=by.id,
        asker_kind=by.kind,
        server=made.id,
        name="",
        shown=f"register {made.id}",
        text=_quoted(made.justification) if made.justification else "no justification was given",
        rule="registration.agent",
        fingerprint=made.sha256,
        arguments_hash=_digest(_view(made)),
        summary=" ".join(made.command)[:500],
        risk="dangerous",
        trust=made.trust,
        asked_with=by.key,
        trace=trace,
    )


def _view(made: Registration) -> str:
    """Everything that a person must read before approving."""
    parts = (
        f"{made.created_kind} {made.created_by} wants to register the server `{made.id}` ({_quoted(made.name)}).",
        f"Justification: {_quoted(made.justification) if made.justification else 'none'}",
        f"Command: {show_hidden(msgspec.json.encode(made.command).decode())}",
        f"Permissions: {', '.join(made.permissions) or 'none'}",
        "It runs contained, without network, and nobody may call it until you grant it.",
        f"Source (SHA-256 {made.sha256}):\n{show_hidden(made.script)}"
        if made.script
        else "The operator listed its package.",
    )
    return "\n\n".join(parts)


def _quoted(text: str) -> str:
    """A text of the creator's own, on one line, so that it cannot pose as a part of the view."""
    return show_hidden(msgspec.json.encode(text).decode())


def _read_script(path: str) -> str:
    """Read the script that an agent names. The answer never shows what is in it."""
    try:
        if not os.path.isabs(path) or not path.endswith(".py") or not os.path.isfile(path):
            raise OSError
        with open(path, "rb") as file:
            text = file.read(MAX_SOURCE_BYTES + 1)
        if len(text) > MAX_SOURCE_BYTES:
            raise OSError
        return text.decode()
    except (OSError, UnicodeDecodeError):
        hint = "give its text as `source`, or the absolute path of a .py file on the hub's machine"
        raise Fault("INVALID_PARAMS", "the hub cannot read the script", hint=hint) from None


def _script_file(home: Path, id: str, sha256: str) -> Path:
    return home.resolve() / FOLDER / id / "code" / sha256[:16] / "server.py"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
