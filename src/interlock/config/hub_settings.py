"""The settings below `[hub]` and `[audit]`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from .listen import DEFAULT_LISTEN, is_loopback, names_this_machine, split_listen
from .rates import Rate
from .value_types import Algorithm, Count, DefaultPolicy, Mode, PassphraseUse, PermissionPolicy, Seconds, Tokens


class TimeoutSettings(msgspec.Struct, frozen=True):
    """How long the hub waits. A server's timeouts override these, and a tool's override its server's."""

    tool_s: Seconds = 30
    """One tool call, from dispatch; progress extends it."""
    validation_s: Seconds = 5
    """All checks of one call together, if one of them has to wait."""
    discovery_s: Seconds = 2
    """Listing one server again; after that the last known list is used. The first listing may take `start_s`."""
    lock_s: Seconds = 0.5
    """Waiting for a lock inside the hub; after that the call is refused as overloaded."""
    start_s: Seconds = 120
    """Starting one server. The first `npx` downloads its package."""
    first_list_s: Seconds = 5
    """A list waits this long for new servers that begin to start, and for the first answer of a server to clients that
    declare other capabilities. Of others it shows the last approved tools."""
    idle_s: Seconds = 300
    """How long an on-demand server or a private session may be unused before it is closed."""
    health_s: Seconds = 30
    """How often the hub asks each connected server for its health."""


class PermissionSettings(msgspec.Struct, frozen=True):
    """Which of the permissions that a server declares it gets (MGP, Permission Declarations). A family name stands
    for all its members."""

    policy: PermissionPolicy = "interactive"
    """How permissions not named below are decided. `interactive`: a person is asked. `auto_approve`: all are approved.
    `deny_all`: all are denied until a person runs `interlock permissions approve`. `config_only`: all are denied."""
    approve: tuple[str, ...] = ()
    """Approved without asking."""
    deny: tuple[str, ...] = ()
    """Always denied."""
    require: tuple[str, ...] = ()
    """Permissions that the server needs besides those it declares."""
    on_denied: Literal["degrade", "refuse"] = "degrade"
    """When a permission is denied: `degrade` offers only the tools that do not need it, `refuse` offers none."""


class LimitSettings(msgspec.Struct, frozen=True):
    """Upper bounds. At a bound the hub refuses new work."""

    message_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 10 * 1024 * 1024
    """Largest message, in either direction."""
    depth: Annotated[int, Meta(ge=8, le=1000)] = 64
    """Deepest nesting of a request."""
    pending: Count = 16_384
    """Calls in progress, in total."""
    pending_per_server: Count = 1024
    """Calls in progress to one server."""
    pending_per_agent: Count = 1024
    """Calls in progress of one principal."""
    sessions: Count = 10_000
    """Open downstream sessions. Beyond that the longest idle session without open calls ends."""
    sessions_per_agent: Count = 256
    """Open downstream sessions of one principal. Beyond that the longest idle one of them ends. Of clients without
    sessions: open `subscriptions/listen` streams of one principal. Beyond that a further one is refused."""
    private_sessions_per_server: Count = 32
    """Upstream sessions (on stdio: processes) that one principal has for itself."""
    requests_per_server: Count = 256
    """Requests of one server to the client of one principal that wait for an answer. They take no place from calls."""
    parked: Count = 4096
    """Calls of all principals that wait for a client's answers."""
    parked_per_agent: Count = 256
    """Calls of one principal that wait for its answers."""
    parked_s: Annotated[float, Meta(gt=0, le=86_400)] = 600
    """How long a client has to answer before its call is cancelled at the server."""
    parked_bytes: Annotated[int, Meta(ge=1024, le=1 << 34)] = 64 * 1024 * 1024
    """Size of all open questions and stored results of such calls."""
    tasks: Count = 4096
    """Stored tasks of all principals."""
    tasks_per_agent: Count = 256
    """Stored tasks of one principal."""
    task_s: Annotated[float, Meta(gt=0, le=30 * 86_400)] = 86_400
    """How long a task is stored at most, even if its server asks for longer."""
    store_behind_s: Annotated[float, Meta(ge=2, le=3600)] = 5
    """How long the database may not answer before the hub refuses all requests. A key that another hub revoked is
    refused after this time at the latest."""


