"""Every issuer whose tokens count. A token is judged by the one that it names, with that one's keys and no other's."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import msgspec

from interlock.hub.auth.keys import Key
from interlock.hub.auth.oauth.resource import Resource
from interlock.hub.auth.oauth.tokens import MOST_CHARACTERS, Tokens
from interlock.hub.auth.principals import Principal
from interlock.wire.errors import Fault


class Issuers:
    """The tokens of all issuers, as credentials."""

    def __init__(self, tokens: Sequence[Tokens], resource: Resource) -> None:
        self._tokens = {each.issuer: each for each in tokens}
        self._resource = resource

    def principal(self, text: str, path: str) -> Principal:
        """Whom a token stands for at an address. Raises AUTH_REQUIRED and its like, or `Unsettled`."""
        return self._of(text, path).principal(text, path)

    def get(self, hash_: str) -> Key | None:
        """A token that was found good, as a key."""
        return next((key for each in self._tokens.values() if (key := each.get(hash_)) is not None), None)

    def challenge(self, path: str) -> str:
        """What a caller without a credential is told besides."""
        return self._resource.challenge(path)

    def expired(self, path: str) -> Fault:
        """A token whose time is over."""
        return self._resource.refusal("AUTH_EXPIRED", "the token has expired", path)

    def short_of_scope(self, principal: Principal, exposed: str, server: str) -> Fault | None:
        """What a caller is told whose token's scopes do not cover a target; None where no scope would."""
        tokens = self._whose(principal)
        return None if tokens is None else tokens.short_of_scope(exposed, server)

    def short_of_right(self, principal: Principal, right: str) -> Fault | None:
        """The same for what is no target but a right, like that to read as an administrator."""
        tokens = self._whose(principal)
        return None if tokens is None else tokens.short_of_right(right)

    def _whose(self, principal: Principal) -> Tokens | None:
        return next((each for each in self._tokens.values() if each.get(principal.key) is not None), None)

    def _of(self, text: str, path: str) -> Tokens:
        """Who has to judge a token. Whatever it says is not believed before that."""
        if len(self._tokens) == 1:
            return next(iter(self._tokens.values()))
        try:
            part = text[:MOST_CHARACTERS].split(".")[1]
            said = msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), type=_Named)
            return self._tokens[said.iss]
        except (IndexError, KeyError, ValueError, binascii.Error, msgspec.DecodeError, RecursionError):
            message = "this credential is neither a key nor a token of an issuer that counts here"
            raise self._resource.refusal("AUTH_REQUIRED", message, path) from None


class _Named(msgspec.Struct):
    iss: str
