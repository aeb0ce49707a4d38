"""Programs with a few words after them that wreck a machine, blind whoever watches it, empty a store or run code.

One row a program: what its arguments, joined by blanks, may not say. Words that ordinary work needs too have no row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from interlock.judge.shell.flags import names
from interlock.judge.shell.git import Verdict

_READ = 400
"""Characters of the arguments that are read: the verb and its options come first."""

_WRECKS = (
    "shell.destructive",
    "changes what the machine starts or stores with",
    "leave it to whoever runs the machine",
)
_BLINDS = ("shell.destructive", "switches off what keeps watch, or clears what it wrote", "leave it running")
_EMPTIES = ("shell.destructive", "drops a whole store at once", "delete by name, and let a person confirm")
_RUNS = ("shell.runs_code", "evaluates code that is not judged", "put the code in a script of its own")
_RIGHTS = ("shell.privilege", "hands out accounts, rights or trust", "ask whoever runs the machine")
_SECRETS = ("shell.secret_file", "prints secrets that programs keep", "let the program use them itself")
_READS_DISK = ("shell.secret_file", "reads a disk past every permission", "read the files by name")
_MINES = ("shell.network", "uses the machine for somebody else's gain", "run it on a machine of your own")
_UNPACKS = ("shell.system_file", "writes wherever the archive says", "unpack below the working directory")
_OPENS = ("shell.tunnel", "opens a way in from other machines", "let it listen on this machine only")

_ROWS: tuple[tuple[str, str, Verdict], ...] = (
    # What the machine starts with, its firmware and its disks.
    ("nvram", r"\s[\w:-]+=|\s-\w*[cdf]\b", _WRECKS),
    ("efibootmgr", r"\s-\w*[BO]\b|\s--(?:delete|create|remove)", _WRECKS),
    ("flashrom", r"\s-\w*[wE]\b|\s--(?:write|erase)\b", _WRECKS),
    ("grub-install grub2-install bootctl", r"\s(?:install|remove|--boot-directory|/dev/)", _WRECKS),
    ("kextload kextutil kextunload", r"\s(?!-p\b|--help)\S", _WRECKS),
    ("kmutil", r"\s(?:load|unload|install)\b", _WRECKS),
    ("sg_format sg_sanitize sg_write_same hdparm",
     r"--(?:format|block|crypto|overwrite|write-sector|trim|security|fwd|yes-i)", _WRECKS),
    ("xfs_repair", r"\s-\w*L", _WRECKS),
    ("fsfreeze", r"\s(?:-f|--freeze)\b", _WRECKS),
    ("dmsetup", r"\s(?:remove_all|wipe_table|remove)\b", _WRECKS),
    ("btrfs", r"\ssubv\w*\s+del", _WRECKS),
    ("diskutil", r"\sapfs\s+(?:delete|erase)|\scs\s+delete", _WRECKS),
    ("pivot_root switch_root", r"\S", _WRECKS),
    ("dc3dd", r"\s(?:h?wipe|of|hof)=/dev/", _WRECKS),
    ("ddrescue pv dd_rescue", r"\s(?:-o\s+)?\S+\s+/dev/(?!null|std)|\s-o\s*/dev/(?!null|std)", _WRECKS),
    ("debugfs", r"\s/dev/(?!null)", _READS_DISK),
    ("dbus-send gdbus busctl qdbus qdbus6",
     r"(?<![A-Za-z])(?:PowerOff|Reboot|Halt|KExec|Suspend|Hibernate|StartTransientUnit|EnableUnitFiles|LinkUnitFiles|"
     r"SetPassword|CreateUser|DeleteUser|SetAccountType|InstallFiles|RunCommand)(?![A-Za-z])", _WRECKS),
    # What keeps watch.
    ("aa-disable aa-teardown aa-remove-unknown", r"", _BLINDS),
    ("apparmor_parser", r"\s(?:-R|--remove)\b", _BLINDS),
    ("ufw", r"\s(?:reset|logging\s+off|default\s+allow(?:\s+incoming)?\s*$)", _BLINDS),
    ("pfctl", r"\s-\w*[dF]", _BLINDS),
    ("ipfw", r"\sflush\b|\sdelete\b", _BLINDS),
    ("iptables ip6tables", r"\s(?:-P|--policy)\s+(?:INPUT|FORWARD)\s+ACCEPT", _BLINDS),
    ("fail2ban-client", r"\s(?:stop|unban\s+--all)\b", _BLINDS),
    ("tmutil", r"\s(?:disable|delete\w*|thin\w+|removedestination)\b", _BLINDS),
    ("utmpdump", r"\s(?:-r|--reverse)\b", _BLINDS),
    ("lastlog", r"\s(?:-C|--clear)\b", _BLINDS),
    ("dmesg", r"\s(?:-C|--clear|-c|--read-clear|-D|--console-off)\b", _BLINDS),
    ("mdatp", r"\s(?:config\s+real-time-protection\s+--value\s+disabled|exclusion\s+\w+\s+add)", _BLINDS),
    ("gcloud", r"\slogging\s+(?:sinks|logs|buckets)\s+delete|\sstorage\s+rm\b.*\s(?:-r|-R|--recursive)", _EMPTIES),
    # Accounts, rights and trust.
    ("pw", r"\s(?:user|group)?\s?(?:add|mod|del|lock|unlock)\b", _RIGHTS),
    ("newusers kadmin.local pw_mkdb", r"", _RIGHTS),
    ("security", r"\s(?:add-trusted-cert|delete-keychain|set-key-partition-list|authorizationdb\s+write)\b", _RIGHTS),
    ("systemsetup", r"-setremote(?:login|appleevents)\s+on", _OPENS),
    ("defaults", r"\swrite\b.*(?:LoginHook|LogoutHook|AutoLaunchedApplicationDictionary|GatekeeperDisable)",
     ("shell.persistence", "changes what runs at login", "leave the setting alone")),
    ("xattr", r"\s-\w*[cd]\w*\s(?:.*\s)?com\.apple\.quarantine|\s-\w*r\w*c|\s-\w*c\w*r",
     ("shell.privilege", "takes the mark of a download off", "let a person open it once")),
    ("lxc incus", r"\sconfig\s.*(?:security\.privileged[=\s]true|source=/(?:\s|$)|raw\.lxc)", _RIGHTS),
    ("aws", r"\siam\s.*(?:policy/AdministratorAccess|policy/IAMFullAccess)|\sconfigure\s+export-credentials", _RIGHTS),
    ("az", r"\srole\s+assignment\s+create\b.*\b(?:Owner|User Access Administrator)\b", _RIGHTS),
    ("gcloud", r"add-iam-policy-binding\b.*(?:allUsers|allAuthenticatedUsers|roles/owner)", _RIGHTS),
    ("kubectl oc k", r"\sget\s+secrets?\b.*\s(?:-o\s?|--output[=\s])(?:y|j|go|custom|t)", _SECRETS),
    ("kubectl oc k", r"\sconfig\s+set-credentials\b.*--exec", _RUNS),
    ("gpg gpg2", r"--(?:export-secret|delete-secret)", _SECRETS),
    ("gcore", r"\s\d", ("shell.secret_file", "copies what another program holds in memory", "ask the program itself")),
    ("networksetup", r"-set(?:secure)?(?:web|socksfirewall|autoproxy)\w*\s", _OPENS),
    ("xmrig minerd cpuminer ethminer cgminer xmr-stak ccminer", r"", _MINES),
    ("node", r"--inspect(?:-brk|-port)?[=\s](?:0\.0\.0\.0|\[::\]|\*)", _OPENS),
    # Stores, and the tools of frameworks that drop them.
    ("rails bin/rails rake", r"\sdb:(?:drop|reset|purge|schema:load)\b", _EMPTIES),
    ("php artisan", r"\s(?:migrate:(?:fresh|reset)|db:wipe)\b|doctrine:(?:database|schema):drop", _EMPTIES),
    ("console", r"doctrine:(?:database|schema):drop", _EMPTIES),
    ("prisma", r"\smigrate\s+reset|--force-reset", _EMPTIES),
    ("flyway", r"\sclean\b", _EMPTIES),
    ("liquibase", r"\sdrop-?all\b", _EMPTIES),
    ("alembic", r"\sdowngrade\s+base\b", _EMPTIES),
    ("manage.py django-admin python python3", r"\s(?:flush|reset_db)\s+(?:.*\s)?--no-?input", _EMPTIES),
    ("mix", r"\secto\.(?:drop|reset)\b", _EMPTIES),
    ("drush", r"\ssql[:-]drop", _EMPTIES),
    ("wp", r"\s(?:db\s+(?:drop|reset|clean)|site\s+empty)\b", _EMPTIES),
    ("supabase", r"\sdb\s+reset\b", _EMPTIES),
    ("firebase", r"\sfirestore:delete\b.*--(?:all|rec)|\sdatabase:remove\s+/(?:\s|$)", _EMPTIES),
    ("sequelize sequelize-cli typeorm knex", r"\s(?:db:drop|schema:drop|migrate:rollback\s+--all)\b", _EMPTIES),
    ("mongorestore", r"\s--drop\b", _EMPTIES),
    ("etcdctl", r"\sdel\b.*\s--(?:prefix|from-key)", _EMPTIES),
    ("consul", r"\skv\s+delete\b.*-recurse", _EMPTIES),
    ("rabbitmqctl", r"\s(?:force_reset|delete_vhost)\b", _EMPTIES),
    ("kafka-topics kafka-topics.sh", r"\s--delete\b", _EMPTIES),
    ("nomad", r"\s-purge\b", _EMPTIES),
    ("borg borgmatic", r"\sdelete\b", _EMPTIES),
    ("virsh", r"--remove-all-storage|\svol-(?:delete|wipe)\b", _EMPTIES),
    ("VBoxManage vboxmanage", r"\sunregistervm\b.*\s--delete", _EMPTIES),
    ("pg_resetwal pg_resetxlog", r"^(?!.*\s(?:-n|--dry-run)\b).*\s\S", _EMPTIES),
    ("terraform tofu", r"\sapply\b.*\s-{1,2}destroy\b|\sdestroy\b", _EMPTIES),
    ("influx", r"\sdelete\b", _EMPTIES),
    ("dpkg rpm pacman apt apt-get brew yum dnf",
     r"--allow-remove-essential|\s(?:-[rP]|--purge|--remove)\s.*--force-all|--force-all\s.*\s(?:-[rP]|--purge|--remove)\b|"
     r"\s-\w*e\w*\s.*--nodeps|--nodeps\s.*\s-\w*e\b|\s-R\w*dd|--ignore-dependencies",
     ("shell.destructive", "removes what other programs need", "remove it by name, with what depends on it")),
    # Code.
    ("rustc", r"\s(?:-C\s?|--codegen[=\s])(?:linker|link-args?|ar)=|\s-Z\s", _RUNS),
    ("wp", r"\s(?:eval|eval-file|shell)\b", _RUNS),
    ("drush", r"\s(?:php:eval|php-eval|ev|php:cli|php:script)\b", _RUNS),
    ("mix", r"\srun\b.*\s(?:-e|--eval)\b", _RUNS),
    ("lftp", r"\s!\s?\S|;\s*!", _RUNS),
    ("salt salt-ssh", r"\scmd\.", _RUNS),
    ("ansible", r"^(?!.*\s(?:-m|--module-name)\b).*\s(?:-a|--args)\b", _RUNS),
    ("gs gsx ghostscript", r"-dNOSAFER|%pipe%", _RUNS),
    ("convert magick mogrify identify composite montage import display", r"\s\|\S|\s(?:msl|ephemeral|mvg):", _RUNS),
    ("clickhouse-local clickhouse", r"\bexecutable\s*\(", _RUNS),
    ("duckdb", r"(?i)\b(?:install|load)\s+\w|copy\b.*\bto\b", _RUNS),
    ("tar bsdtar gtar",
     r"^(?=\s-?[A-Za-z]*x[A-Za-z]*\s|.*\s-[A-Za-z]*x|.*\s--(?:extract|get)\b).*\s(?:-[A-Za-z]*P|--absolute-names)",
     _UNPACKS),
    ("cpio", r"--absolute-filenames", _UNPACKS),
)  # fmt: skip


def _tabled() -> dict[str, tuple[tuple[re.Pattern[str], Verdict], ...]]:
    table: dict[str, tuple[tuple[re.Pattern[str], Verdict], ...]] = {}
    for programs, says, verdict in _ROWS:
        pattern = re.compile(says)
        for program in names(programs):
            table[program] = (*table.get(program, ()), (pattern, verdict))
    return table


PHRASES = _tabled()


def judge_phrases(name: str, arguments: Sequence[str]) -> Iterator[Verdict]:
    """What the arguments say that a row of the program is about."""
    rows = PHRASES.get(name)
    if rows is not None:
        text = " " + " ".join(arguments)[:_READ]
        for pattern, verdict in rows:
            if pattern.search(text):
                yield verdict


_GUARDS = names(
    "firewalld ufw iptables nftables pf auditd apparmor selinux fail2ban sshd ssh rsyslog syslog syslogd syslog-ng "
    "systemd-journald clamav-daemon clamd falcon-sensor falcond crowdstrike osqueryd wazuh-agent ossec aide sssd "
    "cbdaemon cbagentd mdatp sentinelone sentinelctl suricata snort tripwire samhain rkhunter splunk splunkforwarder "
    "auditbeat filebeat sysmon ds_agent eset falcon nessusd esensor"
)
"""Services that keep watch: stopping one is what an intruder does first."""
_STOPS = names("stop disable mask kill off del delete remove --del onestop forcestop")
_SERVICE = re.compile(r"(?:_enable)?=(?:\"?NO\"?)?$|\.service$|^-(?:f|x)$", re.IGNORECASE)


def stops_guard(arguments: Sequence[str]) -> Iterator[Verdict]:
    """A service manager, or a program that kills by name, told to end something that keeps watch."""
    words = [_SERVICE.sub("", word) for word in arguments]
    if _GUARDS.intersection(words) and (
        _STOPS.intersection(arguments) or any(word.lower().rstrip('"').endswith("=no") for word in arguments)
    ):
        yield _BLINDS


def kills_guard(arguments: Sequence[str]) -> Iterator[Verdict]:
    """By name, or by a pattern with the name as one of its alternatives."""
    if any(not _GUARDS.isdisjoint(_ALTERNATIVES.split(word.lower())) for word in arguments if len(word) < 400):
        yield _BLINDS


_ALTERNATIVES = re.compile(r"[|()^$\s]+")


SERVICE_MANAGERS: dict[str, Callable[[Sequence[str]], Iterator[Verdict]]] = {
    **dict.fromkeys(
        (
            "systemctl",
            "service",
            "rc-service",
            "sv",
            "rc-update",
            "update-rc.d",
            "chkconfig",
            "sysrc",
            "launchctl",
            "initctl",
        ),
        stops_guard,
    ),
    **dict.fromkeys(("pkill", "killall"), kills_guard),
}
