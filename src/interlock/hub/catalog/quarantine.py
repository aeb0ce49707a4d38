"""Judges definitions before the hub lists or calls them. A flagged item stays in quarantine until it is trusted.

One thread judges in small batches, so that neither the event loop nor another server waits for a long list. The hub
judges each definition once, and a clean one not even again after a restart.
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

from interlock.config.settings import Config
from interlock.config.value_types import Mode
from interlock.hub.catalog import clean_definitions as clean
from interlock.hub.catalog.items import Item, ItemKind
from interlock.hub.catalog.offer import Offer, QuarantinedItem
from interlock.judge.definitions import judge_definition
from interlock.judge.findings import Finding
from interlock.judge.fingerprints import fingerprint
from interlock.judge.instructions import let_go
from interlock.judge.names import judge_against, skeleton
from interlock.process.memory import note_freed_memory
from interlock.store import Store

BATCH: Final = 32
BATCH_BYTES: Final = 65_536
"""The limits of one batch. It takes some tens of milliseconds; then other servers have their turn."""
MAX_JUDGEMENTS: Final = 131_072
"""Judgements kept in memory. Beyond that the hub drops the oldest half."""
YIELD_S: Final = 0.0001
YIELD_EVERY_S: Final = 0.001
"""The thread releases the interpreter this often, so that the event loop does not wait."""
IDLE_AFTER_S: Final = 2.0
"""After this time without a new offer the hub frees the memory of the judges."""
MAX_LOGGED: Final = 20
KINDS: Final[tuple[ItemKind, ...]] = ("tool", "prompt", "resource", "template")
INSTRUCTIONS: Final = "instructions"

_Result = TypeVar("_Result")
Log = Callable[[str, str], None]
Key = tuple[str, str]
"""The kind of an item, and its name at the server."""


class Quarantine:
    """Judges the offers of servers, and puts them into the catalog without the items in quarantine."""

    def __init__(self, config: Config, put: Callable[[Offer], None], log: Log) -> None:
        self._config = config
        self._put = put
        self._log = log
        self._store: Store | None = None
        self._written: dict[str, frozenset[bytes]] = {}
        """The stored digests of clean definitions by server."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="definitions")
        # Only that thread uses the attributes below, except `_idle_timer`.
        self._known: dict[bytes, tuple[Finding, ...]] = {}
        self._judged: dict[str, _JudgedOffer] = {}
        self._alike: dict[str, dict[str, dict[str, None]]] = {}
        """The names of all tools with their servers, by their skeleton: names that look the same share one."""
        self._last: dict[str, Offer] = {}
        self._idle_timer: asyncio.TimerHandle | None = None

    def begin(self, store: Store) -> None:
        """Remember clean definitions in this store."""
        self._store = store

    async def take(self, offer: Offer) -> None:
        """Judge a new offer, then put it into the catalog without the items in quarantine."""
        await self._load_clean(offer.server)
        texts = await self._on_thread(lambda: _texts(offer))
        found: dict[Key, _Flag] = {}
        for batch in _batches(texts):
            found |= await self._on_thread(partial(self._judge, batch))
        self._show(await self._on_thread(lambda: self._take_judged(offer, found)))
        await self._store_clean(offer.server, texts)
        self._restart_idle_timer()

    def _restart_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        loop = asyncio.get_running_loop()
        self._idle_timer = loop.call_later(IDLE_AFTER_S, lambda: loop.run_in_executor(self._thread, self._on_idle))

    async def _load_clean(self, server: str) -> None:
        """Load the digests of a server's clean definitions from earlier runs."""
        if self._store is None or server in self._written:
            return
        digests = await clean.read(self._store, server)
        self._written[server] = frozenset(digests)
        await self._on_thread(lambda: self._known.update(dict.fromkeys(digests, ())))

    async def _store_clean(self, server: str, texts: list[_Text]) -> None:
        if self._store is None:
            return
        now = await self._on_thread(lambda: self._clean(texts))
        if now != self._written.get(server):
            await clean.write(self._store, server, now)
            self._written[server] = now

    async def apply(self, config: Config) -> None:
        """Use a new configuration: its mode, its order of servers, and its trust entries."""
        self._config = config
        self._show(await self._on_thread(self._judge_names_again))

    def close(self) -> None:
        """End the thread."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _on_thread(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _show(self, offers: Iterable[Offer]) -> None:
        for offer in offers:
            self._put(offer)

    # On the thread

    def _on_idle(self) -> None:
        """Free the memory of the judges, unless the scanning of results needs them."""
        if not any(server.scan_results != "off" for server in self._config.servers.values()):
            let_go()
        note_freed_memory()

    def _judge(self, texts: list[_Text]) -> dict[Key, _Flag]:
        found: dict[Key, _Flag] = {}
        yielded = time.perf_counter()
        for text in texts:
            digest = _digest(text)
            findings = self._known.get(digest)
            if findings is None:
                findings = self._known[digest] = _judged(text.judged)
            if time.perf_counter() - yielded > YIELD_EVERY_S:
                time.sleep(YIELD_S)
                yielded = time.perf_counter()
            if findings:
                found[text.key] = _Flag(text.item, fingerprint(msgspec.json.decode(text.definition)), findings)
        if len(self._known) > MAX_JUDGEMENTS:
            for digest in list(self._known)[: MAX_JUDGEMENTS // 2]:
                del self._known[digest]
        return found

    def _clean(self, texts: list[_Text]) -> frozenset[bytes]:
        return frozenset(digest for digest in map(_digest, texts) if self._known.get(digest) == ())

    def _take_judged(self, offer: Offer, found: dict[Key, _Flag]) -> list[Offer]:
        """Keep the findings on an offer. Returns it, and the offers whose quarantine changed because of its names."""
        affected = self._forget(offer.server)
        names = {tool.shown: skeleton(tool.shown) for tool in offer.tools.values()}
        self._judged[offer.server] = _JudgedOffer(offer, found, names)
        for name, alike in names.items():
            others = self._alike.setdefault(alike, {})
            others.setdefault(name, {})[offer.server] = None
            affected |= _lookalike_servers(others)
        return [self._admitted(offer.server), *self._changed(affected - {offer.server})]

    def _judge_names_again(self) -> list[Offer]:
        for server in set(self._judged) - set(self._order()):
            self._forget(server)
            self._last.pop(server, None)
        return self._changed(set(self._judged))

    def _order(self) -> list[str]:
        return [name for name, server in self._config.servers.items() if server.enabled]

    def _forget(self, server: str) -> set[str]:
        """Remove a server's names. Returns the servers with names that look like them."""
        judged = self._judged.pop(server, None)
        affected: set[str] = set()
        for name, alike in {} if judged is None else judged.names.items():
            others = self._alike[alike]
            affected |= _lookalike_servers(others)
            del others[name][server]
            if not others[name]:
                del others[name]
            if not others:
                del self._alike[alike]
        return affected & set(self._judged)

    def _changed(self, servers: set[str]) -> list[Offer]:
        """The offers of those servers whose quarantine changed."""
        before = {server: self._last[server].quarantined for server in servers}
        offers = [self._admitted(server) for server in sorted(servers)]
        return [offer for offer in offers if offer.quarantined != before[offer.server]]

    def _admitted(self, server: str) -> Offer:
        """A server's offer without the items in quarantine."""
        judged = self._judged[server]
        settings = self._config.servers.get(server)
        trusted = () if settings is None else settings.tools.trust
        mode = self._config.hub.mode
        quarantined: list[QuarantinedItem] = []
        flagged: list[QuarantinedItem] = []
        for (kind, name), flag in {**judged.found, **self._lookalikes(server, judged)}.items():
            shown, exposed = ("", "") if flag.item is None else (flag.item.shown, flag.item.exposed)
            judged_item = QuarantinedItem(kind, server, name, shown, exposed, flag.fingerprint, flag.findings)
            flagging = any(keeps_out(finding, mode) for finding in flag.findings)
            keep_out = flagging and not judged_item.trusted_by(trusted)
            (quarantined if keep_out else flagged).append(judged_item)
        self._log_new(server, quarantined, flagged)
        offer = judged.offer.without(quarantined) if quarantined else judged.offer
        self._last[server] = offer
        return offer

    def _lookalikes(self, server: str, judged: _JudgedOffer) -> dict[Key, _Flag]:
        """Flag the names that look like a name of a server that comes earlier in the configuration."""
        found: dict[Key, _Flag] = {}
        ambiguous = [(name, alike) for name, alike in judged.names.items() if len(self._alike[alike]) > 1]
        place = {name: at for at, name in enumerate(self._order())} if ambiguous else {}
        for name, alike in ambiguous:
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

    def _log_new(self, server: str, quarantined: list[QuarantinedItem], flagged: list[QuarantinedItem]) -> None:
        """Log the items that are new in quarantine; for a new server, also the other flagged items."""
        before = self._last.get(server)
        known = set() if before is None else {(each.kind, each.name, each.fingerprint) for each in before.quarantined}
        new = [each for each in quarantined if (each.kind, each.name, each.fingerprint) not in known]
        lines = [f"in quarantine: {each.describe()}; to allow it: {each.hint()}" for each in new]
        if before is None:
            lines += [f"flagged: {each.describe()}" for each in flagged]
        for line in lines[:MAX_LOGGED]:
            self._log(server, line)
        if len(lines) > MAX_LOGGED:
            self._log(server, f"and {len(lines) - MAX_LOGGED} more")


