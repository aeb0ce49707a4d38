"""What an operator may write in `interlock.toml`, as values. Defaults are those of a laptop: loopback, guard mode.

Rule: a field here is a setting there under the same name, except those in `derived`, which loading fills in.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from interlock.judge.arguments import ArgumentKind, ValidatorName
from interlock.judge.code.rules import Level as CodeLevel

from .problems import Problem

Mode = Literal["observe", "guard", "locked"]
Share = Literal["auto", "principal", "session"]
Start = Literal["eager", "on-demand"]
Era = Literal["auto", "modern", "legacy"]
RestartPolicy = Literal["never", "on_failure", "always"]
ScanResults = Literal["off", "flag", "escape"]
Level = Literal["L0", "L1", "L2", "L3"]

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Milliseconds = Annotated[int, Meta(ge=1, le=3_600_000)]
Count = Annotated[int, Meta(ge=1)]
Tokens = Annotated[int, Meta(ge=600)]
"""Less does not hold the way to find tools."""

DefaultPolicy = Literal["opt-in", "opt-out"]
PermissionPolicy = Literal["interactive", "auto_approve", "deny_all", "config_only"]
TrustLevel = Literal["trusted", "standard", "sandboxed"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]
"""Signatures with a public key alone: whoever can check a token must not be able to make one."""

DEFAULT_LISTEN = "127.0.0.1:7420"


class Timeouts(msgspec.Struct, frozen=True):
    """How long the hub waits. A server's own go before these, and a tool's before its server's."""

    tool_s: Seconds = 30
    """One tool call, from dispatch; progress extends it."""
    validation_s: Seconds = 5
    """All checks of one call together, where one has to wait for something."""
    discovery_s: Seconds = 2
    """Listing one server again; after that the last known list serves. The first listing may take `start_s`."""
    lock_s: Seconds = 0.5
    """Waiting for a lock of the hub's own; after that the call is refused as overloaded."""
    start_s: Seconds = 120
    """Starting one server: a first `npx` downloads its package."""
    idle_s: Seconds = 300
    """How long an on-demand server or a private session may be unused before it is closed."""


class ServerTimeouts(msgspec.Struct, frozen=True):
    """How long the hub waits for one server; what is unset is the hub's."""

    tool_s: Seconds | None = None
    """One call, from dispatch; progress extends it."""
    validation_s: Seconds | None = None
    """All checks of one call together."""
    discovery_s: Seconds | None = None
    """Listing it again."""
    lock_s: Seconds | None = None
    """Waiting for a lock of the hub's own."""


class ToolTimeouts(msgspec.Struct, frozen=True):
    """How long the hub waits for one tool."""

    tool_s: Seconds | None = None
    validation_s: Seconds | None = None
    lock_s: Seconds | None = None


class Permissions(msgspec.Struct, frozen=True):
    """What a server may do that it says it needs (MGP, Permission Declarations). A family stands for its members."""

    policy: PermissionPolicy = "interactive"
    """Who decides what is not named below: `interactive` a person, `auto_approve` nobody, all is approved, `deny_all`
    a person who thinks of it (`interlock permissions approve`), `config_only` nobody, all is denied."""
    approve: tuple[str, ...] = ()
    """Approved without asking."""
    deny: tuple[str, ...] = ()
    """Denied, whatever anyone else says."""
    require: tuple[str, ...] = ()
    """Needed by it beyond what it says itself."""
    on_denied: Literal["degrade", "refuse"] = "degrade"
    """Without a permission that it needs, it serves the tools that do without (`degrade`), or not at all (`refuse`)."""


