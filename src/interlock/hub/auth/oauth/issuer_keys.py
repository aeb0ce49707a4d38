"""The issuer's public keys: fetched off the hot path, kept, and looked for again when a token names one not known.

However many tokens name unknown keys, they are fetched at most once a minute, and whoever asked waits for that. What
cannot be fetched again for a day is believed no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from interlock.config.settings import Issuer
from interlock.hub.auth.oauth.discovery import fetch_keys, keys_url
from interlock.transports.pending_authentication import AuthenticationPending
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

PublicKey = RSAKey | ECKey | OKPKey

FETCH_EVERY_S: Final = 600.0
FETCH_AGAIN_S: Final = 60.0
"""The least time between two fetches, whatever is asked for."""
BELIEVED_S: Final = 86_400.0
FETCH_WITHIN_S: Final = 5.0
MOST_BYTES: Final = 256 * 1024
MOST_KEYS: Final = 64
MOST_WAITING: Final = 1024
"""Callers who wait while keys are fetched; further ones are told to come back."""
_NOT_HERE: Final = "the issuer's keys are not here yet"
RSA_BITS: Final = range(2048, 8193)


class IssuerKeys:
    """The keys of one issuer, by their ids."""

    def __init__(
        self, settings: Issuer, resolver: Resolver, log: Callable[[str], None], changed: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._resolver = resolver
        self._log = log
        self._changed = changed
        self.clock: Callable[[], float] = asyncio.get_running_loop().time
        self._keys: Mapping[str, PublicKey] = {}
        self._document = b""
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._waiting = 0
        """Who waits for what is being fetched."""
        self._found = ""
        """Where the issuer says that its keys are."""

    @property
    def known(self) -> bool:
        """Whether there is anything to check a token with."""
        return self.clock() - self._fetched_at < BELIEVED_S

    @property
    def coming(self) -> bool:
        """Whether they are being fetched just now."""
        return self._fetching is not None and not self._fetching.done()

    def find(self, kid: object) -> PublicKey | None:
        """The key that a token names. One that names none means the only key there is."""
        if not self.known:
            return None
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid) if isinstance(kid, str) else None

    def look_again(self) -> Fault | None:
        """Somebody asks for a key that is not there: perhaps it is new. Gives what they are told until that is known;
        None where it is known that there is no such key."""
        if not self.coming and self.clock() - self._tried_at >= FETCH_AGAIN_S:
            self._start()
        if self._fetching is not None and self.coming and self._waiting < MOST_WAITING:
            self._waiting += 1
            return AuthenticationPending(_NOT_HERE, self._fetching)
        return Fault("SERVER_NOT_READY", _NOT_HERE, retry_after_ms=1000) if self.coming or not self.known else None

    def tick(self) -> None:
        """Fetch what has grown old; after a failure, sooner."""
        due = FETCH_AGAIN_S if self._fetched_at < self._tried_at else FETCH_EVERY_S
        if not self.coming and self.clock() - self._tried_at >= due:
            self._found = ""
            self._start()

    async def close(self) -> None:
        """Fetch no more."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    async def settled(self) -> None:
        """Wait for a fetch under way."""
        if self._fetching is not None:
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _start(self) -> None:
        self._tried_at = self.clock()
        self._waiting = 0
        self._fetching = asyncio.ensure_future(self._fetch())

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(FETCH_WITHIN_S):
                document = await self._read()
            keys = self._keys if document == self._document else await asyncio.to_thread(read_keys, document)
        except (Fault, OSError, ValueError) as cause:
            self._found = ""
            self._log(f"the keys of {self._settings.issuer} cannot be read: {str(cause) or 'not in time'}")
            return
        self._fetched_at = self._tried_at
        if document != self._document:
            self._keys, self._document = keys, document
            self._changed()

    async def _read(self) -> bytes:
        settings = self._settings
        if settings.jwks_file is not None:
            return await asyncio.to_thread(_read_file, settings.jwks_file)
        if settings.jwks_url is not None:
            return await fetch_keys(settings.jwks_url, None, self._resolver, MOST_BYTES, FETCH_WITHIN_S)
        issuer = settings.issuer or ""
        self._found = self._found or await keys_url(issuer, self._resolver, FETCH_WITHIN_S)
        return await fetch_keys(self._found, issuer, self._resolver, MOST_BYTES, FETCH_WITHIN_S)


def read_keys(document: bytes) -> Mapping[str, PublicKey]:
    """The keys of a JWK set that can check a signature (RFC 7517). Others are passed over. Raises ValueError.

    A shared secret is never a key here, whoever publishes it; two keys under one id are both passed over.
    """
    found: dict[str, PublicKey] = {}
    twice: set[str] = set()
    for number, jwk in enumerate(msgspec.json.decode(document, type=_KeySet).keys[:MOST_KEYS]):
        key = _public_key(jwk)
        if key is None:
            continue
        kid = jwk.get("kid", f"#{number}")
        name = kid if isinstance(kid, str) else f"#{number}"
        if name in found:
            twice.add(name)
        found[name] = key
    keys = {name: key for name, key in found.items() if name not in twice}
    if not keys:
        raise ValueError("it holds no public key that a signature could be checked with")
    return keys


class _KeySet(msgspec.Struct):
    keys: list[dict[str, object]]


def _public_key(jwk: dict[str, object]) -> PublicKey | None:
    if jwk.get("kty") not in ("RSA", "EC", "OKP") or jwk.get("use", "sig") != "sig":
        return None
    operations = jwk.get("key_ops")
    if isinstance(operations, list) and "verify" not in operations:
        return None
    try:
        key = JWKRegistry.import_key({name: value for name, value in jwk.items() if name not in _PRIVATE})  # type: ignore[misc]
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAKey):
        return key if key.public_key.key_size in RSA_BITS else None
    return key if isinstance(key, ECKey | OKPKey) else None


_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k", "key_ops"})
"""What nobody should publish, and what is not needed here."""


def _read_file(path: str) -> bytes:
    with Path(path).expanduser().open("rb") as file:
        document = file.read(MOST_BYTES + 1)
    if len(document) > MOST_BYTES:
        raise ValueError(f"{path} has more than {MOST_BYTES} bytes")
    return document
