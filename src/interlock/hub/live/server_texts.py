"""Judges text of servers in MCPL answers and notices before a client that is a host gets it.

A text is masked if the server's results are, its hidden characters become visible, and a text that reads like
instructions is withheld. The hub stores that the client is given untrusted text before it sends the text.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Collection, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from interlock.hub.auth.principals import SERVER
from interlock.hub.journal import Journal
from interlock.hub.judging_threads import JudgingThreads
from interlock.hub.live.client_host import ClientHost
from interlock.hub.live.hooks import TaintRecorder
from interlock.hub.live.server_maskers import ServerMaskers
from interlock.judge.results import is_loaded, judge_result, made_visible
from interlock.protocols.mcpl.channels import Channel
from interlock.wire.errors import Fault

WITHHELD: Final = "[withheld: it reads like instructions]"
SEARCHED_HERE: Final = 400
"""Texts up to this many bytes are searched on the loop, once the patterns are compiled."""
MAX_FINDINGS: Final = 3
_JOINTS: Final = re.compile(r"[.:_-]+")
"""The characters between the words of a feature set's name."""

Answer = TypeVar("Answer", bound=msgspec.Struct)


class ServerTexts:
    """Judges the texts of servers for clients that are hosts."""

    def __init__(self, maskers: ServerMaskers, journal: Journal) -> None:
        self._maskers = maskers
        self._journal = journal
        self._judging: JudgingThreads
        self._tainting: TaintRecorder

    def judge_with(self, judging: JudgingThreads, tainting: TaintRecorder) -> None:
        """Set the threads for judging, and the part that stores who is given text. Called before the first client."""
        self._judging, self._tainting = judging, tainting

    async def answered(self, host: ClientHost, server: str, method: str, work: Awaitable[Answer]) -> Answer:
        """A server's judged answer to a client. Raises the server's error as a judged `Fault`."""
        try:
            answer = await work
        except Fault as fault:
            if fault.foreign_code is None:
                raise
            message = await self._clean(host, server, method, fault.message)
            raise Fault(fault.name, str(message), code=fault.foreign_code) from None
        clean = await self._clean(host, server, method, msgspec.to_builtins(answer))
        try:
            return msgspec.convert(clean, type(answer))
        except msgspec.ValidationError:
            raise Fault("UPSTREAM_ERROR", f"the answer of {server} to {method} is withheld") from None

    async def channels(
        self, host: ClientHost, server: str, method: str, found: Iterable[Channel]
    ) -> tuple[Channel, ...]:
        """The judged channel descriptors for a client, without those whose ids do not pass unchanged."""
        given = [msgspec.to_builtins(each) for each in found]
        if not given:
            return ()
        clean = await self._clean(host, server, method, given)
        kept = [new for old, new in zip(given, clean, strict=True) if old["id"] == new.get("id")]
        try:
            return msgspec.convert(kept, tuple[Channel, ...])
        except msgspec.ValidationError:
            return ()

    async def ids(self, host: ClientHost, server: str, method: str, found: Sequence[str]) -> list[str]:
        """The ids that pass unchanged."""
        clean = await self._clean(host, server, method, list(found))
        return [new for old, new in zip(found, clean, strict=True) if old == new]

    async def names(self, server: str, found: Collection[str]) -> frozenset[str]:
        """The names of feature sets that clients may be told. Raises a `Fault` if they cannot be judged."""
        masker = self._maskers.current().get(server)

        def search() -> frozenset[str]:
            shown = found if masker is None else [name for name in found if masker.mask_value(name)[0] == name]
            return frozenset(name for name in shown if not _searched_name(name))

        here = is_loaded() and sum(map(len, found)) <= SEARCHED_HERE
        return search() if here else await self._judging.run_result(f"{SERVER}{server}", search)

    async def _clean(self, host: ClientHost, server: str, method: str, value: Any) -> Any:
        masker = self._maskers.current().get(server)

        def search() -> tuple[Any, list[str]]:
            findings: list[str] = []
            return _searched(value if masker is None else masker.mask_value(value)[0], findings), findings

        if not _has_text(value):
            return value
        here = is_loaded() and len(msgspec.json.encode(value)) <= SEARCHED_HERE
        clean, findings = search() if here else await self._judging.run_result(host.principal_name, search)
        for finding in findings[:MAX_FINDINGS]:
            self._journal.live_passed(server, host.principal.id, method, "", "withheld", finding[:500])
        await self._tainting.note_delivery(host.principal, (server,), method, host.profile)
        return clean


def _searched_name(name: str) -> bool:
    """Whether a name reads like instructions, as written or with spaces between its words."""
    return any(judge_result(text, may_ask=True) for text in (name, _JOINTS.sub(" ", name)))


def _has_text(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_text, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_text, value))
    return isinstance(value, str) and bool(value)


def _searched(value: Any, findings: list[str]) -> Any:
    """A value with each text made visible, or withheld. Pure and slow: it searches text."""
    if isinstance(value, dict):
        return {_searched(name, findings): _searched(each, findings) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_searched(each, findings) for each in value]
    if not isinstance(value, str):
        return value
    found = judge_result(value, may_ask=True)
    findings += [each.message for each in found]
    instructs = any(not each.rule.startswith("text.") for each in found)
    return WITHHELD if instructs else made_visible(value)