def _lookalike_servers(names: Mapping[str, Mapping[str, None]]) -> set[str]:
    """The servers of names that look the same; none if there is only one name."""
    return {server for servers in names.values() for server in servers} if len(names) > 1 else set()


def keeps_out(finding: Finding, mode: Mode) -> bool:
    """Whether a finding puts a definition into quarantine in this mode."""
    if mode == "guard":
        return finding.rule.startswith(("text.", "instruction.")) or finding.rule in _QUARANTINED_RULES
    return mode == "locked"


_QUARANTINED_RULES = frozenset(
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
    """The definition as a model sees it, with the operator's changes."""
    definition: bytes
    """The server's definition, to which the operator's trust applies."""


class _Flag(NamedTuple):
    item: Item | None
    fingerprint: str
    findings: tuple[Finding, ...]


class _JudgedOffer(NamedTuple):
    offer: Offer
    found: Mapping[Key, _Flag]
    names: dict[str, str]
    """The shown name of each tool, and its skeleton."""


def _texts(offer: Offer) -> list[_Text]:
    items = (item for kind in KINDS for item in offer.items(kind))
    texts = [_Text((item.kind, item.name), item, item.bare, item.definition) for item in items]
    if offer.instructions:
        described = msgspec.json.encode({"name": offer.server, "description": offer.instructions})
        texts.append(_Text((INSTRUCTIONS, INSTRUCTIONS), None, described, described))
    return texts


def _digest(text: _Text) -> bytes:
    return blake2b(text.judged, digest_size=clean.DIGEST_BYTES).digest()


def _batches(texts: list[_Text]) -> Iterator[list[_Text]]:
    batch: list[_Text] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text.judged)
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _judged(definition: bytes) -> tuple[Finding, ...]:
    try:
        return judge_definition(msgspec.json.decode(definition))
    except Exception as cause:  # an unjudged definition goes into quarantine
        return (Finding("definition.unjudged", f"The definition could not be judged ({type(cause).__name__})."),)
