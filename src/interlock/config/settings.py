"""The settings of `interlock.toml`. The defaults suit a laptop: loopback, guard mode.

Each field is a setting of the same name, except those in `derived`, which loading fills in.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from interlock.judge.arguments import ArgumentKind, ValidatorName
from interlock.judge.code.rules import Level as CodeLevel

from .live_settings import Hook, Live, ServerLive
from .model_settings import Host, Model
from .problems import Problem
from .rates import Rate as Rate

Mode = Literal["observe", "guard", "locked"]
Share = Literal["auto", "principal", "session"]
Start = Literal["eager", "on-demand"]
Era = Literal["auto", "modern", "legacy"]
RestartPolicy = Literal["never", "on_failure", "always"]
RequestPolicy = Literal["allow", "ask", "deny"]
RequestName = Literal["sampling", "elicitation", "roots"]
MaskPattern = Literal["email", "card"]
ScanResults = Literal["off", "flag", "escape", "mask"]
Level = Literal["L0", "L1", "L2", "L3"]

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Milliseconds = Annotated[int, Meta(ge=1, le=3_600_000)]
Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Tokens = Annotated[int, Meta(ge=600)]
"""The tools for finding tools need almost this many tokens."""

DefaultPolicy = Literal["opt-in", "opt-out"]
PermissionPolicy = Literal["interactive", "auto_approve", "deny_all", "config_only"]
TrustLevel = Literal["trusted", "standard", "sandboxed"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]
"""Only signatures with a public key, so that verifying a token does not need a secret that can create one."""

DEFAULT_LISTEN = "127.0.0.1:7420"


class Timeouts(msgspec.Struct, frozen=True):
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
    """A list waits this long for servers that have just begun to start; then it shows their last approved tools."""
    idle_s: Seconds = 300
    """How long an on-demand server or a private session may be unused before it is closed."""
    health_s: Seconds = 30
    """How often the hub asks each connected server for its health."""


class ServerTimeouts(msgspec.Struct, frozen=True):
    """How long the hub waits for one server. Unset: as in `[hub.timeouts]`."""

    tool_s: Seconds | None = None
    """One call, from dispatch; progress extends it."""
    validation_s: Seconds | None = None
    """All checks of one call together."""
    discovery_s: Seconds | None = None
    """Listing it again."""
    lock_s: Seconds | None = None
    """Waiting for a lock inside the hub."""


class ToolTimeouts(msgspec.Struct, frozen=True):
    """How long the hub waits for one tool."""

    tool_s: Seconds | None = None
    validation_s: Seconds | None = None
    lock_s: Seconds | None = None


class Permissions(msgspec.Struct, frozen=True):
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


class Limits(msgspec.Struct, frozen=True):
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
    """Open downstream sessions of one principal. Beyond that the longest idle one of them ends."""
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


class Approvals(msgspec.Struct, frozen=True):
    """`[hub.approvals]`: approval requests to a person."""

    hold_s: Annotated[float, Meta(ge=0, le=3600)] = 45
    """How long a call waits for the answer before the agent is asked to call again later. A call whose client does not
    follow its progress waits 4 s at most: many clients give up after 5 s without saying so."""
    valid_s: Annotated[float, Meta(gt=0, le=30 * 86_400)] = 86_400
    """How long an approval request can be answered, and how long an answer is valid."""
    desktop: bool = False
    """Whether approval requests show as desktop notifications (needs `notify-send` or `osascript`)."""


class Webhook(msgspec.Struct, frozen=True):
    """`[hub.webhook]`: approval requests are also sent to a URL, signed."""

    url: str | None = None
    """The URL; unset: none. Redirects are not followed."""
    secret_env: str = "INTERLOCK_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
    """The environment variable of the hub that contains the signing secret, 16 characters or more."""


class Embeddings(msgspec.Struct, frozen=True):
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


class Issuer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    profile: str | None = None
    """The only profile these callers can use, unless `[agents]` names another for one of them."""


class OAuth(Issuer, frozen=True, forbid_unknown_fields=True):
    """`[hub.oauth]`: callers may use access tokens of an authorization server instead of keys. Further authorization
    servers have their own tables."""

    resource: str | None = None
    """The address that clients use for this hub (`https://hub.example.com`). Unset: the address in `listen`."""
    issuers: dict[str, Issuer] = {}
    """Further authorization servers, by name."""

    @property
    def every(self) -> tuple[Issuer, ...]:
        """Every authorization server whose tokens are accepted."""
        return ((self,) if self.issuer is not None else ()) + tuple(self.issuers.values())


class Tracing(msgspec.Struct, frozen=True):
    """`[hub.tracing]`: OpenTelemetry spans of calls, sent to your collector. Read at start."""

    endpoint: str | None = None
    """The collector's OTLP/HTTP address (`http://127.0.0.1:4318`); unset: no tracing."""
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """The share of traces to record that start in the hub. A trace that started elsewhere keeps its own decision."""
    service: str = "interlock"
    """The service name in the traces."""


