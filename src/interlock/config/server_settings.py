"""The settings below `[servers.ID]`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from interlock.judge.arguments import ArgumentKind, ValidatorName
from interlock.judge.code.rules import Level as CodeLevel

from .hub_settings import PermissionSettings
from .live_settings import ServerLiveSettings
from .problems import Problem
from .rates import Rate
from .value_types import (
    Algorithm,
    Count,
    DefaultPolicy,
    Era,
    MaskPattern,
    Milliseconds,
    RequestName,
    RequestPolicy,
    RestartPolicy,
    ScanResults,
    Seconds,
    Share,
    Start,
    TrustLevel,
)


class ServerTimeoutSettings(msgspec.Struct, frozen=True):
    """How long the hub waits for one server. Unset: as in `[hub.timeouts]`."""

    tool_s: Seconds | None = None
    """One call, from dispatch; progress extends it."""
    validation_s: Seconds | None = None
    """All checks of one call together."""
    discovery_s: Seconds | None = None
    """Listing it again."""
    lock_s: Seconds | None = None
    """Waiting for a lock inside the hub."""


class ToolTimeoutSettings(msgspec.Struct, frozen=True):
    """How long the hub waits for one tool."""

    tool_s: Seconds | None = None
    validation_s: Seconds | None = None
    lock_s: Seconds | None = None


class RestartSettings(msgspec.Struct, frozen=True):
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


class ScopeSettings(msgspec.Struct, frozen=True):
    """`[servers.ID.scopes.FEATURE]`: what the tools of a scoped feature set may act on, as patterns over scope labels
    (`/project/**`, `#dev-*`). A scope on neither list is put to a person; a channel on neither is
    refused. See [Live](live.md#scopes)."""

    whitelist: tuple[str, ...] = ()
    """Allowed without asking."""
    blacklist: tuple[str, ...] = ()
    """Never allowed; overrides `whitelist`."""
    label: str | None = None
    """How a label follows from a tool's arguments (`"{path}"`); unset: as the server declares."""
    payload: dict[str, dict[str, str]] = {}
    """Members that the hub adds to the payload of a scope, by label, such as the id of a channel that the label
    names."""


class ToolSettings(msgspec.Struct, frozen=True):
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
    timeouts: dict[str, ToolTimeoutSettings] = {}
    """`tool_s`, `validation_s` and `lock_s` by tool name or pattern. If several patterns match, the last one that has
    the setting counts."""


class RequestSettings(msgspec.Struct, frozen=True):
    """Requests that a server sends to the client of a call: may it, must a person confirm each, and how often. The rate
    holds for all callers together."""

    sampling: RequestPolicy = "allow"
    """Use of the client's model (`sampling/createMessage`): `allow`, `ask` or `deny`."""
    elicitation: RequestPolicy = "allow"
    """Questions to the person at the client (`elicitation/create`): `allow`, `ask` or `deny`."""
    roots: RequestPolicy = "allow"
    """The client's folders (`roots/list`): `allow`, `ask` or `deny`."""
    rate: dict[RequestName, Rate] = {}
    """How often, by `sampling`, `elicitation` or `roots`: `{ per_minute = 10, per_hour = 100 }`."""

    def rate_of(self, name: str) -> Rate | None:
        """The rate of the requests with this name."""
        return next((rate for known, rate in self.rate.items() if known == name), None)

    def policy_of(self, name: str) -> RequestPolicy:
        """The hub's answer to requests with this name."""
        match name:
            case "sampling":
                return self.sampling
            case "elicitation":
                return self.elicitation
            case "roots":
                return self.roots
        return "deny"


class ValidationSettings(msgspec.Struct, frozen=True):
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


class SandboxSettings(msgspec.Struct, frozen=True):
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


class MaskSettings(msgspec.Struct, frozen=True):
    """Patterns that `scan_results = "mask"` replaces, besides all known secrets. The audit log counts them."""

    patterns: tuple[MaskPattern, ...] = ()
    """`email` for addresses, `card` for card numbers with a correct check digit."""
    own: dict[str, str] = {}
    """Further regular expressions (RE2), by the name that is shown in place of a match:
    `{ employee = "EMP-[0-9]{6}" }`."""
    arguments: bool = False
    """Whether the same is replaced in the arguments of calls before they leave for the server, whatever `scan_results`
    says."""


class ServerOAuthSettings(msgspec.Struct, frozen=True):
    """`[servers.ID.oauth]`: how the hub logs in to a server at a URL that wants a token. Nothing is needed for most
    servers: the hub finds their authorization server and registers itself."""

    grant: Literal["authorization_code", "client_credentials", "jwt_bearer", "id_jag"] = "authorization_code"
    """`authorization_code`: a person logs in. The others need no person: `client_credentials` with the hub's own
    client, `jwt_bearer` with a JWT of the workload, `id_jag` with an ID token of the enterprise's identity provider."""
    client_id: str | None = None
    """A client that was registered before. Set `issuer` with it."""
    client_secret: str | None = None
    """Its secret. It needs `issuer`: the hub sends it to no authorization server that only the server names."""
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
    """The JWT of the workload, which needs `issuer` as a secret does; or the ID token."""
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


class ServerSettings(msgspec.Struct, frozen=True):
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
    """The login to a server at `url` that wants a token (`interlock login`): one that all callers use, one of each
    principal (`per-user`, on a connection of its own), or nobody (`off`). A configured `Authorization` header turns it
    off."""
    oauth: ServerOAuthSettings = ServerOAuthSettings()
    share: Share = "auto"
    """Sharing of connections to the server: `auto` (see Protocols), one `principal`, or one `session`."""
    start: Start = "eager"
    """When the server is started: with the hub (`eager`) or with the first call (`on-demand`; the first time also at
    start, to list its tools)."""
    restart: RestartSettings = RestartSettings()
    timeout_s: Seconds | None = None
    """How long a call may take; progress extends it. Short for `timeouts.tool_s`."""
    timeouts: ServerTimeoutSettings = ServerTimeoutSettings()
    era: Era = "auto"
    """The kind of MCP that the server speaks, `modern` or `legacy`. `auto` finds out."""
    enabled: bool = True
    """Whether the server is used."""
    access: DefaultPolicy | None = None
    """Tools that agents may call without a grant: `opt-out` everything, `opt-in` nothing. Unset: as in `[hub]`."""
    trust: TrustLevel = "standard"
    """How far the hub believes the server. A `trusted` server's statements about the risk of its tools count. A
    `sandboxed` server's statements can only raise the risk. A server can lower its own level, never raise it."""
    isolation: Literal["none", "sandbox"] = "none"
    """`sandbox` runs the program contained: without network, files and processes that `sandbox` does not allow."""
    sandbox: SandboxSettings = SandboxSettings()
    permissions: PermissionSettings = PermissionSettings()
    audit: Literal["auto", "all", "off"] = "auto"
    """Whether the server receives the audit log (`notifications/mgp.audit`): `all` sends every entry from then on;
    `auto` and `off` send nothing. With `auto`, the server's log says if the server asks for it."""
    requests: RequestSettings = RequestSettings()
    tools: ToolSettings = ToolSettings()
    scopes: dict[str, ScopeSettings] = {}
    """Objects that tools of scoped feature sets may act on; see below."""
    live: ServerLiveSettings = ServerLiveSettings()
    validators: dict[str, ValidationSettings] = {}
    """Checks of calls, by tool; see below."""
    max_result_tokens: Annotated[int, Meta(ge=100)] | None = None
    """The longest text of a result, in tokens (o200k). Of a longer text, the agent gets the beginning and a link to the
    rest. Tools are then listed without an `outputSchema`, because a shortened result may not match it. The same holds
    for masked results."""
    coerce: bool = False
    """Whether arguments that do not fit a tool's schema are converted where that is certain: `"5"` for an integer,
    `"true"` for a boolean, `5` for a string. The audit log records which ones; the server gets what they became."""
    scan_results: ScanResults = "off"
    """Whether results and errors are searched for hidden text and instructions to the model: `flag` logs them, `escape`
    also makes hidden text visible, `mask` replaces secrets, and what `mask` names, in all that the server says about a
    call."""
    mask: MaskSettings = MaskSettings()
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
    def shared_by(self) -> Share:
        """Which callers share a connection: with a login for each user, nobody does."""
        return "principal" if self.login == "per-user" and self.logs_in else self.share

    @property
    def transport(self) -> Literal["stdio", "http"]:
        return "http" if self.url is not None else "stdio"

    def __repr__(self) -> str:
        """Without arguments and the values of `env` and `headers`, which may be secrets."""
        where = self.url.split("?")[0] if self.url is not None else " ".join(self.command[:1])
        names = ", ".join([*self.env, *self.headers])
        return f"ServerSettings({where!r}, variables and headers: [{names}], source={self.source!r})"
