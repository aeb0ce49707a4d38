"""JWT access tokens (RFC 9068): verified once, then looked up by hash like a key, until they expire.

Issuer and subject alone identify the principal. The hub never forwards, stores or logs a token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec
from joserfc import jws
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry

from interlock.config.settings import IssuerSettings
from interlock.hub.auth.keys import Key
from interlock.hub.auth.oauth.issuer_keys import IssuerKeys
from interlock.hub.auth.oauth.resource import ProtectedResource
from interlock.hub.auth.principals import TOKEN, Kind, Principal
from interlock.hub.auth.rights import rights_of
from interlock.wire.errors import Fault

MAX_CHARACTERS: Final = 8192
MAX_TOKENS: Final = 10_000
LEEWAY_S: Final = 30
"""How far the issuer's clock may be ahead."""
MAX_SUBJECT: Final = 255

_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")


class VerifiedToken(msgspec.Struct, frozen=True):
    """The kept facts of a verified token."""

    key: Key
    audiences: frozenset[str]


class IssuerTokens:
    """Verifies access tokens of one issuer, and remembers those that were good."""

    def __init__(
        self,
        settings: IssuerSettings,
        keys: IssuerKeys,
        resource: ProtectedResource,
        changed: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self._settings = settings
        self.issuer = settings.issuer or ""
        self._keys = keys
        self._resource = resource
        self._changed = changed
        self._now = now
        self._verified: dict[str, VerifiedToken] = {}
        self._registry = JWSRegistry(algorithms=list(settings.algorithms), strict_check_header=False)

    def principal(self, text: str, path: str) -> Principal:
        """The principal of a token at an address. Raises AUTH_REQUIRED and related faults, or AuthenticationPending."""
        if len(text) > MAX_CHARACTERS:
            raise self._bad(f"the token has more than {MAX_CHARACTERS} characters", path)
        hash_ = TOKEN + hashlib.sha256(text.encode()).hexdigest()
        token = self._verified.get(hash_)
        if token is None:
            token = self._verify(text, hash_, path)
        if not self._resource.accepts(self._settings, token.audiences, path):
            raise self._bad("the token is for another audience", path)
        key = token.key
        if key.expired(self._now()):
            raise self._resource.expired(path)
        self._remember(hash_, token)
        return Principal(key.principal, key.kind, key.profile, hash_)

    def get(self, hash_: str) -> Key | None:
        """A verified token, as a key."""
        token = self._verified.get(hash_)
        return None if token is None else token.key

    def forget(self) -> None:
        """Verify all tokens again: the issuer's keys changed, or too many tokens are remembered."""
        self._verified.clear()
        self._changed()

    def insufficient_scope(self, exposed: str, server: str) -> Fault | None:
        """The fault for a token whose scopes do not cover a target; None if no scope does."""
        for scope, permissions in self._settings.scopes.items():
            rights = rights_of(self._settings.kind, permissions)
            if rights.invokes(exposed) if exposed else rights.invokes_all_of(server):
                message = f"the token has no scope for {exposed or server}"
                hint = f"get a token with the scope {scope}"
                return self._resource.refusal("INSUFFICIENT_SCOPE", message, "", hint, (scope,))
        return None

    def insufficient_right(self, right: str) -> Fault | None:
        """The fault for a token whose scopes do not give a right; None if no scope does."""
        scope = next((scope for scope, permissions in self._settings.scopes.items() if right in permissions), None)
        if scope is None:
            return None
        message, hint = f"the token has no scope that permits {right}", f"get a token with the scope {scope}"
        return self._resource.refusal("INSUFFICIENT_SCOPE", message, "", hint, (scope,))

    def _verify(self, text: str, hash_: str, path: str) -> VerifiedToken:
        try:
            token = jws.extract_compact(text.encode(), registry=self._registry)
            header = token.headers()
        except (JoseError, ValueError, TypeError, AttributeError, RecursionError):
            raise self._bad("the credential is neither a key nor a readable token", path) from None
        if not isinstance(header, dict):
            raise self._bad("the token's header is not an object", path)
        self._check_header(header, path)
        key = self._keys.find(header.get("kid"))
        if key is None:
            if (wait := self._keys.fetch_unknown()) is not None:
                raise wait
            raise self._bad("the token is signed with a key that the issuer does not publish", path)
        try:
            good = jws.validate_compact(token, key, registry=self._registry)
        except (JoseError, ValueError, TypeError):
            good = False
        if not good:
            raise self._bad("the token's signature is wrong", path)
        return self._read(token.payload or b"", hash_, path)

    def _check_header(self, header: dict[str, object], path: str) -> None:
        """Refuse tokens that no key could make valid, before looking for a key."""
        if header.get("alg") not in self._settings.algorithms:
            raise self._bad("the token's signature algorithm is not accepted", path)
        type_ = header.get("typ", "JWT")
        if not isinstance(type_, str) or type_.lower() not in _TYPES or "crit" in header:
            raise self._bad("this is not an access token", path)

    def _read(self, payload: bytes, hash_: str, path: str) -> VerifiedToken:
        """Check the claims of a token with a valid signature (RFC 9068, Validating JWT Access Tokens)."""
        settings = self._settings
        checks = JWTClaimsRegistry(
            now=int(self._now().timestamp()),
            leeway=LEEWAY_S,
            iss={"essential": True, "value": settings.issuer or ""},
            sub={"essential": True},
            aud={"essential": True},
            exp={"essential": True},
        )
        try:
            claims = msgspec.json.decode(payload, type=dict[str, object])
            checks.validate(claims)
            checked = msgspec.convert(claims, _Claims)
            expires = datetime.fromtimestamp(checked.exp, UTC)
        except ExpiredTokenError:
            raise self._resource.expired(path) from None
        except (JoseError, msgspec.MsgspecError, ValueError, OverflowError, OSError, RecursionError) as cause:
            why = getattr(cause, "description", "") if isinstance(cause, JoseError) else ""
            raise self._bad(f"the token is not valid: {_plain(why) or 'its claims cannot be read'}", path) from None
        if "cnf" in claims:
            raise self._bad("the token is bound to a key of the client, which is not supported", path)
        if not 0 < len(checked.sub) <= MAX_SUBJECT or not checked.sub.isprintable():
            raise self._bad("the token's subject is empty, too long or not printable", path)
        kind: Kind = "person" if checked.sub in settings.people else settings.kind
        key = Key(
            hash_,
            "",
            f"{checked.iss}#{checked.sub}",
            kind,
            "",
            settings.profile,
            expires,
            self._permissions(claims, path),
        )
        audiences = (checked.aud,) if isinstance(checked.aud, str) else checked.aud
        return VerifiedToken(key, frozenset(name.rstrip("/") for name in audiences))

    def _permissions(self, claims: dict[str, object], path: str) -> tuple[str, ...] | None:
        """The permissions of the token's scopes; None for those of its kind. Raises INSUFFICIENT_SCOPE."""
        settings = self._settings
        if not settings.scopes:
            return None
        scopes = claims.get(settings.scope_claim)
        named = scopes.split(" ") if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
        found = (
            permission for scope in named if isinstance(scope, str) for permission in settings.scopes.get(scope, ())
        )
        permissions = tuple(dict.fromkeys(found))
        if not permissions:
            message, hint = "the token has no scope that permits anything here", "request one of the scopes"
            raise self._resource.refusal("INSUFFICIENT_SCOPE", message, path, hint)
        return permissions

    def _remember(self, hash_: str, token: VerifiedToken) -> None:
        if hash_ in self._verified:
            return
        if len(self._verified) >= MAX_TOKENS:
            now = self._now()
            self._verified = {known: other for known, other in self._verified.items() if not other.key.expired(now)}
        if len(self._verified) >= MAX_TOKENS:
            self.forget()
        self._verified[hash_] = token

    def _bad(self, message: str, path: str) -> Fault:
        return self._resource.refusal("AUTH_REQUIRED", message, path)


class _Claims(msgspec.Struct):
    iss: str
    sub: str
    aud: str | list[str]
    exp: float


def _plain(text: str) -> str:
    """A text without characters that could end a quoted string in a header."""
    return "".join(char for char in text if char.isascii() and char.isprintable() and char not in '"\\')[:200]
