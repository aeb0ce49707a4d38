"""Definitions are judged before anything of them is listed or called. What is flagged stays out until it is trusted.

Judging happens on one thread of its own, in small pieces, so that neither the loop nor another server waits for a long
list; a definition that was judged before is not judged again, nor after a restart if it was clean.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple, TypeVar

import msgspec

from interlock.config.settings import Config, Mode
from interlock.hub.catalog import clean_definitions as clean
from interlock.hub.catalog.offer import Item, ItemKind, Offer, Withheld
from interlock.hub.memory import give_back
from interlock.judge.definitions import judge_definition
from interlock.judge.findings import Finding
from interlock.judge.fingerprints import fingerprint
from interlock.judge.instructions import let_go
from interlock.judge.names import judge_against, skeleton
from interlock.store import Store

PIECE: Final = 32
PIECE_BYTES: Final = 65_536
"""Definitions judged in one go: some tens of milliseconds, after which other servers have their turn."""
MOST_KEPT: Final = 131_072
"""Judgements kept. Beyond that the oldest half is dropped, and made again when wanted."""
BREATH_S: Final = 0.0001
BETWEEN_BREATHS_S: Final = 0.001
"""The thread lets go of the interpreter this often, so that the loop need not wait for its turn."""
REST_AFTER_S: Final = 2.0
"""When nothing more was offered for so long, what only judging needs is let go."""
MOST_LOGGED: Final = 20
KINDS: Final[tuple[ItemKind, ...]] = ("tool", "prompt", "resource", "template")
INSTRUCTIONS: Final = "instructions"

_Result = TypeVar("_Result")
Log = Callable[[str, str], None]
Key = tuple[str, str]
"""Kind and own name."""


class Quarantine:
    """Takes in what servers offer, and puts what may be seen of it into the catalog."""

    def __init__(self, config: Config, put: Callable[[Offer], None], log: Log) -> None:
        self._config = config
        self._put = put
        self._log = log
        self._store: Store | None = None
        self._written: dict[str, frozenset[bytes]] = {}
        """What is kept as clean of each server whose list was taken."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="definitions")
        # All below belongs to that thread.
        self._known: dict[bytes, tuple[Finding, ...]] = {}
        self._judged: dict[str, _Judged] = {}
        self._alike: dict[str, dict[str, dict[str, None]]] = {}
        """The names of all tools with their servers, by what is left of a name when what only looks different is made
        equal. Most look like no other: that many servers have the same name costs nothing."""
        self._last: dict[str, Offer] = {}
        self._rest: asyncio.TimerHandle | None = None

    def begin(self, store: Store) -> None:
        """Keep what was clean here."""
        self._store = store

    async def take(self, offer: Offer) -> None:
        """Judge a new offer and show what may be shown of it. Nothing of it is seen before."""
        await self._recall(offer.server)
        texts = await self._on_thread(lambda: _texts(offer))
        found: dict[Key, _Flag] = {}
        for piece in _pieces(texts):
            found |= await self._on_thread(partial(self._judge, piece))
        self._show(await self._on_thread(lambda: self._settle(offer, found)))
        await self._keep(offer.server, texts)
        self._rest_later()

    def _rest_later(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
        loop = asyncio.get_running_loop()
        self._rest = loop.call_later(REST_AFTER_S, lambda: loop.run_in_executor(self._thread, self._come_to_rest))

    async def _recall(self, server: str) -> None:
        """Know again what was clean of a server before this hub was started."""
        if self._store is None or server in self._written:
            return
        digests = await clean.read(self._store, server)
        self._written[server] = frozenset(digests)
        await self._on_thread(lambda: self._known.update(dict.fromkeys(digests, ())))

    async def _keep(self, server: str, texts: list[_Text]) -> None:
        if self._store is None:
            return
        now = await self._on_thread(lambda: self._clean(texts))
        if now != self._written.get(server):
            await clean.write(self._store, server, now)
            self._written[server] = now

    async def apply(self, config: Config) -> None:
        """Take over a configuration: its mode, its order of servers, and whom it trusts."""
        self._config = config
        self._show(await self._on_thread(self._settle_all))

    def close(self) -> None:
        """End the thread."""
        if self._rest is not None:
            self._rest.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _on_thread(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _show(self, offers: Iterable[Offer]) -> None:
        for offer in offers:
            self._put(offer)

    # On the thread

    def _come_to_rest(self) -> None:
        """Nothing was offered for a while: what judging needs is large, and goes. Results that are searched need it."""
        if not any(server.scan_results != "off" for server in self._config.servers.values()):
            let_go()
        give_back()

    def _judge(self, texts: list[_Text]) -> dict[Key, _Flag]:
        found: dict[Key, _Flag] = {}
        breath = time.perf_counter()
        for text in texts:
            digest = _digest(text)
            findings = self._known.get(digest)
            if findings is None:
                findings = self._known[digest] = _judged(text.judged)
            if time.perf_counter() - breath > BETWEEN_BREATHS_S:
                time.sleep(BREATH_S)
                breath = time.perf_counter()
            if findings:
                found[text.key] = _Flag(text.item, fingerprint(msgspec.json.decode(text.definition)), findings)
        if len(self._known) > MOST_KEPT:
            for digest in list(self._known)[: MOST_KEPT // 2]:
                del self._known[digest]
        return found

    def _clean(self, texts: list[_Text]) -> frozenset[bytes]:
        return frozenset(digest for digest in map(_digest, texts) if self._known.get(digest) == ())

    def _settle(self, offer: Offer, found: dict[Key, _Flag]) -> list[Offer]:
        """The offers that look different now: this one, and those whose names stand beside it."""
        beside = self._forget(offer.server)
        names = {tool.shown: skeleton(tool.shown) for tool in offer.tools.values()}
        self._judged[offer.server] = _Judged(offer, found, names)
        for name, alike in names.items():
            others = self._alike.setdefault(alike, {})
            others.setdefault(name, {})[offer.server] = None
            beside |= _beside(others)
        return [self._sifted(offer.server), *self._resifted(beside - {offer.server})]

    def _settle_all(self) -> list[Offer]:
        for server in set(self._judged) - set(self._order()):
            self._forget(server)
            self._last.pop(server, None)
        return self._resifted(set(self._judged))

    def _order(self) -> list[str]:
        return [name for name, server in self._config.servers.items() if server.enabled]

    def _forget(self, server: str) -> set[str]:
        """Take a server's names out; gives the servers whose names stood beside them."""
        judged = self._judged.pop(server, None)
        beside: set[str] = set()
        for name, alike in {} if judged is None else judged.names.items():
            others = self._alike[alike]
            beside |= _beside(others)
            del others[name][server]
            if not others[name]:
                del others[name]
            if not others:
                del self._alike[alike]
        return beside & set(self._judged)

    def _resifted(self, servers: set[str]) -> list[Offer]:
        """The offers of those servers of which more or less is in quarantine than before."""
        before = {server: self._last[server].held for server in servers}
        offers = [self._sifted(server) for server in sorted(servers)]
        return [offer for offer in offers if offer.held != before[offer.server]]

    def _sifted(self, server: str) -> Offer:
        """What may be shown of a server's offer, as things stand."""
        judged = self._judged[server]
        settings = self._config.servers.get(server)
        trusted = () if settings is None else settings.tools.trust
        mode = self._config.hub.mode
        held: list[Withheld] = []
        noted: list[Withheld] = []
        for (kind, name), flag in {**judged.found, **self._lookalikes(server, judged)}.items():
            shown, exposed = ("", "") if flag.item is None else (flag.item.shown, flag.item.exposed)
            made = Withheld(kind, server, name, shown, exposed, flag.fingerprint, flag.findings)
            withheld = any(keeps_out(finding, mode) for finding in flag.findings) and not made.trusted_by(trusted)
            (held if withheld else noted).append(made)
        self._tell(server, held, noted)
        offer = judged.offer.without(held) if held else judged.offer
        self._last[server] = offer
        return offer

    def _lookalikes(self, server: str, judged: _Judged) -> dict[Key, _Flag]:
        """Of two names that look the same, the one whose server stands first in the configuration is left alone."""
        found: dict[Key, _Flag] = {}
        doubtful = [(name, alike) for name, alike in judged.names.items() if len(self._alike[alike]) > 1]
        place = {name: at for at, name in enumerate(self._order())} if doubtful else {}
        for name, alike in doubtful:
            others = (
                (other, each) for each, servers in self._alike[alike].items() if each != name for other in servers
            )
            earlier = (other for other in others if place.get(other[0], 0) < place.get(server, 0))
            if findings := judge_against(server, name, earlier):
                tool = judged.offer.tools[name]
                key = ("tool", tool.name)
                known = judged.found.get(key)
                found[key] = _Flag(tool, tool.fingerprint(), (*findings, *(() if known is None else known.findings)))
        return found

    def _tell(self, server: str, held: list[Withheld], noted: list[Withheld]) -> None:
        """Say what is new since the last time."""
        before = self._last.get(server)
        said = set() if before is None else {(each.kind, each.name, each.fingerprint) for each in before.held}
        new = [each for each in held if (each.kind, each.name, each.fingerprint) not in said]
        lines = [f"in quarantine: {each.told()}; to allow it: {each.hint()}" for each in new]
        if before is None:
            lines += [f"flagged: {each.told()}" for each in noted]
        for line in lines[:MOST_LOGGED]:
            self._log(server, line)
        if len(lines) > MOST_LOGGED:
            self._log(server, f"and {len(lines) - MOST_LOGGED} more")


def _beside(names: Mapping[str, Mapping[str, None]]) -> set[str]:
    """The servers whose names look like one another, where there is more than one name."""
    return {server for servers in names.values() for server in servers} if len(names) > 1 else set()


def keeps_out(finding: Finding, mode: Mode) -> bool:
    """Whether a finding is reason enough to withhold a definition of a server that the operator chose."""
    if mode == "guard":
        return finding.rule.startswith(("text.", "instruction.")) or finding.rule in _WITHHELD
    return mode == "locked"


_WITHHELD = frozenset(
    (
        "definition.padding",
        "definition.shape",
        "definition.too_large",
        "definition.unjudged",
        "name.lookalike",
    )
)


class _Text(NamedTuple):
    key: Key
    item: Item | None
    judged: bytes
    """The definition as a model would see it, with what the operator changed."""
    definition: bytes
    """The definition as the server gave it: this is what trust is in."""


class _Flag(NamedTuple):
    item: Item | None
    fingerprint: str
    findings: tuple[Finding, ...]


class _Judged(NamedTuple):
    offer: Offer
    found: Mapping[Key, _Flag]
    names: dict[str, str]
    """Each tool's shown name, and what it looks like."""


def _texts(offer: Offer) -> list[_Text]:
    items = (item for kind in KINDS for item in offer.items(kind))
    texts = [_Text((item.kind, item.name), item, item.bare, item.definition) for item in items]
    if offer.instructions:
        described = msgspec.json.encode({"name": offer.server, "description": offer.instructions})
        texts.append(_Text((INSTRUCTIONS, INSTRUCTIONS), None, described, described))
    return texts


def _digest(text: _Text) -> bytes:
    return blake2b(text.judged, digest_size=clean.DIGEST_BYTES).digest()


def _pieces(texts: list[_Text]) -> Iterator[list[_Text]]:
    piece: list[_Text] = []
    size = 0
    for text in texts:
        piece.append(text)
        size += len(text.judged)
        if len(piece) >= PIECE or size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _judged(definition: bytes) -> tuple[Finding, ...]:
    try:
        return judge_definition(msgspec.json.decode(definition))
    except Exception as cause:  # what cannot be judged is not shown, and the log says so
        return (Finding("definition.unjudged", f"It could not be judged ({type(cause).__name__})."),)
