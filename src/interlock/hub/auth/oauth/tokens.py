"""JWT access tokens (RFC 9068): checked once, then looked up by their hash like any key, until they expire.

Who a token stands for is its issuer and subject, and nothing else it says. It is never passed on, kept or logged.
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

from interlock.config.settings import Issuer
from interlock.hub.auth.keys import Key
from interlock.hub.auth.oauth.issuer_keys import IssuerKeys
from interlock.hub.auth.oauth.resource import Resource
from interlock.hub.auth.principals import TOKEN, Kind, Principal
from interlock.hub.auth.rights import rights_of
from interlock.wire.errors import Fault

MOST_CHARACTERS: Final = 8192
MOST_TOKENS: Final = 10_000
LEEWAY_S: Final = 30
"""How far the issuer's clock may be ahead of ours."""
LONGEST_SUBJECT: Final = 255

_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")


class Verified(msgspec.Struct, frozen=True):
    """What is kept of a token that was found good."""

    key: Key
    audiences: frozenset[str]


class Tokens:
    """The tokens of one issuer."""

    def __init__(
        self,
        settings: Issuer,
        keys: IssuerKeys,
        resource: Resource,
        changed: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self._settings = settings
        self.issuer = settings.issuer or ""
        self._keys = keys
        self._resource = resource
        self._changed = changed
        self._now = now
        self._verified: dict[str, Verified] = {}
        self._registry = JWSRegistry(algorithms=list(settings.algorithms), strict_check_header=False)

    def principal(self, text: str, path: str) -> Principal:
        """Whom a token stands for at an address. Raises AUTH_REQUIRED and its like, or `Unsettled`."""
        if len(text) > MOST_CHARACTERS:
            raise self._bad(f"the token has more than {MOST_CHARACTERS} characters", path)
        hash_ = TOKEN + hashlib.sha256(text.encode()).hexdigest()
        token = self._verified.get(hash_)
        if token is None:
            token = self._verify(text, hash_, path)
        if not self._resource.accepts(self._settings, token.audiences, path):
            raise self._bad("the token was made for another audience", path)
        key = token.key
        if key.expired(self._now()):
            raise self._expired(path)
        self._keep(hash_, token)
        return Principal(key.principal, key.kind, key.profile, hash_)

    def get(self, hash_: str) -> Key | None:
        """A token that was found good, as a key."""
        token = self._verified.get(hash_)
        return None if token is None else token.key

    def forget(self) -> None:
        """Check whatever comes again: the issuer's keys changed, or too many are remembered."""
        self._verified.clear()
        self._changed()

    def short_of_scope(self, exposed: str, server: str) -> Fault | None:
        """What a caller is told whose token's scopes do not cover a target; None where no scope would."""
        for scope, permissions in self._settings.scopes.items():
            rights = rights_of(self._settings.kind, permissions)
            if rights.invokes(exposed) if exposed else rights.invokes_all_of(server):
                message = f"the token has no scope for {exposed or server}"
                hint = f"get a token with the scope {scope}"
                return self._resource.refusal("INSUFFICIENT_SCOPE", message, "", hint, (scope,))
        return None

    def short_of_right(self, right: str) -> Fault | None:
        """The same for what is no target but a right, like that to read as an administrator."""
        scope = next((scope for scope, permissions in self._settings.scopes.items() if right in permissions), None)
        if scope is None:
            return None
        message, hint = f"the token has no scope that permits {right}", f"get a token with the scope {scope}"
        return self._resource.refusal("INSUFFICIENT_SCOPE", message, "", hint, (scope,))

    def _verify(self, text: str, hash_: str, path: str) -> Verified:
        try:
            token = jws.extract_compact(text.encode(), registry=self._registry)
            header = token.headers()
        except (JoseError, ValueError, TypeError, AttributeError, RecursionError):
            raise self._bad("this credential is neither a key nor a token that can be read", path) from None
        if not isinstance(header, dict):
            raise self._bad("the token's header is not an object", path)
        self._check_header(header, path)
        key = self._keys.find(header.get("kid"))
        if key is None:
            if (wait := self._keys.look_again()) is not None:
                raise wait
            raise self._bad("the token is signed with a key that the issuer does not publish", path)
        try:
            good = jws.validate_compact(token, key, registry=self._registry)
        except (JoseError, ValueError, TypeError):
            good = False
        if not good:
            raise self._bad("the token's signature is not good", path)
        return self._read(token.payload or b"", hash_, path)

    def _check_header(self, header: dict[str, object], path: str) -> None:
        """Before any key is looked for: what no key could make good."""
        if header.get("alg") not in self._settings.algorithms:
            raise self._bad("the token is signed in a way that is not accepted here", path)
        type_ = header.get("typ", "JWT")
        if not isinstance(type_, str) or type_.lower() not in _TYPES or "crit" in header:
            raise self._bad("this is not an access token", path)

    def _read(self, payload: bytes, hash_: str, path: str) -> Verified:
        """What a token whose signature is good says (RFC 9068, Validating JWT Access Tokens)."""
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
            said = msgspec.convert(claims, _Claims)
            expires = datetime.fromtimestamp(said.exp, UTC)
        except ExpiredTokenError:
            raise self._expired(path) from None
        except (JoseError, msgspec.MsgspecError, ValueError, OverflowError, OSError, RecursionError) as cause:
            why = getattr(cause, "description", "") if isinstance(cause, JoseError) else ""
            raise self._bad(f"the token is not good here: {_plain(why) or 'its claims cannot be read'}", path) from None
        if "cnf" in claims:
            raise self._bad("the token is bound to a key that the client would have to prove here", path)
        if not 0 < len(said.sub) <= LONGEST_SUBJECT or not said.sub.isprintable():
            raise self._bad("the token's subject is not a name", path)
        kind: Kind = "person" if said.sub in settings.people else settings.kind
        key = Key(
            hash_, "", f"{said.iss}#{said.sub}", kind, "", settings.profile, expires, self._permissions(claims, path)
        )
        audiences = (said.aud,) if isinstance(said.aud, str) else said.aud
        return Verified(key, frozenset(name.rstrip("/") for name in audiences))

    def _permissions(self, claims: dict[str, object], path: str) -> tuple[str, ...] | None:
        """What the scopes permit; None for what the kind does. Raises INSUFFICIENT_SCOPE for a token that has none."""
        settings = self._settings
        if not settings.scopes:
            return None
        held = claims.get(settings.scope_claim)
        named = held.split(" ") if isinstance(held, str) else held if isinstance(held, list) else []
        found = (
            permission for scope in named if isinstance(scope, str) for permission in settings.scopes.get(scope, ())
        )
        permissions = tuple(dict.fromkeys(found))
        if not permissions:
            message, hint = "the token has none of the scopes that permit anything here", "ask for one of them"
            raise self._resource.refusal("INSUFFICIENT_SCOPE", message, path, hint)
        return permissions

    def _keep(self, hash_: str, token: Verified) -> None:
        if hash_ in self._verified:
            return
        if len(self._verified) >= MOST_TOKENS:
            now = self._now()
            self._verified = {kept: of for kept, of in self._verified.items() if not of.key.expired(now)}
        if len(self._verified) >= MOST_TOKENS:
            self.forget()
        self._verified[hash_] = token

    def _expired(self, path: str) -> Fault:
        return self._resource.refusal("AUTH_EXPIRED", "the token has expired", path)

    def _bad(self, message: str, path: str) -> Fault:
        return self._resource.refusal("AUTH_REQUIRED", message, path)


class _Claims(msgspec.Struct):
    iss: str
    sub: str
    aud: str | list[str]
    exp: float


def _plain(text: str) -> str:
    """A library's words without what could end a quoted string in a header."""
    return "".join(char for char in text if char.isascii() and char.isprintable() and char not in '"\\')[:200]