class Limits(msgspec.Struct, frozen=True):
    """What is full refuses; nothing grows without end."""

    message_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 10 * 1024 * 1024
    """Largest message, either way."""
    depth: Annotated[int, Meta(ge=8, le=1000)] = 64
    """Deepest nesting of a request."""
    pending: Count = 16_384
    """Calls under way, all together."""
    pending_per_server: Count = 1024
    """Calls under way to one server."""
    pending_per_agent: Count = 1024
    """Calls under way of one principal."""
    sessions: Count = 10_000
    """Open downstream sessions."""
    private_sessions_per_server: Count = 32
    """Upstream sessions (processes, on stdio) opened for one principal alone."""
    parked: Count = 4096
    """Calls that wait for a client's answers, of all principals together."""
    parked_per_agent: Count = 256
    """Calls of one principal that wait for its answers."""
    parked_s: Annotated[float, Meta(gt=0, le=86_400)] = 600
    """How long a client has to answer before its call is cancelled at the server."""
    parked_bytes: Annotated[int, Meta(ge=1024, le=1 << 34)] = 64 * 1024 * 1024
    """Open questions and kept outcomes of such calls, all together."""
    tasks: Count = 4096
    """Tasks that are kept, of all principals together."""
    tasks_per_agent: Count = 256
    """Tasks of one principal."""
    task_s: Annotated[float, Meta(gt=0, le=30 * 86_400)] = 86_400
    """How long a task is kept at most, whatever its server says."""


class Approvals(msgspec.Struct, frozen=True):
    """`[hub.approvals]`: questions to a person."""

    hold_s: Annotated[float, Meta(ge=0, le=3600)] = 45
    """How long a call waits for the answer before it is told to come back."""
    valid_s: Annotated[float, Meta(gt=0, le=30 * 86_400)] = 86_400
    """How long a question can be answered, and an answer holds."""
    desktop: bool = False
    """Whether an open question shows on the desktop, where it has a program for that (`notify-send`, `osascript`)."""


class Webhook(msgspec.Struct, frozen=True):
    """`[hub.webhook]`: open questions are also sent to an address, signed."""

    url: str | None = None
    """Where to; unset: nowhere. Redirections are not followed."""
    secret_env: str = "INTERLOCK_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
    """The variable of the hub's environment that holds the secret they are signed with: 16 characters or more."""


class Embeddings(msgspec.Struct, frozen=True):
    """`[hub.embeddings]`: how tools are found by meaning, beside their words. With neither `url` nor `path`, by the
    model that `interlock search-model install` fetched, else by words alone."""

    url: str | None = None
    """An endpoint that speaks OpenAI's API (`https://api.openai.com/v1`); the texts of tools and queries go there."""
    model: str = "text-embedding-3-small"
    """What the endpoint calls its model."""
    key_env: str = "OPENAI_API_KEY"
    """The variable of the hub's environment that holds the endpoint's key, if it needs one."""
    path: str | None = None
    """A folder with the model all-MiniLM-L6-v2, or a file of word vectors (GloVe, fastText) on this machine."""


class Issuer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[hub.oauth.issuers.NAME]`: one more authorization server, with settings of its own. The name is yours alone."""

    issuer: str | None = None
    """The authorization server, exactly as its tokens say it in `iss`; unset: no token is accepted."""
    audience: tuple[str, ...] = ()
    """What a token's `aud` must name one of, where the issuer does not put the resource's address there."""
    jwks_url: str | None = None
    """Where the issuer publishes its public keys. Unset, and without a file: where the issuer's own metadata says."""
    jwks_file: str | None = None
    """Or a file that holds them, written in full."""
    algorithms: tuple[Algorithm, ...] = ("RS256", "PS256", "ES256", "Ed25519")
    """The signatures that are accepted."""
    scope_claim: str = "scope"
    """The claim that holds the scopes: a text with spaces between them, or a list."""
    scopes: dict[str, tuple[str, ...]] = {}
    """What each scope permits, as permissions of a key. A token permits what its scopes do, and nothing where none of
    them stands here. With no scope at all in this table, it permits what its kind does."""
    kind: Literal["agent", "service"] = "agent"
    """What the subjects of tokens are."""
    people: tuple[str, ...] = ()
    """The subjects (`sub`) who are people: they may answer questions."""
    profile: str | None = None
    """The only profile that they see the hub through, unless `[agents]` names another for one of them."""


class OAuth(Issuer, frozen=True, forbid_unknown_fields=True):
    """`[hub.oauth]`: access tokens of an authorization server are credentials here, besides keys. Of further ones, each
    in a table of its own."""

    resource: str | None = None
    """Under which address clients know this hub (`https://hub.example.com`). Unset: the address listened on."""
    issuers: dict[str, Issuer] = {}
    """Further authorization servers, by names of yours."""

    @property
    def every(self) -> tuple[Issuer, ...]:
        """Every authorization server whose tokens count."""
        return ((self,) if self.issuer is not None else ()) + tuple(self.issuers.values())


