"""The public keys of an issuer: fetched in the background, and again when a token names an unknown one.

However many tokens name unknown keys, the hub fetches at most once a minute, and their callers wait for it. Keys that
could not be fetched again for a day are not used any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from interlock.config.settings import IssuerSettings
from interlock.hub.auth.oauth.discovery import fetch_keys, keys_url
from interlock.transports.requests.pending_authentication import AuthenticationPending
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

PublicKey = RSAKey | ECKey | OKPKey

FETCH_EVERY_S: Final = 600.0
MIN_FETCH_INTERVAL_S: Final = 60.0
MAX_AGE_S: Final = 86_400.0
FETCH_TIMEOUT_S: Final = 5.0
MAX_BYTES: Final = 256 * 1024
MAX_KEYS: Final = 64
MAX_WAITING: Final = 1024
"""Callers who wait for a fetch; further ones get SERVER_NOT_READY."""
_NOT_FETCHED: Final = "the hub is fetching the issuer's keys"
RSA_BITS: Final = range(2048, 8193)
RSA_EXPONENT_BITS: Final = 32
"""Longer public exponents make the check of a signature slow: 60 ms with 3,072 bits. Issuers use 65537."""


class IssuerKeys:
    """The keys of one issuer, by their ids."""

    def __init__(
        self, settings: IssuerSettings, resolver: Resolver, log: Callable[[str], None], changed: Callable[[], None]
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
        """Callers who wait for the current fetch."""
        self._discovered_url = ""
        """The address of the keys, from the issuer's metadata."""

    @property
    def known(self) -> bool:
        """Whether there are keys to check a token with."""
        return self.clock() - self._fetched_at < MAX_AGE_S

    @property
    def fetching(self) -> bool:
        return self._fetching is not None and not self._fetching.done()

    def find(self, kid: object) -> PublicKey | None:
        """The key that a token names. A token without a key id means the only key."""
        if not self.known:
            return None
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid) if isinstance(kid, str) else None

    def fetch_unknown(self) -> Fault | None:
        """Fetch again: an unknown key may be new. Returns the fault for the caller; None if there is no such key."""
        if not self.fetching and self.clock() - self._tried_at >= MIN_FETCH_INTERVAL_S:
            self._start()
        if self._fetching is not None and self.fetching and self._waiting < MAX_WAITING:
            self._waiting += 1
            return AuthenticationPending(_NOT_FETCHED, self._fetching)
        return Fault("SERVER_NOT_READY", _NOT_FETCHED, retry_after_ms=1000) if self.fetching or not self.known else None

    def tick(self) -> None:
        """Fetch keys that are old; after a failure, sooner."""
        due = MIN_FETCH_INTERVAL_S if self._fetched_at < self._tried_at else FETCH_EVERY_S
        if not self.fetching and self.clock() - self._tried_at >= due:
            self._discovered_url = ""
            self._start()

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    async def settled(self) -> None:
        """Wait for the current fetch."""
        if self._fetching is not None:
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _start(self) -> None:
        self._tried_at = self.clock()
        self._waiting = 0
        self._fetching = asyncio.ensure_future(self._fetch())

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_S):
                document = await self._read()
            keys = self._keys if document == self._document else await asyncio.to_thread(read_keys, document)
        except (Fault, OSError, ValueError) as cause:
            self._discovered_url = ""
            self._log(f"the keys of {self._settings.issuer} could not be fetched: {str(cause) or 'timeout'}")
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
            return await fetch_keys(settings.jwks_url, None, self._resolver, MAX_BYTES, FETCH_TIMEOUT_S)
        issuer = settings.issuer or ""
        self._discovered_url = self._discovered_url or await keys_url(issuer, self._resolver, FETCH_TIMEOUT_S)
        return await fetch_keys(self._discovered_url, issuer, self._resolver, MAX_BYTES, FETCH_TIMEOUT_S)


def read_keys(document: bytes) -> Mapping[str, PublicKey]:
    """The keys of a JWK set that can verify a signature (RFC 7517). Raises Fault or ValueError if there is none.

    Shared secrets are ignored, and so are two keys with the same id.
    """
    found: dict[str, PublicKey] = {}
    duplicates: set[str] = set()
    published = decode_json(document, _KeySet, "UPSTREAM_ERROR", "the key set cannot be read")
    for number, jwk in enumerate(published.keys[:MAX_KEYS]):
        key = _public_key(jwk)
        if key is None:
            continue
        kid = jwk.get("kid", f"#{number}")
        name = kid if isinstance(kid, str) else f"#{number}"
        if name in found:
            duplicates.add(name)
        found[name] = key
    keys = {name: key for name, key in found.items() if name not in duplicates}
    if not keys:
        raise ValueError("the document has no public key that can verify a signature")
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
        exponent = key.public_key.public_numbers().e
        good = key.public_key.key_size in RSA_BITS and exponent.bit_length() <= RSA_EXPONENT_BITS
        return key if good else None
    return key if isinstance(key, ECKey | OKPKey) else None


_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k", "key_ops"})
"""Private members, which nobody should publish, and unused ones."""


def _read_file(path: str) -> bytes:
    with Path(path).expanduser().open("rb") as file:
        document = file.read(MAX_BYTES + 1)
    if len(document) > MAX_BYTES:
        raise ValueError(f"{path} has more than {MAX_BYTES} bytes")
    return document
