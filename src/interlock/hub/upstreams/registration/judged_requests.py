"""Judges a request to register a server, and makes the registration of it.

Code of an agent is judged before it runs: its request brings the source of a script, or names a package that the
operator listed. An operator may register any command.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

from interlock.config.names import adopt_id, why_bad_id
from interlock.config.value_types import TrustLevel
from interlock.containment.installs import names_own_program, wanted
from interlock.containment.policy import ContainmentRefused
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.registration.checks import check_permissions, digest, judge, read_script
from interlock.hub.upstreams.registration.registration import Registration, RegistrationParams
from interlock.protocols.mgp.permissions import expand
from interlock.wire.errors import Fault

_PYTHON: Final = ("python", "python3")


async def registration_of(
    by: Principal, request: RegistrationParams, packages: Collection[str], *, operator: bool
) -> Registration:
    """The registration that a request asks for, once it is judged. Raises Fault.

    An agent may register the packages that the operator lists in `packages`.
    """
    id_ = adopt_id(request.id)
    if id_ is None or why_bad_id(id_):
        raise Fault("INVALID_PARAMS", f"`{request.id[:100]}` cannot be a server's id", hint="use letters and digits")
    if request.transport != "stdio":
        message = f"`transport` is `stdio`, not `{request.transport[:40]}`: the hub runs the program itself"
        raise Fault("INVALID_PARAMS", message, hint="ask the operator to add a server at a URL")
    command = (request.command, *request.args)
    if any("${" in word or "\0" in word for word in command):
        raise Fault("INVALID_PARAMS", "a registration may not use variables", hint="write plain arguments")
    trust: TrustLevel = "sandboxed" if not operator or request.mgp.trust_level == "sandboxed" else "standard"
    permissions = tuple(expand(request.mgp.permissions_required))
    if trust == "sandboxed":
        check_permissions(permissions)
    script = "" if operator and not request.source else await _script(request, packages)
    return Registration(
        id_,
        request.id,
        command,
        trust,
        permissions,
        request.mgp.extensions,
        by.id,
        by.kind,
        request.justification,
        datetime.now(UTC),
        script,
        digest(script) if script else "",
    )


async def _script(request: RegistrationParams, packages: Collection[str]) -> str:
    """The source of a script, judged; "" for a package that the operator listed. Raises Fault."""
    if os.path.basename(request.command) not in _PYTHON:
        _check_package((request.command, *request.args), packages)
        return ""
    if not request.args or request.args[0].startswith("-"):
        raise Fault("INVALID_PARAMS", "a registered script is the first argument of `python`", hint="name its file")
    source = request.source or await asyncio.to_thread(read_script, request.args[0])
    await asyncio.to_thread(judge, source, explain=bool(request.source))
    return source


def _check_package(command: tuple[str, ...], packages: Collection[str]) -> None:
    try:
        package = wanted(command)
    except ContainmentRefused as refused:
        raise Fault("ACCESS_DENIED", refused.message, hint=refused.hint) from None
    if package is not None and package.launcher == "uvx" and not names_own_program(package):
        # Its environment has an interpreter too, and a path would leave it: nobody judged what those run.
        message = "a registered `uvx` command runs the program that has its package's name"
        raise Fault("ACCESS_DENIED", message, hint="ask the operator to add this server")
    if package is None or package.package not in packages:
        message = "the hub has no source of this command to judge"
        hint = "register a Python script, or ask the operator to list the package in [hub.registration]"
        raise Fault("ACCESS_DENIED", message, hint=hint)