class ApprovalSettings(msgspec.Struct, frozen=True):
    """`[hub.approvals]`: approval requests to a person."""

    hold_s: Annotated[float, Meta(ge=0, le=3600)] = 45
    """How long a call waits for the answer before the agent is asked to call again later. A call whose client does not
    follow its progress waits 4 s at most: many clients give up after 5 s without saying so."""
    valid_s: Annotated[float, Meta(gt=0, le=30 * 86_400)] = 86_400
    """How long an approval request can be answered, and how long an answer is valid."""
    taint_s: Annotated[float, Meta(gt=0, le=30 * 86_400)] = 86_400
    """How long a result of an untrusted server counts for `taint = "ask"` of a profile."""
    desktop: bool = False
    """Whether approval requests show as desktop notifications (needs `notify-send` or `osascript`)."""
    passphrase: PassphraseUse = "if-set"  # noqa: S105 - not one
    """Whether an approval needs the passphrase of `interlock approvals passphrase`: `if-set`; `required`: nothing is
    approved before one is set; `never`: for one that was forgotten."""


class WebhookSettings(msgspec.Struct, frozen=True):
    """`[hub.webhook]`: approval requests are also sent to a URL, signed."""

    url: str | None = None
    """The URL; unset: none. Redirects are not followed."""
    secret_env: str = "INTERLOCK_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
    """The environment variable of the hub that contains the signing secret, 16 characters or more."""


class EmbeddingSettings(msgspec.Struct, frozen=True):
    """`[hub.embeddings]`: how tools are found by meaning, besides by words. Without `url` and `path`, the hub uses the
    model of `interlock search-model install` if it is installed, otherwise only words."""

    url: str | None = None
    """An endpoint with OpenAI's API (`https://api.openai.com/v1`). It receives the texts of tools and queries."""
    model: str = "text-embedding-3-small"
    """The model's name at the endpoint."""
    key_env: str = "OPENAI_API_KEY"
    """The environment variable of the hub that contains the endpoint's key, if it needs one."""
    path: str | None = None
    """A folder with the model all-MiniLM-L6-v2, or a file of word vectors (GloVe, fastText) on this machine."""


class IssuerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[hub.oauth.issuers.NAME]`: a further authorization server with its own settings. You choose the name."""

    issuer: str | None = None
    """The authorization server, exactly as in the `iss` of its tokens; unset: no token is accepted."""
    audience: tuple[str, ...] = ()
    """Accepted values of a token's `aud`, if the issuer does not put the resource's address there."""
    jwks_url: str | None = None
    """The URL of the issuer's public keys. Without it and `jwks_file`, the issuer's metadata names the URL."""
    jwks_file: str | None = None
    """The absolute path of a file with the issuer's public keys."""
    algorithms: tuple[Algorithm, ...] = ("RS256", "PS256", "ES256", "Ed25519")
    """Accepted signature algorithms."""
    scope_claim: str = "scope"
    """The claim with the scopes: a text with spaces between them, or a list."""
    scopes: dict[str, tuple[str, ...]] = {}
    """The permissions of each scope, named like those of a key. A token gets the permissions of its scopes, and none if
    none of its scopes is listed. If this table is empty, it gets the permissions of its `kind`."""
    kind: Literal["agent", "service"] = "agent"
    """The kind of principal that the subjects of tokens are."""
    people: tuple[str, ...] = ()
    """The subjects (`sub`) that are people. They may answer approval requests."""
    console_client_id: str | None = None
    """The client ID of the hub at this issuer, with which `people` log in to the console; unset: they use a key. Its
    redirect URI is `/console/login/callback` at the console's address, at a further issuer
    `/console/login/callback/NAME`."""
    console_secret_env: str | None = None
    """The environment variable of the hub that contains that client's secret; unset: a public client, without one."""
    profile: str | None = None
    """The only profile these callers can use, unless `[agents]` names another for one of them."""


class OAuthSettings(IssuerSettings, frozen=True, forbid_unknown_fields=True):
    """`[hub.oauth]`: callers may use access tokens of an authorization server instead of keys. Further authorization
    servers have their own tables."""

    resource: str | None = None
    """The address that clients use for this hub (`https://hub.example.com`). Unset: the address in `listen`."""
    issuers: dict[str, IssuerSettings] = {}
    """Further authorization servers, by name."""

    @property
    def every(self) -> tuple[IssuerSettings, ...]:
        """Every authorization server whose tokens are accepted."""
        return tuple(self.by_name.values())

    @property
    def by_name(self) -> dict[str, IssuerSettings]:
        """The same by their names. The first one has none."""
        return {**({"": self} if self.issuer is not None else {}), **self.issuers}


class TracingSettings(msgspec.Struct, frozen=True):
    """`[hub.tracing]`: OpenTelemetry spans of calls, sent to your collector. Read at start."""

    endpoint: str | None = None
    """The collector's OTLP/HTTP address (`http://127.0.0.1:4318`); unset: no tracing."""
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """The share of traces to record that start in the hub. A trace that started elsewhere keeps its own decision."""
    service: str = "interlock"
    """The service name in the traces."""


