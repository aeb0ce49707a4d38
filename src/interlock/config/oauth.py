"""Checks `[hub.oauth]` at start: whatever would make a token impossible to check, or too easy, is said."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

from interlock.protocols.registry.permissions import WRITTEN, why_bad_permission

from .problems import KeyPath, Report
from .settings import Hub, Issuer, is_loopback

AT = ("hub", "oauth")
MOST_SCOPES = 256
_WRITTEN = "write it as https://host/path; http:// is for this machine alone"


def check_oauth(hub: Hub, profiles: Collection[str], report: Report) -> None:
    """What must hold before a token can be a credential."""
    oauth = hub.oauth
    if oauth.issuer is None and (oauth.jwks_url or oauth.jwks_file or oauth.audience or oauth.scopes):
        report.add(AT, "[hub.oauth] names no issuer", 'add issuer = "https://…", as its tokens say it')
    if oauth.resource is not None and (why := _why_bad(oauth.resource, query=False)):
        report.add((*AT, "resource"), f"`resource` {why}", _WRITTEN)
    if not oauth.every:
        if oauth.resource is not None and oauth.issuer is None:
            report.add(AT, "[hub.oauth] names no issuer", 'add issuer = "https://…", as its tokens say it')
        return
    if oauth.resource is None and not hub.on_loopback:
        hint = 'add resource = "https://…", the address that clients use'
        report.add(AT, "tokens are made for an address, and this hub does not say under which it is known", hint)
    if oauth.issuer is not None:
        _check(oauth, AT, profiles, report)
    seen = {oauth.issuer}
    for name, issuer in oauth.issuers.items():
        at = (*AT, "issuers", name)
        if issuer.issuer is None:
            report.add(at, f"[{'.'.join(at)}] names no issuer", 'add issuer = "https://…", as its tokens say it')
            continue
        if issuer.issuer in seen:
            report.add(at, f"{issuer.issuer} stands here twice", "leave one of them out")
        seen.add(issuer.issuer)
        _check(issuer, at, profiles, report)


def _check(oauth: Issuer, at: KeyPath, profiles: Collection[str], report: Report) -> None:
    """One authorization server."""

    def wrong(key: str, message: str, hint: str) -> None:
        report.add((*at, key) if key else at, message, hint)

    for key, url in (("issuer", oauth.issuer), ("jwks_url", oauth.jwks_url)):
        if url is not None and (why := _why_bad(url, query=key == "jwks_url")):
            wrong(key, f"`{key}` {why}", _WRITTEN)
    if oauth.jwks_url is not None and oauth.jwks_file is not None:
        table = ".".join(str(part) for part in at)
        wrong("", f"[{table}] names both `jwks_url` and `jwks_file`", "say once where the issuer's keys are")
    if oauth.jwks_file is not None and not Path(oauth.jwks_file).expanduser().is_file():
        wrong("jwks_file", f"there is no file {oauth.jwks_file}", "write its path in full")
    if not oauth.algorithms:
        wrong("algorithms", "no signature is accepted", "leave `algorithms` out, or name one")
    if oauth.profile is not None and oauth.profile not in profiles:
        wrong("profile", f"there is no profile `{oauth.profile}`", f"add [profiles.{oauth.profile}]")
    if len(oauth.scopes) > MOST_SCOPES:
        wrong("scopes", f"there are more than {MOST_SCOPES} scopes", "use patterns")
    for scope, permissions in oauth.scopes.items():
        if not is_scope(scope):
            wrong("scopes", f"{scope[:100]!r} is no scope", "a scope has no space, no quotation mark and no `\\`")
        for permission in permissions:
            if why := why_bad_permission(permission):
                wrong("scopes", f"the scope `{scope}`: {why}", WRITTEN)


def is_scope(text: str) -> bool:
    """Whether a text may be a scope (RFC 6749, Access Token Scope)."""
    return 0 < len(text) <= 256 and all("!" <= char <= "~" and char not in '"\\' for char in text)


def _why_bad(url: str, *, query: bool) -> str | None:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where the port is no number
    except ValueError:
        return "cannot be read"
    if not url.isascii() or any(char <= " " or char in '"\\\x7f' for char in url):
        return "holds characters that no address has"
    if parts.fragment or "#" in url or (parts.query and not query):
        return "must be an address without a query or fragment"
    if "@" in parts.netloc:
        return "holds credentials"
    if parts.scheme == "https" and parts.hostname:
        return None
    if parts.scheme == "http" and is_loopback(parts.hostname or ""):
        return None
    return "must begin with https://"
