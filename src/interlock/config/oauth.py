"""Checks `[hub.oauth]` at start and reports settings with which tokens could not be verified, or not safely."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

from interlock.protocols.registry.permissions import WRITTEN, why_bad_permission

from .listen import is_loopback
from .problems import Section
from .settings import HubSettings, IssuerSettings

MAX_SCOPES = 256
_URL_HINT = "write it as https://host/path; http:// is allowed only for this machine"
_ISSUER_HINT = 'add issuer = "https://…", exactly as in the `iss` of its tokens'


def check_oauth(hub: HubSettings, profiles: Collection[str], section: Section) -> None:
    oauth = hub.oauth
    if oauth.issuer is None and (oauth.jwks_url or oauth.jwks_file or oauth.audience or oauth.scopes):
        section.add((), "[hub.oauth] names no issuer", _ISSUER_HINT)
    if oauth.resource is not None and (why := _why_bad(oauth.resource, query=False)):
        section.add("resource", f"`resource` {why}", _URL_HINT)
    if not oauth.every:
        if oauth.resource is not None and oauth.issuer is None:
            section.add((), "[hub.oauth] names no issuer", _ISSUER_HINT)
        return
    if oauth.resource is None and not hub.on_loopback:
        hint = 'add resource = "https://…", the address that clients use'
        section.add((), "tokens are issued for an address, and this hub's own address is not set", hint)
    if oauth.issuer is not None:
        _check(oauth, profiles, section)
    seen = {oauth.issuer}
    for name, issuer in oauth.issuers.items():
        inner = section.inside("issuers", name)
        if issuer.issuer is None:
            inner.add((), f"[{inner.dotted}] names no issuer", _ISSUER_HINT)
            continue
        if issuer.issuer in seen:
            inner.add((), f"{issuer.issuer} is configured twice", "remove one of them")
        seen.add(issuer.issuer)
        _check(issuer, profiles, inner)


def _check(oauth: IssuerSettings, profiles: Collection[str], section: Section) -> None:
    for key, url in (("issuer", oauth.issuer), ("jwks_url", oauth.jwks_url)):
        if url is not None and (why := _why_bad(url, query=key == "jwks_url")):
            section.add(key, f"`{key}` {why}", _URL_HINT)
    if oauth.jwks_url is not None and oauth.jwks_file is not None:
        section.add((), f"[{section.dotted}] has both `jwks_url` and `jwks_file`", "remove one of them")
    if oauth.jwks_file is not None and not Path(oauth.jwks_file).expanduser().is_file():
        section.add("jwks_file", f"there is no file {oauth.jwks_file}", "write the absolute path of the file")
    if oauth.console_client_id is None and oauth.console_secret_env is not None:
        section.add("console_secret_env", "`console_secret_env` belongs to a client", "add `console_client_id`")
    if oauth.console_client_id is not None and not oauth.people:
        hint = "add the subjects of people to `people`"
        section.add("console_client_id", "no person may log in to the console", hint)
    if not oauth.algorithms:
        hint = "remove it, or name an algorithm"
        section.add("algorithms", "`algorithms` is empty, so no token would be accepted", hint)
    if oauth.profile is not None and oauth.profile not in profiles:
        section.add("profile", f"there is no profile `{oauth.profile}`", f"add [profiles.{oauth.profile}]")
    if len(oauth.scopes) > MAX_SCOPES:
        section.add("scopes", f"there are more than {MAX_SCOPES} scopes", "use patterns")
    for scope, permissions in oauth.scopes.items():
        if not is_scope(scope):
            section.add(
                "scopes", f"{scope[:100]!r} is not a scope", "write it without spaces, quotation marks and `\\`"
            )
        for permission in permissions:
            if why := why_bad_permission(permission):
                section.add("scopes", f"the scope `{scope}`: {why}", WRITTEN)


def is_scope(text: str) -> bool:
    """Whether a text may be a scope (RFC 6749, Access Token Scope)."""
    return 0 < len(text) <= 256 and all("!" <= char <= "~" and char not in '"\\' for char in text)


def _why_bad(url: str, *, query: bool) -> str | None:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises ValueError for a port that is not a number
    except ValueError:
        return "is not a valid URL"
    if not url.isascii() or any(char <= " " or char in '"\\\x7f' for char in url):
        return "contains characters that are not allowed in a URL"
    if parts.fragment or "#" in url or (parts.query and not query):
        return "must be a URL without a query or fragment"
    if "@" in parts.netloc:
        return "contains credentials"
    if (parts.scheme == "https" and parts.hostname) or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return None
    return "must begin with https://"
