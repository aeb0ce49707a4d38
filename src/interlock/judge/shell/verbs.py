"""Tools with verbs of their own, and the verbs with which they destroy what they manage, or hand out what they guard.

Ordinary changes pass (`kubectl scale`, `docker rm`): a row is for what cannot be undone, or opens a way in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from interlock.judge.shell import sources
from interlock.judge.shell.flags import names, operands, option_values, uses_flag
from interlock.judge.shell.git import Verdict
from interlock.judge.shell.phrases import SERVICE_MANAGERS
from interlock.judge.shell.programs import MENTIONERS, RISKY_VARIABLES

_DESTROYS = "destroys what cannot be brought back"
_LIST = "list it first, and have a person delete it"


def _kubectl(arguments: Sequence[str]) -> Iterator[Verdict]:
    words = operands(arguments, names("-n --namespace --context --kubeconfig --cluster --user -s --server"))
    verb, kind = [*words, "", ""][:2]
    if verb == "delete" and (
        uses_flag(arguments, names("--all -A --all-namespaces"), "nflo")
        or kind.partition("/")[0]
        in names(
            "namespace namespaces ns node nodes no pv persistentvolume persistentvolumes pvc persistentvolumeclaim "
            "persistentvolumeclaims crd crds"
        )
    ):
        yield "shell.destructive", f"kubectl delete {_DESTROYS}", _LIST
    elif verb == "run" and uses_flag(arguments, names("--privileged --overrides")):
        yield "shell.privilege", "the container is given the host", "run it without"
    elif verb == "debug" and kind.startswith("node/"):
        yield "shell.privilege", "a debug container on a node is given the host", "debug a pod"
    elif verb == "proxy" and uses_flag(arguments, names("--address --accept-hosts --disable-filter")):
        yield "shell.tunnel", "opens the cluster's own face to others", "let it listen on this machine only"
    elif verb in ("apply", "create", "replace") and any(
        value.startswith(sources.URLS) for value in option_values(arguments, "-f", "--filename")
    ):
        yield "shell.remote_code", "applies what another host sends", "fetch the file and read it first"
    elif verb == "rsh":
        yield "shell.runs_shell", "opens a shell in a container", "run one program with exec"
    elif verb == "create" and kind in ("clusterrolebinding", "rolebinding", "token"):
        yield "shell.privilege", "hands out rights or tokens", "ask whoever runs the cluster"


_CLOUD_GONE = re.compile(
    r"(?:^|\s)(?:terminate-\w+|schedule-key-deletion|stop-logging|disable-(?:security-hub|key|macie)|"
    r"delete-(?:stack|cluster|db-\w+|bucket|organization|account|backup-vault|file-system|trail|detector|log-group|"
    r"flow-logs|table|key|volume|vpc|hosted-zone|web-acl)\b|"
    r"(?:group|projects?|keyvault|kubernetes cluster|clusters?|databases?|instances|vm|server|disks?|buckets?|"
    r"storage account|organizations?|folders|sql \w+|functionapp) (?:delete|purge|destroy)\b)"
)
"""Verbs, and verbs after what they are about, that take a whole account, cluster, database, bucket or disk away."""


def _cloud(arguments: Sequence[str]) -> Iterator[Verdict]:
    words = operands(arguments, names("--profile --region --output --project -g --resource-group --subscription"))
    if _CLOUD_GONE.search(" ".join(words[:6])):
        yield "shell.destructive", f"the verb {_DESTROYS}", _LIST
    elif "s3" in words[:1] and (
        ("rm" in words[1:2] and uses_flag(arguments, names("--recursive")))
        or ("rb" in words[1:2] and uses_flag(arguments, names("--force")))
        or ("sync" in words[1:2] and uses_flag(arguments, names("--delete")))
    ):
        yield "shell.recursive_delete", "deletes everything in a bucket", "delete the objects by name"
    elif words[:1] == ["ssm"] and words[1:2] in (["send-command"], ["start-session"]):
        yield "shell.runs_code", "runs commands on other machines", "use a tool that does this one thing"
    elif {"ssh", "run-command"} & set(words[:4]):
        yield "shell.runs_code", "opens a shell on another machine", "use a tool that does this one thing"


def _containers(arguments: Sequence[str]) -> Iterator[Verdict]:
    words = operands(arguments, names("-H --host -c --context --config --log-level -l"))
    if "prune" in words[:2] and uses_flag(arguments, names("-a --all --volumes")):
        yield "shell.destructive", f"prune with all {_DESTROYS}", "prune without -a and --volumes, or name them"
    elif words[:2] == ["swarm", "leave"] or (
        words[:2] == ["compose", "down"] and uses_flag(arguments, names("-v --volumes"))
    ):
        yield "shell.destructive", f"the verb {_DESTROYS}", "leave the volumes"
    if any(value.startswith(("tcp://", "ssh://")) for value in option_values(arguments[:4], "-H", "--host")):
        yield "shell.tunnel", "talks to the containers of another host", "use the local daemon"


_REDIS_BAD = names(
    "flushall flushdb shutdown debug slaveof replicaof module config script eval evalsha acl migrate restore save "
    "bgsave bgrewriteaof swapdb function failover"
)


def _redis(arguments: Sequence[str]) -> Iterator[Verdict]:
    words = operands(arguments, names("-h -p -s -a -n -r -i -u --user --pass --host --port"))
    verb, what = [*(word.lower() for word in words), "", ""][:2]
    if verb in _REDIS_BAD and (verb, what) not in (("config", "get"), ("acl", "list"), ("acl", "whoami")):
        yield "shell.destructive", f"redis {verb} empties, stops or reconfigures the server", "read the keys you need"


_SQL_RUNS = re.compile(
    r"\bprogram\s+['\"]|\\!|\bxp_cmdshell\b|\bload_extension\s*\(|\bsys_(?:exec|eval)\s*\(|\blo_(?:import|export)\s*\(|"
    r"\binto\s+(?:out|dump)file\b|\bpg_read_(?:binary_)?file\s*\(|\bload_file\s*\(|\bcopy\b.{0,200}\b(?:to|from)\s+'/|"
    r"\bload\s+data\b|^\s*(?:system|source|shell|\\s|\.shell|\.system|\.load|\.read|\.import|\.output|\.once)\b|"
    r"\bdrop\s+(?:database|schema|table|keyspace|role|user)\b|\btruncate\s+(?:table\s+)?\w|"
    r"\bdelete\s+from\s+[\w.\"`\[\]]+\s*;?\s*$|\bwritefile\s*\(|\bcreate\s+(?:or\s+replace\s+)?function\b",
    re.IGNORECASE,
)


def _database(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(_SQL_RUNS.search(word) for word in arguments if len(word) > 3):
        yield (
            "shell.runs_code",
            "the statement runs programs, reaches files, or drops whole tables",
            "read, or change rows by name",
        )


_DESTROYING = names("destroy delete purge prune wipe erase drop unpublish nuke obliterate terminate dropdb")
_UNASKED = names(
    "-y --yes --assume-yes --force --auto-approve -auto-approve --no-confirm --noconfirm --skip-confirmation "
    "--no-prompt"
)


def destroys_unasked(program: str, arguments: Sequence[str]) -> bool:
    """Whether a program of any kind is told to delete something and not to ask: `x repo delete y --yes`."""
    if program in MENTIONERS or not any(word.rpartition(":")[2] in _DESTROYING for word in operands(arguments)[:3]):
        return False
    # `-f` with a word behind it names a file more often than it forces anything.
    return not _UNASKED.isdisjoint(arguments) or arguments[-1:] == ["-f"]


def _destroy(verbs: str, message: str = _DESTROYS) -> Callable[[Sequence[str]], Iterator[Verdict]]:
    wanted = names(verbs)

    def judge(arguments: Sequence[str]) -> Iterator[Verdict]:
        if wanted.intersection(operands(arguments)[:3]):
            yield "shell.destructive", f"the verb {message}", _LIST

    return judge


def _always(rule: str, message: str, hint: str, unless: str = "") -> Callable[[Sequence[str]], Iterator[Verdict]]:
    harmless = names(unless)

    def judge(arguments: Sequence[str]) -> Iterator[Verdict]:
        if not harmless.intersection(arguments):
            yield rule, message, hint

    return judge


_RECURSIVE_REMOVALS = re.compile(
    r"(?:^|\s)(?:rm|del|delete|-rm|-rmr|remove|rb|delete-batch)\s(?:.*\s)?(?:-\w*[rR]\w*|--recursive|--force)(?:\s|$)"
    r"|(?:^|\s)-m rm\s|(?:^|\s)(?:purge|-rmr|delete-batch)\s"
)


def _objects(arguments: Sequence[str]) -> Iterator[Verdict]:
    """Clients of object stores: whole buckets and folders at once."""
    if _RECURSIVE_REMOVALS.search(" ".join(arguments[:12])):
        yield "shell.recursive_delete", "deletes everything in a bucket or folder", "delete the objects by name"


def _npm(arguments: Sequence[str]) -> Iterator[Verdict]:
    yield from sources.installs(arguments)
    if {"config", "c"}.intersection(operands(arguments)[:1]) and {"script-shell", "node-options"}.intersection(
        arguments
    ):
        yield "shell.runs_code", "a setting names a program to run", "leave the setting alone"


def _env(arguments: Sequence[str]) -> Iterator[Verdict]:
    for word in arguments:
        name, equals, _ = word.partition("=")
        if equals and not word.startswith("-") and RISKY_VARIABLES.match(name.removesuffix("%%")):
            yield "shell.environment", f"setting {name[:40]!r} can change what runs", "leave it out"
            return


def _helm(arguments: Sequence[str]) -> Iterator[Verdict]:
    if operands(arguments)[:2] == ["plugin", "install"]:
        yield "shell.remote_code", "installs a program that helm runs", "have an operator install it"
    if uses_flag(arguments, names("--post-renderer")):
        yield "shell.runs_code", "helm is told which program to run", "leave the option out"


def _mount(arguments: Sequence[str]) -> Iterator[Verdict]:
    text = " ".join(arguments)
    if re.search(r"(?:^|\s)(?:--bind|--rbind|--move|-B|-M)\b|[\s,=]r?bind\b|remount|overlay|\bsuid\b", text):
        yield "shell.privilege", "lays one tree over another", "leave the mounts as they are"
    elif len(operands(arguments)) > 1 and re.search(r"\s/(?:etc|usr|bin|sbin|lib|boot|root|proc|sys)?/?$", text):
        yield "shell.privilege", "mounts over a directory of the system", "mount below a directory of your own"


_MAKE_RUNS = re.compile(r"(?:\.?SHELL(?:FLAGS)?|MAKEFLAGS|MAKEFILES|CC|CXX|LD|AR|PYTHON)[:?+]?=.*[/\s]")


def _make(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(value in ("-", "/dev/stdin") for value in option_values(arguments, "-f", "--file", "CIjlo")):
        yield "shell.runs_code", "the rules would come from the input", "name a file"
    if any(_MAKE_RUNS.match(word) for word in arguments):
        yield "shell.runs_code", "a make variable names the program to run", "leave the variable out"


def _pager(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(word.startswith("+") and "!" in word for word in arguments):
        yield "shell.runs_code", "gives the pager a command to run", "open the file only"


def _editor(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(word.startswith("!") for word in arguments):
        yield "shell.runs_code", "gives the editor a command to run", "open the file only"


_EVERYWHERE = ("0.0.0.0", "[::]", "*")  # noqa: S104 - what is looked for, not what is opened


def _php(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(value.startswith((*_EVERYWHERE, "0:")) for value in option_values(arguments, "-S", "--server")):
        yield "shell.tunnel", "serves files to every machine around", "serve on 127.0.0.1"


def _set(arguments: Sequence[str]) -> Iterator[Verdict]:
    if "history" in arguments:
        yield "shell.covers_tracks", "turns the shell's history off", "leave it on"


def _certutil(arguments: Sequence[str]) -> Iterator[Verdict]:
    if re.search(r"(?:^|\s)[-/](?:urlcache|decode|encode|decodehex|verifyctl)\b", " ".join(arguments).lower()):
        yield "shell.windows", "certutil fetches or decodes files on Windows", "use a tool that fetches"


def _net(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(word.lower() in ("/add", "/delete", "/y", "/active:yes") for word in arguments):
        yield "shell.windows", "changes the accounts of a Windows machine", "ask whoever runs the machine"


_CLOUDS = names("aws gcloud az doctl ibmcloud oci linode-cli hcloud")
_INSTALLERS = names(
    "pip pip3 npm pnpm yarn bun gem cargo uv poetry conda mamba composer brew dnf yum apt apt-get apk zypper snap go "
    "luarocks cpan cpanm easy_install flatpak opam raco stack mix rebar3 vcpkg conan spack"
)
_CLIENTS = names(
    "psql mysql mariadb sqlite3 duckdb sqlcmd clickhouse-client clickhouse-local usql cqlsh pgcli mycli litecli sqlplus"
)

VERBS: dict[str, Callable[[Sequence[str]], Iterator[Verdict]]] = {
    **dict.fromkeys(("kubectl", "oc", "k", "k3s"), _kubectl),
    **dict.fromkeys(_CLOUDS, _cloud),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose"), _containers),
    **SERVICE_MANAGERS,
    **dict.fromkeys(("redis-cli", "valkey-cli", "keydb-cli"), _redis),
    **dict.fromkeys(_CLIENTS, _database),
    **dict.fromkeys(sources.RUNNERS, sources.runs_given),
    **dict.fromkeys(_INSTALLERS, sources.installs),
    **dict.fromkeys(("npm", "pnpm", "yarn"), _npm),
    **dict.fromkeys(("npx", "bunx", "uvx", "pipx", "deno", "pnpx"), sources.runs_address),
    **dict.fromkeys(("pulumi", "cdk", "terragrunt", "fly", "flyctl"), _destroy("destroy")),
    **dict.fromkeys(("make", "gmake", "bmake"), _make),
    "dropdb": _always("shell.destructive", _DESTROYS, _LIST),
    "mysqladmin": _destroy("drop shutdown kill"),
    "eksctl": _destroy("delete"),
    "heroku": _destroy("apps:destroy pg:reset"),
    "helm": _helm,
    **dict.fromkeys(("java", "javaw"), sources.java),
    "env": _env,
    **dict.fromkeys(("gsutil", "rclone", "mc", "s3cmd", "s5cmd", "hdfs", "hadoop", "azcopy"), _objects),
    **dict.fromkeys(("less", "more", "most"), _pager),
    **dict.fromkeys(("ed", "red"), _editor),
    "php": _php,
    "mount": _mount,
    "passwd": _always("shell.privilege", "changes a password", "ask whoever runs the machine", "-S --status"),
    "set": _set,
    "certutil": _certutil,
    "net": _net,
}
"""Each judge yields what is wrong with the arguments of its program, beside what `special` says of it."""