class Retention(msgspec.Struct, frozen=True):
    """`[hub.retention]`: how much of the audit log is kept; unset: all. Each deletion is recorded before it happens."""

    days: Annotated[float, Meta(gt=0, le=36_500)] | None = None
    """Entries older than this are deleted."""
    megabytes: Count | None = None
    """The oldest entries are deleted when the audit log is larger than this."""


class Registration(msgspec.Struct, frozen=True):
    """`[hub.registration]`: servers that agents register while the hub runs (`mgp/discovery/register`)."""

    packages: tuple[str, ...] = ()
    """Packages that an agent may register as an `npx` or `uvx` command, as the command names them
    (`mcp-server-time==1.0`). A person approves each one. Other commands need a source that the hub can judge."""


class HubLogin(msgspec.Struct, frozen=True):
    """`[hub.login]`: how people log in to servers through the hub."""

    redirect_url: str | None = None
    """The address that browsers are sent back to, `https://hub.example.com/oauth/callback`. Unset: the hub's own."""
    metadata_url: str | None = None
    """The https address of the hub's client ID metadata document, if you publish one."""


class Hub(msgspec.Struct, frozen=True):
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
    """When an audit log entry is committed: with others, usually within 0.1 s and at most after 1 s (`batched`), or
    before its call is sent (`strict`)."""
    metrics: Literal["admin_read", "open", "off"] = "admin_read"
    """Who may read `/metrics`: callers with the permission `admin_read`, everyone (`open`), or nobody (`off`)."""
    node: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")] | None = None
    """The name of this hub's chain in the audit log. Unset: the name used so far; at first `hub`, or a unique name if
    several hubs share a store."""
    access: DefaultPolicy = "opt-out"
    """What agents may call without a grant: `opt-out` everything, `opt-in` nothing. A server can override it."""
    store: str | None = None
    """The database: a path, or a `postgresql:` URL that several hubs can share. Unset: `hub.db` in the hub's home. It
    may have variables and secrets, such as `${file:/run/secrets/postgres}`."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may call, besides the hub's own."""
    allowed_hosts: tuple[str, ...] = ()
    """Accepted `Host` headers, besides the address in `listen`."""
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    approvals: Approvals = Approvals()
    webhook: Webhook = Webhook()
    embeddings: Embeddings = Embeddings()
    oauth: OAuth = OAuth()
    login: HubLogin = HubLogin()
    tracing: Tracing = Tracing()
    retention: Retention = Retention()
    registration: Registration = Registration()
    rate: Rate = Rate()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of `listen`, which loading has checked."""
        return split_listen(self.listen)

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.address[0])

    @property
    def admits_anonymous(self) -> bool:
        """Only loopback ever admits callers without a credential. By default, it does not if the configuration suggests
        that others are served, perhaps behind a proxy: by a token issuer, or by another host name."""
        if self.anonymous is None:
            return self.on_loopback and not self.oauth.every and all(map(names_this_machine, self.allowed_hosts))
        return self.anonymous and self.on_loopback


class Restart(msgspec.Struct, frozen=True):
    """When a server that exited is started again (MGP, Restart Policies)."""

    policy: RestartPolicy = "on_failure"
    """`never`, `on_failure` or `always`."""
    max_restarts: Annotated[int, Meta(ge=0, le=1000)] = 5
    """How often a connected server may exit within `window_s`. After that it stays down until the next call to it."""
    window_s: Seconds = 300
    """The time in which exits are counted."""
    backoff_base_ms: Milliseconds = 1000
    """The first pause. Each further pause is twice as long."""
    backoff_max_ms: Milliseconds = 30_000
    """The longest pause. For a server that cannot be reached or started: twice that, at most a minute."""


class Scopes(msgspec.Struct, frozen=True):
    """`[servers.ID.scopes.FEATURE]`: what the tools of a scoped feature set may act on, as patterns over scope labels
    (`/project/**`, `#dev-*`). What neither list names is put to a person. See [Live](live.md#scopes)."""

    whitelist: tuple[str, ...] = ()
    """Allowed without asking."""
    blacklist: tuple[str, ...] = ()
    """Never allowed; overrides `whitelist`."""
    label: str | None = None
    """How a label follows from a tool's arguments (`"{path}"`); unset: as the server declares."""


class Tools(msgspec.Struct, frozen=True):
    """Which tools of a server are offered, and under which name and description. Patterns match the server's own tool
    names."""

    allow: tuple[str, ...] = ()
    """Offer only these tools. Empty: all."""
    deny: tuple[str, ...] = ()
    """Never offer these tools; overrides `allow`."""
    rename: dict[str, str] = {}
    """New names, by the server's own tool name."""
    describe: dict[str, str] = {}
    """New descriptions, by the server's own tool name."""
    trust: tuple[str, ...] = ()
    """Quarantined tools, prompts and resources to offer anyway, as `name@fingerprint` with at least 16 characters of
    the fingerprint. Only exactly that definition is trusted. `interlock status` prints the line to write."""
    rate: dict[str, Rate] = {}
    """How often all callers together may call a tool, by its own name: `{ per_minute = 30, per_hour = 500 }`."""
    feature_sets: dict[str, str] = {}
    """The feature set that a tool belongs to, by the server's own tool name, if the server does not declare it."""
    timeouts: dict[str, ToolTimeouts] = {}
    """`tool_s`, `validation_s` and `lock_s` by tool name or pattern. If several patterns match, the last one that has
    the setting counts."""


class Requests(msgspec.Struct, frozen=True):
    """Requests that a server sends to the client of a call: may it, must a person confirm each, and how often. The rate
    holds for all callers together."""

    sampling: RequestPolicy = "allow"
    """Use of the client's model (`sampling/createMessage`): `allow`, `ask` or `deny`."""
    elicitation: RequestPolicy = "allow"
    """Questions to the person at the client (`elicitation/create`): `allow`, `ask` or `deny`."""
    roots: RequestPolicy = "allow"
    """The client's folders (`roots/list`): `allow`, `ask` or `deny`."""
    rate: dict[RequestName, Rate] = {}
    """How often, by `sampling`, `elicitation` or `roots`: `{ per_minute = 10 }`."""

    def rate_of(self, name: str) -> Rate | None:
        """The rate of the requests with this name."""
        return next((rate for known, rate in self.rate.items() if known == name), None)

    def policy_of(self, name: str) -> RequestPolicy:
        """What happens to requests with this name."""
        match name:
            case "sampling":
                return self.sampling
            case "elicitation":
                return self.elicitation
            case "roots":
                return self.roots
        return "deny"


class Validation(msgspec.Struct, frozen=True):
    """How the arguments of a tool are checked before a call is sent. TOOL is the server's own tool name or a pattern
    (`"run_*"`, `"**"`). If several match, all their validators are used; of other settings, the last match that has
    the setting counts."""

    use: tuple[ValidatorName | Literal["none"], ...] = ()
    """Validators, besides those that the server declares: `sandbox`, `readonly`, `network_restricted`, `code_safety`,
    `paths`. `none` turns off the validators that the hub would infer."""
    arguments: dict[ArgumentKind, tuple[str, ...]] = {}
    """Which arguments contain a `command`, `url`, `host`, `path`, `code`, `sql`, or `text` with URLs, if their names do
    not show it (`arguments.command = ["steps.*.do"]`)."""
    ignore: tuple[str, ...] = ()
    """Rules not to apply, by the name that a refusal shows (`shell.pipe`)."""
    programs: tuple[str, ...] = ()
    """The only programs that a command may run (`sandbox`)."""
    blocked_programs: tuple[str, ...] = ()
    """Further programs that a command may not run (`sandbox`)."""
    windows_shells: bool = False
    """Whether PowerShell and cmd are allowed. The commands that they run are not checked (`sandbox`)."""
    readers: tuple[str, ...] = ()
    """Further programs that only read (`readonly`)."""
    dialect: str | None = None
    """The SQL dialect (`readonly`)."""
    hosts: tuple[str, ...] | None = None
    """The only hosts that are allowed (`example.com`, `*.example.com`) (`network_restricted`)."""
    local_names: tuple[str, ...] = ()
    """Local names that are allowed, if their addresses are (`network_restricted`)."""
    networks: tuple[str, ...] = ()
    """Private networks that are allowed (`10.1.0.0/16`); never a metadata service (`network_restricted`)."""
    ports: tuple[Annotated[int, Meta(ge=1, le=65_535)], ...] | None = None
    """The only ports that are allowed (`network_restricted`)."""
    level: CodeLevel | None = None
    """`standard`, `strict` or `readonly`; the stricter of this and the server's own level applies (`code_safety`)."""
    language: str | None = None
    """The language of the code, if the call does not name it (`code_safety`)."""
    max_code_bytes: Count | None = None
    """The largest piece of code (`code_safety`)."""
    allowed_imports: tuple[str, ...] = ()
    """Modules that may be imported although the level forbids them (`code_safety`)."""
    blocked_imports: tuple[str, ...] = ()
    """Further modules that may not be imported (`code_safety`)."""
    blocked_patterns: tuple[str, ...] = ()
    """Text that may not occur in code (`code_safety`)."""
    roots: tuple[str, ...] = ()
    """The folders that paths must be in, as absolute paths (`paths`)."""
    accepts: tuple[dict[str, object], ...] = ()
    """Arguments that must pass, for `interlock check --config`."""
    refuses: tuple[dict[str, object], ...] = ()
    """Arguments that must be refused, for `interlock check --config`."""


class Sandbox(msgspec.Struct, frozen=True):
    """`[servers.ID.sandbox]`: what a server with `isolation = "sandbox"` may use. A limit that this machine cannot
    enforce refuses the start."""

    backend: Literal["auto", "sandlock", "bubblewrap"] = "auto"
    """The program that contains it. `auto` takes the first that enforces every limit here."""
    read: tuple[str, ...] = ()
    """Folders and files that it may read, besides the system's programs and libraries."""
    write: tuple[str, ...] = ()
    """Folders that it may read and write, besides its private home. Folders whose files other programs execute are
    refused."""
    hosts: tuple[str, ...] = ()
    """The only hosts that it may connect to, as `host` (port 443) or `host:port`. Empty: no network."""
    memory_mb: Annotated[int, Meta(ge=16, le=1 << 20)] = 512
    """Memory of all its processes together."""
    cpus: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Processors that it may use."""
    processes: Annotated[int, Meta(ge=1, le=4096)] = 32
    """Processes at a time."""
    time_s: Annotated[float, Meta(gt=0, le=30 * 86_400)] = 86_400
    """How long one process of it may run. After that it is ended, and started again as `restart` says."""


class Mask(msgspec.Struct, frozen=True):
    """What `scan_results = "mask"` replaces, besides secrets of every known form. The audit log counts it by kind."""

    patterns: tuple[MaskPattern, ...] = ()
    """`email` for addresses, `card` for card numbers with a correct check digit."""
    own: dict[str, str] = {}
    """Further regular expressions (RE2), by the name that is shown in place of a match:
    `{ employee = "EMP-[0-9]{6}" }`."""
    arguments: bool = False
    """Whether the same is replaced in the arguments of calls before they leave for the server, whatever `scan_results`
    says."""


class ServerOAuth(msgspec.Struct, frozen=True):
    """`[servers.ID.oauth]`: how the hub logs in to a server at a URL that wants a token. Nothing is needed for most
    servers: the hub finds their authorization server and registers itself."""

    grant: Literal["authorization_code", "client_credentials", "jwt_bearer", "id_jag"] = "authorization_code"
    """`authorization_code`: a person logs in. The others need no person: `client_credentials` with the hub's own
    client, `jwt_bearer` with a JWT of the workload, `id_jag` with an ID token of the enterprise's identity provider."""
    client_id: str | None = None
    """A client that was registered before. Set `issuer` with it."""
    client_secret: str | None = None
    """Its secret."""
    private_key: str | None = None
    """Its private key in PEM, instead of a secret."""
    algorithm: Algorithm = "ES256"
    """The signature algorithm of that key."""
    metadata_url: str | None = None
    """The https address of a client ID metadata document. Unset: as in `[hub.login]`."""
    issuer: str | None = None
    """The only authorization server that the hub uses for the server."""
    scopes: tuple[str, ...] = ()
    """Scopes to ask for, besides those that the server asks for."""
    assertion: str | None = None
    """The JWT of the workload, or the ID token."""
    idp_token_endpoint: str | None = None
    """The token endpoint of the identity provider (`id_jag`)."""
    idp_client_id: str | None = None
    """The hub's client id at the identity provider (`id_jag`)."""

    @property
    def trusted(self) -> tuple[str, ...]:
        """Addresses that the operator wrote."""
        return tuple(url for url in (self.issuer, self.idp_token_endpoint) if url is not None)

    def __repr__(self) -> str:
        """Without secrets."""
        return f"ServerOAuth(grant={self.grant!r}, issuer={self.issuer!r})"


class Server(msgspec.Struct, frozen=True):
    """`[servers.ID]`: either a program to run (`command`) or an address to call (`url`)."""

    command: tuple[str, ...] = ()
    """Program and arguments; no shell is involved. In the file: a list, or a program's name with `args`."""
    env: dict[str, str] = {}
    """Environment variables for the program."""
    cwd: str | None = None
    """The working folder of the program."""
    inherit_env: tuple[str, ...] = ()
    """Environment variables of the hub that the program also receives. It receives no others."""
    url: str | None = None
    """The URL of a remote server."""
    headers: dict[str, str] = {}
    """HTTP headers for every request to the server."""
    ca_bundle: str | None = None
    """A file with the certificates to trust for the server at `url`, in place of the system's."""
    client_certificate: str | None = None
    """A file with the certificate by which the hub shows the server who it is, with its key or with `client_key`."""
    client_key: str | None = None
    """A file with the key of that certificate."""
    login: Literal["shared", "per-user", "off"] = "shared"
    """Who logs in if the server at `url` wants a token (`interlock login`): one login that all callers use, one of each
    principal (`per-user`, on a connection of its own), or nobody (`off`). A configured `Authorization` header turns it
    off."""
    oauth: ServerOAuth = ServerOAuth()
    share: Share = "auto"
    """Who shares one connection to the server: `auto` (see Protocols), one `principal`, or one `session`."""
    start: Start = "eager"
    """When the server is started: with the hub (`eager`) or with the first call (`on-demand`; the first time also at
    start, to list its tools)."""
    restart: Restart = Restart()
    timeout_s: Seconds | None = None
    """How long a call may take; progress extends it. Short for `timeouts.tool_s`."""
    timeouts: ServerTimeouts = ServerTimeouts()
    era: Era = "auto"
    """The kind of MCP that the server speaks, `modern` or `legacy`. `auto` finds out."""
    enabled: bool = True
    """Whether the server is used."""
    access: DefaultPolicy | None = None
    """What agents may call without a grant: `opt-out` everything, `opt-in` nothing. Unset: as in `[hub]`."""
    trust: TrustLevel = "standard"
    """How far the hub believes the server. A `trusted` server's statements about the risk of its tools count. A
    `sandboxed` server's statements can only raise the risk. A server can lower its own level, never raise it."""
    isolation: Literal["none", "sandbox"] = "none"
    """`sandbox` runs the program contained: without network, files and processes that `sandbox` does not allow."""
    sandbox: Sandbox = Sandbox()
    permissions: Permissions = Permissions()
    audit: Literal["auto", "all", "off"] = "auto"
    """Whether the server receives the audit log (`notifications/mgp.audit`): `all` sends every entry from then on;
    `auto` and `off` send nothing. With `auto`, the server's log says if the server asks for it."""
    requests: Requests = Requests()
    tools: Tools = Tools()
    scopes: dict[str, Scopes] = {}
    """What tools of scoped feature sets may act on; see below."""
    live: ServerLive = ServerLive()
    validators: dict[str, Validation] = {}
    """Checks of calls, by tool; see below."""
    max_result_tokens: Annotated[int, Meta(ge=100)] | None = None
    """The longest text of a result, in tokens (o200k). Of a longer text, the agent gets the beginning and a link to the
    rest. Tools are then listed without an `outputSchema`, because a shortened result may not match it. The same holds
    for masked results."""
    coerce: bool = False
    """Whether arguments that do not fit a tool's schema are converted where that is certain: `"5"` for an integer,
    `"true"` for a boolean, `5` for a string. The audit log records which ones; the server gets what they became."""
    scan_results: ScanResults = "off"
    """Whether results are searched for hidden text and instructions to the model: `flag` logs them, `escape` also makes
    hidden text visible, `mask` replaces secrets, and what `mask` names, in all that the server says about a call."""
    mask: Mask = Mask()
    source: str = ""
    """The file that defines the server."""
    problem: Problem | None = None
    """Why the server cannot be started, such as an unset variable."""

    derived: ClassVar[frozenset[str]] = frozenset({"source", "problem"})

    @property
    def whole_results(self) -> bool:
        """Whether results reach clients as the server gave them, so that they match its `outputSchema`."""
        return self.max_result_tokens is None and self.scan_results != "mask"

    @property
    def logs_in(self) -> bool:
        """Whether the hub gets a token for the server if it wants one."""
        given = any(name.lower() == "authorization" for name in self.headers)
        return self.url is not None and self.login != "off" and not given

    @property
    def transport(self) -> Literal["stdio", "http"]:
        return "http" if self.url is not None else "stdio"

    def __repr__(self) -> str:
        """Without arguments and the values of `env` and `headers`, which may be secrets."""
        where = self.url.split("?")[0] if self.url is not None else " ".join(self.command[:1])
        names = ", ".join([*self.env, *self.headers])
        return f"Server({where!r}, variables and headers: [{names}], source={self.source!r})"


class ContextBudget(msgspec.Struct, frozen=True):
    """`tool_context_budget` of a profile or an agent: the parts of `budget`, in tokens (MGP, Context Budget)."""

    max_tokens: Tokens | None = None
    """The total; the same as `budget`."""
    pinned_reserve: Tokens | None = None
    """For pinned tools and the tools for finding others, which take 569. With `max_tokens` alone: a quarter."""
    discovery_reserve: Count | None = None
    """Reserved for search results. With `max_tokens` alone: half of the rest."""
    cache_limit: Count | None = None
    """For tools that a session loaded. With `max_tokens` alone: half of the rest."""

    @property
    def parts(self) -> tuple[int, int, int] | None:
        """The three parts, if they are set."""
        if self.pinned_reserve is None or self.discovery_reserve is None or self.cache_limit is None:
            return None
        return self.pinned_reserve, self.discovery_reserve, self.cache_limit


class Profile(msgspec.Struct, frozen=True):
    """`[profiles.NAME]`: a subset of all tools. Patterns match exposed names (`github__*`)."""

    tools: tuple[str, ...] = ("**",)
    """The tools in the profile."""
    deny: tuple[str, ...] = ()
    """Tools not in the profile; overrides `tools`."""
    rename: dict[str, str] = {}
    """New names, by exposed name."""
    describe: dict[str, str] = {}
    """New descriptions, by exposed name."""
    budget: Tokens | None = None
    """Tokens that the tool list, the instructions and any one search result may take together; unset: the hub's."""
    tool_context_budget: ContextBudget = ContextBudget()
    level: Level | None = None
    """How much is listed: `L0` all tools, `L1` the tools for finding tools and the categories, `L2` the tools for
    finding tools, `L3` those and the pinned tools. Unset: `L0` within the budget, else `L3`."""
    pinned: tuple[str, ...] = ()
    """Exposed tool names (patterns) that are always listed."""


class Agent(msgspec.Struct, frozen=True):
    """`[agents.NAME]`: settings of one agent."""

    profile: str | None = None
    """The only profile the agent can use."""
    budget: Tokens | None = None
    """Tokens that the tool list, the instructions and any one search result may take together; unset: its profile's. It
    also limits a `level` of `L0`."""
    tool_context_budget: ContextBudget = ContextBudget()
    level: Level | None = None
    """How much is listed; unset: as in its profile."""
    pinned: tuple[str, ...] = ()
    """Exposed tool names (patterns) that are always listed, besides its profile's."""
    ask: tuple[str, ...] = ()
    """Exposed tool names (patterns) that a person must confirm."""
    request: tuple[str, ...] = ()
    """Exposed tool names (patterns) without access that the agent may request: `request_tools` names them to the agent
    and asks a person. No other tool without access is ever named to it."""
    attended_by: str | None = None
    """The person at this agent's client. Approval requests about its calls are shown there, too."""
    hold_s: Annotated[float, Meta(ge=0, le=3600)] | None = None
    """How long its calls wait for an approval, also without progress; unset: as in `[hub.approvals]`."""
    rate: Rate = Rate()


class Origin(msgspec.Struct, frozen=True):
    """The files that a configuration came from, to load it again."""

    path: str | None = None
    """The `interlock.toml` in use, if there is one."""
    explicit: bool = False
    """Whether the operator named that path (`--config`, `$INTERLOCK_CONFIG`)."""
    folder: str | None = None
    """The folder that was searched for project-local files."""
    files: tuple[str, ...] = ()
    """Every file that was read or looked for. The hub watches them for changes."""


class AuditLog(msgspec.Struct, frozen=True):
    """`[audit]`: what the audit log holds of a call."""

    arguments: Literal["redacted", "hash"] = "redacted"
    """`redacted`: the arguments of calls, without secrets and bounded. `hash`: only their SHA-256."""


class Topic(msgspec.Struct, frozen=True):
    """`[rooms.topics.NAME]`: a topic that agents and people share over `/ws?topic=NAME`."""

    visibility: Literal["public", "private", "restricted"] = "private"
    """Who may join: `private` only `members`, `restricted` every caller with a key or token, `public` everyone, also
    without one."""
    members: dict[str, str] = {}
    """The profile of each member, by the name of its key (`coder = "proposal-only"`)."""
    kinds: dict[Literal["agent", "person", "service", "admin"], str] = {}
    """The profile of callers that are no members, by the kind of their key."""
    profile: str = "proposal-only"
    """The profile of all others."""
    servers: tuple[str, ...] = ()
    """Tool servers that take part as `server:ID`. Everyone in the topic reads their results."""
    strict: bool = False
    """Whether the hub also reads payloads, and refuses envelopes whose kind does not match."""
    proposals: Literal["gateway", "agents"] = "gateway"
    """Who arbitrates proposals: the hub (`gateway`: the first fulfilment wins), or the `agents` themselves."""
    proposal_s: Seconds = 300
    """How long a proposal stays open. Applied when the topic is first used."""
    participants: Annotated[int, Meta(ge=1, le=10_000)] = 256
    """The most participants at a time."""
    announce_violations: bool = False
    """Whether all participants learn of an envelope that was refused for a missing capability."""
    history: Annotated[int, Meta(ge=0, le=1_000)] = 0
    """How many envelopes are kept, encrypted in the store, for participants that come back; 0 for none."""
    rate: Rate = Rate(per_minute=6_000)
    """Envelopes of one participant."""


class Rooms(msgspec.Struct, frozen=True):
    """`[rooms]`: topics that agents and people share."""

    profiles: dict[str, tuple[str, ...]] = {}
    """Your own capability profiles, besides `full-access`, `proposal-only`, `response-only`, `read-only` and
    `tool-only`."""
    topics: dict[str, Topic] = {}
    """The topics; see below."""


class Config(msgspec.Struct, frozen=True):
    """The whole configuration, checked, with variables filled in."""

    hub: Hub = Hub()
    audit: AuditLog = AuditLog()
    servers: dict[str, Server] = {}
    profiles: dict[str, Profile] = {}
    agents: dict[str, Agent] = {}
    rooms: Rooms = Rooms()
    live: Live = Live()
    hooks: dict[str, Hook] = {}
    models: dict[str, Model] = {}
    host: Host = Host()
    imports: tuple[str, ...] = msgspec.field(default=(), name="import")
    demo: bool = False
    """Nothing is configured, so `servers` contains only the built-in demonstration server."""
    origin: Origin = Origin()

    derived: ClassVar[frozenset[str]] = frozenset({"demo", "origin"})


def split_listen(listen: str) -> tuple[str, int]:
    """`127.0.0.1:7420` or `[::1]:7420` as host and port. Raises ValueError."""
    host, colon, port = listen.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 address needs brackets")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise ValueError("host and port are needed")
    if len(port) > 5 or int(port) > 65_535:
        raise ValueError("a port is at most 65535")
    return host, int(port)


def names_this_machine(allowed: str) -> bool:
    """Whether a `Host` header names the loopback address."""
    host = allowed.rpartition(":")[0] if allowed.rpartition(":")[2].isdigit() else allowed
    return is_loopback(host.strip("[]"))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