class Tracing(msgspec.Struct, frozen=True):
    """`[hub.tracing]`: OpenTelemetry spans of calls, sent to a collector of yours. Read at start."""

    endpoint: str | None = None
    """Where to, over OTLP/HTTP (`http://127.0.0.1:4318`); unset: nothing is traced."""
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """The share of the traces that begin here which is kept. Those that began elsewhere are kept as they were there."""
    service: str = "interlock"
    """What the hub is called in them."""


class Retention(msgspec.Struct, frozen=True):
    """`[hub.retention]`: how much of the record is kept; unset: all of it. What goes is recorded before it goes."""

    days: Annotated[float, Meta(gt=0, le=36_500)] | None = None
    """Records older than this go."""
    megabytes: Count | None = None
    """The oldest records go when all take more than this."""


class Rate(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many calls may be made; unset: as many as come."""

    per_minute: Count | None = None
    """Calls within any minute; so many may also come at once."""
    per_hour: Count | None = None
    """Calls within any hour."""

    @property
    def limits(self) -> bool:
        return self.per_minute is not None or self.per_hour is not None

    def __str__(self) -> str:
        parts = ((self.per_minute, "minute"), (self.per_hour, "hour"))
        return ", ".join(f"{count} per {unit}" for count, unit in parts if count is not None) or "none"


class Hub(msgspec.Struct, frozen=True):
    """`[hub]`."""

    listen: str = DEFAULT_LISTEN
    """Where HTTP is served. Port 0 takes a free one."""
    mode: Mode = "guard"
    """How much is left to the hub's own judgement: `observe`, `guard` or `locked`."""
    anonymous: bool | None = None
    """Whether callers without a key are the agent `local`. Unset: only on loopback, and not where `[hub.oauth]` is or
    `allowed_hosts` names another machine."""
    budget: Tokens | None = 20_000
    """Tokens that tools may take in a context. A longer list holds the pinned tools and the way to find others."""
    audit: Literal["batched", "strict"] = "batched"
    """When a record is committed: with others within 0.1 s (`batched`), or before its call is sent (`strict`)."""
    metrics: Literal["admin_read", "open", "off"] = "admin_read"
    """Who reads `/metrics`: whoever has the permission `admin_read`, anyone who reaches the hub (`open`), nobody."""
    node: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")] | None = None
    """What this hub's chain of records is called. Unset: as it was so far; at first `hub`, or a name of its own where
    several hubs share a store."""
    access: DefaultPolicy = "opt-out"
    """What agents may call where no grant says so: `opt-out` all, `opt-in` nothing. A server can have its own."""
    store: str | None = None
    """Keeps what must survive: a path, or a `postgresql:` URL that several hubs share. Unset: `hub.db` at home."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may call, beyond the hub's own."""
    allowed_hosts: tuple[str, ...] = ()
    """Host headers that are answered, beyond the address listened on."""
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    approvals: Approvals = Approvals()
    webhook: Webhook = Webhook()
    embeddings: Embeddings = Embeddings()
    oauth: OAuth = OAuth()
    tracing: Tracing = Tracing()
    retention: Retention = Retention()
    rate: Rate = Rate()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of `listen`; loading has checked that it has both."""
        return split_listen(self.listen)

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.address[0])

    @property
    def admits_anonymous(self) -> bool:
        """Unset, it is a laptop's default: whoever has an issuer of tokens, or goes by another name than this machine's
        own, serves others, perhaps behind a proxy. Beyond this machine nobody is let in without a credential."""
        if self.anonymous is None:
            return self.on_loopback and not self.oauth.every and all(map(_names_this_machine, self.allowed_hosts))
        return self.anonymous and self.on_loopback


class Restart(msgspec.Struct, frozen=True):
    """When a server that ended is started again (MGP, Restart Policies)."""

    policy: RestartPolicy = "on_failure"
    """`never`, `on_failure` or `always`."""
    max_restarts: Annotated[int, Meta(ge=0, le=1000)] = 5
    """So often within `window_s` it may end after it was connected; after that it stays down until someone wants it."""
    window_s: Seconds = 300
    """The time in which restarts are counted."""
    backoff_base_ms: Milliseconds = 1000
    """The first pause; each further one is twice as long."""
    backoff_max_ms: Milliseconds = 30_000
    """The longest pause. For a server that cannot be reached or started it is twice that, and at most a minute."""


class Tools(msgspec.Struct, frozen=True):
    """Which of a server's tools exist, under which name and description. Patterns are over bare tool names."""

    allow: tuple[str, ...] = ()
    """Only these, if any is named."""
    deny: tuple[str, ...] = ()
    """Never these; wins over `allow`."""
    rename: dict[str, str] = {}
    """A tool's own name, and what it is called here."""
    describe: dict[str, str] = {}
    """A tool's own name, and what it says it does here."""
    trust: tuple[str, ...] = ()
    """Tools, prompts and resources in quarantine that are offered all the same, as `name@fingerprint`: exactly that
    definition, at least 16 characters of its fingerprint. `interlock status` prints the line to write."""
    rate: dict[str, Rate] = {}
    """A tool's own name, and how often it may be called by all together: `{ per_minute = 30, per_hour = 500 }`."""
    timeouts: dict[str, ToolTimeouts] = {}
    """A tool's own name or a pattern, and its `tool_s`, `validation_s` and `lock_s`. Of several that fit, the last
    one's that has it."""


class Validation(msgspec.Struct, frozen=True):
    """What is checked of a tool's arguments before a call leaves. TOOL is a bare tool name, or a pattern (`"run_*"`,
    `"**"`). Of several that fit, all validators are used, and of each other setting the last one's that has it."""

    use: tuple[ValidatorName | Literal["none"], ...] = ()
    """Validators, beside those that the server declares: `sandbox`, `readonly`, `network_restricted`, `code_safety`,
    `paths`. `none` switches off what the hub would only infer."""
    arguments: dict[ArgumentKind, tuple[str, ...]] = {}
    """Which arguments hold a `command`, `url`, `host`, `path`, `code`, `sql`, or `text` with URLs in it, where their
    names do not say so (`arguments.command = ["steps.*.do"]`)."""
    ignore: tuple[str, ...] = ()
    """Rules that are not applied, by the name that a refusal gives (`shell.pipe`)."""
    programs: tuple[str, ...] = ()
    """The only programs that a command may run (`sandbox`)."""
    blocked_programs: tuple[str, ...] = ()
    """Further programs that it may not (`sandbox`)."""
    windows_shells: bool = False
    """Whether PowerShell and cmd may be used; what they run is not judged (`sandbox`)."""
    readers: tuple[str, ...] = ()
    """Further programs that are known to only read (`readonly`)."""
    dialect: str | None = None
    """The dialect of SQL, where it is known (`readonly`)."""
    hosts: tuple[str, ...] | None = None
    """The only hosts that may be reached (`example.com`, `*.example.com`) (`network_restricted`)."""
    local_names: tuple[str, ...] = ()
    """Local names that may be reached, if their addresses may (`network_restricted`)."""
    networks: tuple[str, ...] = ()
    """Private networks that may be reached (`10.1.0.0/16`); never a metadata service (`network_restricted`)."""
    ports: tuple[Annotated[int, Meta(ge=1, le=65_535)], ...] | None = None
    """The only ports that may be reached (`network_restricted`)."""
    level: CodeLevel | None = None
    """`standard`, `strict` or `readonly`; the stricter of this and what the server declares holds (`code_safety`)."""
    language: str | None = None
    """The language of code, where a call does not say (`code_safety`)."""
    max_code_bytes: Count | None = None
    """The largest piece of code (`code_safety`)."""
    allowed_imports: tuple[str, ...] = ()
    """Modules that may be imported although the level says no (`code_safety`)."""
    blocked_imports: tuple[str, ...] = ()
    """Further modules that may not (`code_safety`)."""
    blocked_patterns: tuple[str, ...] = ()
    """Text that may not occur in code (`code_safety`)."""
    roots: tuple[str, ...] = ()
    """The folders that paths must lie in, written in full (`paths`)."""
    accepts: tuple[dict[str, object], ...] = ()
    """Arguments that must pass, for `interlock check --config`."""
    refuses: tuple[dict[str, object], ...] = ()
    """Arguments that must be refused, for `interlock check --config`."""


class Server(msgspec.Struct, frozen=True):
    """`[servers.ID]`: either a program to run (`command`) or an address to call (`url`)."""

    command: tuple[str, ...] = ()
    """Program and arguments, never read by a shell. In the file: a list, or a program's name beside `args`."""
    env: dict[str, str] = {}
    """Variables for the program."""
    cwd: str | None = None
    """The folder it runs in."""
    inherit_env: tuple[str, ...] = ()
    """Variables of the hub's own environment that the program also gets; all others it does not."""
    url: str | None = None
    """The address of a server that runs elsewhere."""
    headers: dict[str, str] = {}
    """Headers for every request to it."""
    share: Share = "auto"
    """Who uses one connection to it: `auto` (see What is spoken), one `principal`, or one `session`."""
    start: Start = "eager"
    """With the hub (`eager`), or with the first call (`on-demand`; once before, where nobody knows what it offers)."""
    restart: Restart = Restart()
    timeout_s: Seconds | None = None
    """How long a call to it may take; progress extends it. Short for `timeouts.tool_s`."""
    timeouts: ServerTimeouts = ServerTimeouts()
    era: Era = "auto"
    """Which kind of MCP it speaks, where it need not be found out: `modern` or `legacy`."""
    enabled: bool = True
    """Whether it is used at all."""
    access: DefaultPolicy | None = None
    """What agents may call where no grant says so: `opt-out` everything, `opt-in` nothing. Unset: as the hub's."""
    trust: TrustLevel = "standard"
    """How far its own word counts: a `trusted` one's on the risk of its tools is taken, a `sandboxed` one's can only
    make things worse. A server can call itself less than this, never more."""
    permissions: Permissions = Permissions()
    audit: Literal["auto", "all", "off"] = "auto"
    """Whether it is sent the record of everything (`notifications/mgp.audit`): `all`, `off`, or `auto`: if it asked for
    it when the hub first met it (MGP's `audit` extension)."""
    tools: Tools = Tools()
    validators: dict[str, Validation] = {}
    """What is checked of calls to its tools, by tool; see below."""
    max_result_tokens: Annotated[int, Meta(ge=100)] | None = None
    """The longest text of a result, in tokens (o200k). A longer one becomes its head and a link to the
    rest; tools are then listed without an `outputSchema`, which a head could not keep."""
    scan_results: ScanResults = "off"
    """Whether results are searched for hidden text and instructions to the model: `flag` notes them in the log,
    `escape` also makes hidden text visible."""
    source: str = ""
    """The file that names it."""
    problem: Problem | None = None
    """Why it cannot be started as it stands (a variable is not set, say)."""

    derived: ClassVar[frozenset[str]] = frozenset({"source", "problem"})

    @property
    def transport(self) -> Literal["stdio", "http"]:
        return "http" if self.url is not None else "stdio"

    def __repr__(self) -> str:
        """Without the values of `env` and `headers`, and without arguments: they may hold secrets."""
        where = self.url.split("?")[0] if self.url is not None else " ".join(self.command[:1])
        names = ", ".join([*self.env, *self.headers])
        return f"Server({where!r}, variables and headers: [{names}], source={self.source!r})"


class ContextBudget(msgspec.Struct, frozen=True):
    """`tool_context_budget` of a profile or an agent: `budget` in its parts, in tokens (MGP, Context Budget)."""

    max_tokens: Tokens | None = None
    """All together; the same as `budget`."""
    pinned_reserve: Tokens | None = None
    """For the way to find tools, which takes 569, and the pinned ones. With `max_tokens` alone: a quarter."""
    discovery_reserve: Count | None = None
    """What is left for results of a search, whatever is loaded. With `max_tokens` alone: half of the rest."""
    cache_limit: Count | None = None
    """For tools that a session loaded. With `max_tokens` alone: half of the rest."""

    @property
    def parts(self) -> tuple[int, int, int] | None:
        """The three, where they are stated."""
        if self.pinned_reserve is None or self.discovery_reserve is None or self.cache_limit is None:
            return None
        return self.pinned_reserve, self.discovery_reserve, self.cache_limit


class Profile(msgspec.Struct, frozen=True):
    """`[profiles.NAME]`: a chosen subset of all tools. Patterns are over exposed names (`github__*`)."""

    tools: tuple[str, ...] = ("**",)
    """What it shows."""
    deny: tuple[str, ...] = ()
    """What it does not; wins over `tools`."""
    rename: dict[str, str] = {}
    """An exposed name, and what it is called here."""
    describe: dict[str, str] = {}
    """An exposed name, and what it says it does here."""
    budget: Tokens | None = None
    """Tokens that its list, instructions and any one answer of a search may take together; unset: the hub's."""
    tool_context_budget: ContextBudget = ContextBudget()
    level: Level | None = None
    """How much of it is listed: `L0` all tools, `L1` the way to find tools with their categories, `L2` the way to find
    tools, `L3` that and the pinned ones. Unset: `L0` within the budget, else `L3`."""
    pinned: tuple[str, ...] = ()
    """Exposed tool names (patterns) that are always listed."""


class Agent(msgspec.Struct, frozen=True):
    """`[agents.NAME]`: what holds for one agent."""

    profile: str | None = None
    """The only profile it sees."""
    budget: Tokens | None = None
    """Tokens that its list, instructions and any one answer of a search may take together; unset: its profile's. It
    holds over a `level` of `L0`, too."""
    tool_context_budget: ContextBudget = ContextBudget()
    level: Level | None = None
    """How much of it is listed; unset: as its profile says."""
    pinned: tuple[str, ...] = ()
    """Exposed tool names (patterns) that are always listed, beside its profile's."""
    ask: tuple[str, ...] = ()
    """Exposed tool names (patterns) that a person must confirm."""
    request: tuple[str, ...] = ()
    """Exposed tool names (patterns) that it may ask for where it has no access: `request_tools` then names them to the
    agent, and puts the question to a person. Nothing else that it has no access to is ever named."""
    attended_by: str | None = None
    """The person who sits before this agent's client: questions about its calls are asked there, too."""
    rate: Rate = Rate()


class Origin(msgspec.Struct, frozen=True):
    """Where a configuration came from; enough to load it again."""

    path: str | None = None
    """The `interlock.toml` in force; None: nothing is configured."""
    explicit: bool = False
    """Whether the operator named that path (`--config`, `$INTERLOCK_CONFIG`)."""
    folder: str | None = None
    """The folder whose project-local files were looked at."""
    files: tuple[str, ...] = ()
    """Every file that was read, for whoever watches for changes."""


class Config(msgspec.Struct, frozen=True):
    """All of it, checked; variables are filled in."""

    hub: Hub = Hub()
    servers: dict[str, Server] = {}
    profiles: dict[str, Profile] = {}
    agents: dict[str, Agent] = {}
    imports: tuple[str, ...] = msgspec.field(default=(), name="import")
    demo: bool = False
    """Nothing was configured: `servers` holds the built-in demonstration server alone."""
    origin: Origin = Origin()

    derived: ClassVar[frozenset[str]] = frozenset({"demo", "origin"})


def split_listen(listen: str) -> tuple[str, int]:
    """`127.0.0.1:7420` or `[::1]:7420` as host and port. Raises ValueError."""
    host, colon, port = listen.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 address is written in brackets")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise ValueError("host and port are needed")
    if len(port) > 5 or int(port) > 65_535:
        raise ValueError("a port is at most 65535")
    return host, int(port)


def _names_this_machine(allowed: str) -> bool:
    """Whether a Host header is one of the loopback address's own."""
    host = allowed.rpartition(":")[0] if allowed.rpartition(":")[2].isdigit() else allowed
    return is_loopback(host.strip("[]"))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
