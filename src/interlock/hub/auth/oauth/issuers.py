"""All accepted issuers. A token is checked only with the keys of the issuer that it names."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import msgspec

from interlock.hub.auth.keys import Key
from interlock.hub.auth.oauth.resource import ProtectedResource
from interlock.hub.auth.oauth.tokens import MAX_CHARACTERS, IssuerTokens
from interlock.hub.auth.principals import Principal
from interlock.wire.errors import Fault


class Issuers:
    """The tokens of all issuers, as credentials."""

    def __init__(self, tokens: Sequence[IssuerTokens], resource: ProtectedResource) -> None:
        self._tokens = {each.issuer: each for each in tokens}
        self._resource = resource

    def principal(self, text: str, path: str) -> Principal:
        """The principal of a token at an address. Raises AUTH_REQUIRED and related faults, or AuthenticationPending."""
        return self._named_by(text, path).principal(text, path)

    def get(self, hash_: str) -> Key | None:
        """A verified token, as a key."""
        return next((key for each in self._tokens.values() if (key := each.get(hash_)) is not None), None)

    def challenge(self, path: str) -> str:
        """The challenge for a caller without a credential."""
        return self._resource.challenge(path)

    def expired(self, path: str) -> Fault:
        """The fault for a token that has expired."""
        return self._resource.expired(path)

    def insufficient_scope(self, principal: Principal, exposed: str, server: str) -> Fault | None:
        """The fault for a token whose scopes do not cover a target; None if no scope does."""
        tokens = self._issuer_of(principal)
        return None if tokens is None else tokens.insufficient_scope(exposed, server)

    def insufficient_right(self, principal: Principal, right: str) -> Fault | None:
        """The fault for a token whose scopes do not give a right; None if no scope does."""
        tokens = self._issuer_of(principal)
        return None if tokens is None else tokens.insufficient_right(right)

    def _issuer_of(self, principal: Principal) -> IssuerTokens | None:
        return next((each for each in self._tokens.values() if each.get(principal.key) is not None), None)

    def _named_by(self, text: str, path: str) -> IssuerTokens:
        """The issuer that must verify a token. Until then the token is only a claim."""
        if len(self._tokens) == 1:
            return next(iter(self._tokens.values()))
        try:
            part = text[:MAX_CHARACTERS].split(".")[1]
            claims = msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), type=_Named)
            return self._tokens[claims.iss]
        except (IndexError, KeyError, ValueError, binascii.Error, msgspec.DecodeError, RecursionError):
            message = "the credential is neither a key nor a token of an accepted issuer"
            raise self._resource.refusal("AUTH_REQUIRED", message, path) from None


class _Named(msgspec.Struct):
    iss: str