class RetentionSettings(msgspec.Struct, frozen=True):
    """`[hub.retention]`: how much of the audit log is kept; unset: all. Each deletion is recorded before it happens."""

    days: Annotated[float, Meta(gt=0, le=36_500)] | None = None
    """Entries older than this are deleted."""
    megabytes: Count | None = None
    """The oldest entries are deleted when the audit log is larger than this."""


class RegistrationSettings(msgspec.Struct, frozen=True):
    """`[hub.registration]`: servers that agents register while the hub runs (`mgp/discovery/register`)."""

    packages: tuple[str, ...] = ()
    """Packages that an agent may register as an `npx` or `uvx` command, as the command names them
    (`mcp-server-time==1.0`). A person approves each one. Other commands need a source that the hub can judge."""
    created_tools_h: Annotated[float, Meta(gt=0, le=8760)] = 24.0
    """How many hours a tool exists that an agent wrote (`[agents.NAME] create_tools`)."""


class HubLoginSettings(msgspec.Struct, frozen=True):
    """`[hub.login]`: how people log in to servers through the hub."""

    redirect_url: str | None = None
    """The address that browsers are sent back to, `https://hub.example.com/oauth/callback`. Unset: the hub's own."""
    metadata_url: str | None = None
    """The https address of the hub's client ID metadata document, if you publish one."""


class AuditSettings(msgspec.Struct, frozen=True):
    """`[audit]`: how much of a call the audit log keeps."""

    arguments: Literal["redacted", "hash"] = "redacted"
    """`redacted`: the arguments of calls, without secrets and bounded. `hash`: only their SHA-256."""


class HubSettings(msgspec.Struct, frozen=True):
    """`[hub]`."""

    listen: str = DEFAULT_LISTEN
    """The address of the HTTP server. Port 0 picks a free port."""
    mode: Mode = "guard"
    """How strictly the hub decides by itself: `observe`, `guard` or `locked`."""
    anonymous: bool | None = None
    """Whether callers without a key are accepted as the agent `local`. Unset: only on loopback, without `[hub.oauth]`,
    and if `allowed_hosts` names no other machine."""
    budget: Tokens | None = 20_000
    """Tokens that the tool list may take in a context. If the list is longer, only pinned tools and the tools for
    finding others are listed."""
    audit: Literal["batched", "strict"] = "batched"
    """When an audit log entry is committed: with others, usually within 0.1 s (`batched`; while the database is behind
    by 1 s, before its call is sent), or always before its call is sent (`strict`)."""
    metrics: Literal["admin_read", "open", "off"] = "admin_read"
    """Readers of `/metrics`: callers with the permission `admin_read`, everyone (`open`), or nobody (`off`)."""
    node: (
        Annotated[
            str,
            Meta(
                min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$", description="letters, digits, dots, _ and -"
            ),
        ]
        | None
    ) = None
    """The name of this hub's chain in the audit log. Unset: the name used so far; at first `hub`, or a unique name if
    several hubs share a store. No second hub with the same name starts on a `store` that is set."""
    access: DefaultPolicy = "opt-out"
    """Tools that agents may call without a grant: `opt-out` everything, `opt-in` nothing. A server can override it."""
    store: str | None = None
    """The database: a path, or a `postgresql:` URL that several hubs can share. Unset: `hub.db` in the hub's home. It
    may have variables and secrets, such as `${file:/run/secrets/postgres}`."""
    sealing_key: str | None = None
    """The key that seals logins and hashes keys, for hubs that share a store: base64 of 32 random bytes or more, from a
    variable or a secret, such as `${file:/run/secrets/interlock-key}`. Only in your own configuration. Read at start.
    Unset: a key of the hub's home."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may call, besides the hub's own."""
    allowed_hosts: tuple[str, ...] = ()
    """Accepted `Host` headers, besides the address in `listen`."""
    timeouts: TimeoutSettings = TimeoutSettings()
    limits: LimitSettings = LimitSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    webhook: WebhookSettings = WebhookSettings()
    embeddings: EmbeddingSettings = EmbeddingSettings()
    oauth: OAuthSettings = OAuthSettings()
    login: HubLoginSettings = HubLoginSettings()
    tracing: TracingSettings = TracingSettings()
    retention: RetentionSettings = RetentionSettings()
    registration: RegistrationSettings = RegistrationSettings()
    rate: Rate = Rate()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of `listen`, which loading has checked."""
        return split_listen(self.listen)

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.address[0])

    @property
    def only_this_machine(self) -> bool:
        """Whether every caller is on this machine. A token issuer or another host name suggests that others are served,
        perhaps behind a proxy, whose requests come from this machine."""
        return self.on_loopback and not self.oauth.every and all(map(names_this_machine, self.allowed_hosts))

    @property
    def admits_anonymous(self) -> bool:
        """Only loopback ever admits callers without a credential; by default, only if nobody else is served."""
        return self.only_this_machine if self.anonymous is None else self.anonymous and self.on_loopback
