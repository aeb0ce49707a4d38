"""A registered server as the store keeps it, and the messages about it (MGP, Dynamic Registration)."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

import interlock
from interlock.config.settings import PermissionSettings, SandboxSettings, ServerSettings
from interlock.config.value_types import TrustLevel
from interlock.hub.upstreams.contained_servers import script_file
from interlock.store import Collection

MAX_SOURCE_BYTES: Final = 10_000
"""The size that code safety allows at `strict`."""
SOURCE: Final = "registered"
"""The `source` of registered servers in the status."""

Word = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
Short = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class MgpPart(msgspec.Struct, frozen=True):
    """The `mgp` member of a registration."""

    extensions: Annotated[tuple[Short, ...], msgspec.Meta(max_length=32)] = ()
    permissions_required: Annotated[tuple[Short, ...], msgspec.Meta(max_length=32)] = ()
    trust_level: TrustLevel = "sandboxed"


class RegistrationParams(msgspec.Struct, frozen=True):
    """Params of `mgp/discovery/register`. A `created_by` is ignored: the credential says who registers."""

    id: Short
    command: Word
    args: Annotated[tuple[Word, ...], msgspec.Meta(max_length=64)] = ()
    transport: Short = "stdio"
    """Only `stdio` is taken."""
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
    expires: datetime | None = None
    """When it is removed again. Only tools that an agent wrote because none fitted have an end."""

    @property
    def is_created_tool(self) -> bool:
        """Whether it was written for a request for tools. Its creator, and nobody else, may call it."""
        return self.expires is not None

    def settings(self, home: Path) -> ServerSettings:
        """The server that the hub runs."""
        command = self.command
        read: tuple[str, ...] = ()
        env: dict[str, str] = {}
        if self.script:
            file = script_file(home, self.id, self.sha256)
            command = (sys.executable, str(file), *self.command[2:])
            # A script imports the library of this hub, also where that is not installed beside the interpreter.
            library = str(Path(interlock.__file__).parent.parent)
            read, env = (str(file), library), {"PYTHONPATH": library}
        return ServerSettings(
            command=command,
            env=env,
            access="opt-in",
            trust=self.trust,
            isolation="sandbox",
            sandbox=SandboxSettings(read=read),
            permissions=PermissionSettings(require=self.permissions),
            source=SOURCE,
        )


REGISTRATIONS: Final = Collection("registrations", Registration, key="id")


class RegistrationResult(msgspec.Struct, frozen=True, omit_defaults=True):
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
