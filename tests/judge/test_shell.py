"""The `sandbox` validator: what it refuses in every spelling, and what it lets through."""

from __future__ import annotations

from cases import each_case
from interlock.judge.shell import ShellRules, judge_shell


def rules_of(command: str | list[str], rules: ShellRules | None = None) -> set[str]:
    return {finding.rule for finding in judge_shell(command, rules or ShellRules())}


@each_case(
    "command",
    [
        "git log --oneline -n 20",
        "ls -la src",
        'grep -rn "def main" src',
        "grep -E 'a|b' notes.txt",
        "find . -name '*.py' -type f",
        "find . -name '*.log' -exec wc -l {} +",
        "tar -czf out.tgz src",
        "python3 scripts/report.py --since 2024",
        "bash scripts/build.sh release",
        "node server.js",
        "curl -s https://example.org/data.json",
        "awk -F, '{print $2}' table.csv",
        "sed -n '1,20p' README.md",
        "rm build.log",
        "chmod 644 notes.txt",
        "git commit -m 'Fix the parser; keep the tests'",
        "docker ps --all",
        "cp file{,.bak}",
        "echo 'a & b'",
        "ssh host.example uptime",
        "npm run build",
        "kill 4711",
        "crontab -l",
        "fdisk -l",
        "bash --version",
        "NODE_ENV=production npm start",
    ],
)
def test_everyday_commands_pass(command: str) -> None:
    assert judge_shell(command) == ()


@each_case(
    ("command", "rule"),
    [
        ("ls; id", "shell.sequence"),
        ("ls\nid", "shell.multiline"),
        ("ls & id", "shell.background"),
        ("ls && id", "shell.conditional"),
        ("ls || id", "shell.conditional"),
        ("ls | wc -l", "shell.pipe"),
        ("echo $(id)", "shell.substitution"),
        ("echo `id`", "shell.substitution"),
        ('echo "`id`"', "shell.substitution"),
        ("diff <(ls a) b", "shell.substitution"),
        ("echo $HOME", "shell.variable"),
        ('echo "${HOME}"', "shell.variable"),
        ("echo $((1+1))", "shell.arithmetic"),
        ("cat < a", "shell.redirect_in"),
        ("echo a > b", "shell.redirect_out"),
        ("cat <<E\na\nE", "shell.heredoc"),
        ("(ls)", "shell.subshell"),
        ("f() { ls; }", "shell.function"),
        ("if true; then ls; fi", "shell.control_flow"),
        ("A=1", "shell.assignment"),
    ],
)
def test_each_operator_has_a_rule_that_can_be_switched_off_alone(command: str, rule: str) -> None:
    assert rule in rules_of(command)
    assert rule not in rules_of(command, ShellRules(ignored=(rule,)))


def test_a_pipe_can_be_allowed_while_what_it_feeds_is_still_judged() -> None:
    allowed = ShellRules(ignored=("shell.pipe",))
    assert judge_shell("cat names.txt | sort", allowed) == ()
    assert rules_of("cat names.txt | sh", allowed) == {"shell.runs_shell"}


@each_case("target", ["/", "~", ".", "build", "/srv/data", "a b"])
@each_case(
    "spelling",
    [
        "rm -rf '{}'",
        "rm -fr '{}'",
        "rm -r -f '{}'",
        "rm -Rv '{}'",
        "rm --recursive '{}'",
        "rm --recurs '{}'",
        "env rm -r '{}'",
        "env -i A=b rm -r '{}'",
        "nice -n 5 rm -r '{}'",
        "timeout 5s rm -r '{}'",
        "nohup rm -r '{}'",
        "busybox rm -r '{}'",
        "xargs -n1 rm -r '{}'",
        "find . -exec rm -r '{}' \\;",
        "watch 'rm -r {}'",
        "ssh box rm -r '{}'",
        "/bin/rm -r '{}'",
        "command rm -r '{}'",
        "env -S 'rm -r {}'",
        "setsid -w rm -r '{}'",
        "docker exec box rm -r '{}'",
        "unknown-wrapper --flag rm -r '{}'",
        "sh -c 'rm -r {}'",
        "stdbuf -oL rm -r '{}'",
        "flock /tmp/l rm -r '{}'",
    ],
)
def test_recursive_deletion_is_refused_in_every_spelling(spelling: str, target: str) -> None:
    assert judge_shell(spelling.replace("{}", target))


@each_case(
    "command",
    [
        "r'm' -r x",
        'r"m" -r x',
        "\\rm -r x",
        "$'\\x72m' -r x",
        "r\\\nm -r x",
        "/bin/r? -r x",
        "/???/rm -r x",
        "{rm,-r,x}",
        "rm -{r,f} x",
        "ｒｍ -r x",
        "rm \u2011r x",
        "rm\u00a0-r x",
        "rm\u200b -r x",
        "r\u202em -r x",
        "ls%0aid",
        "ls\x0bid",
        "ls\x00",
        "ls\r id",
        "\u0441at notes",
        "echo \\n\\id",
    ],
)
def test_disguised_text_is_refused(command: str) -> None:
    assert judge_shell(command)


@each_case(
    "command",
    [
        "bash",
        "sh -c ls",
        "zsh -i",
        "dash -s",
        "python3 -c 'print(1)'",
        "python3.12 -c x",
        "python -mpip install x",
        "perl -ne 'print'",
        "perl -pe1",
        "ruby -e 1",
        "node --eval 1",
        "node -p 1",
        "php -r 1",
        "lua -e 1",
        "Rscript -e 1",
        "awk 'BEGIN{system(\"ls\")}'",
        "awk '{print | \"cat\"}' a",
        "awk '{print > \"f\"}' a",
        "sed '1e ls' a",
        "sed 's/a/b/e' a",
        "vim -c ':!ls'",
        "vim +:!ls a",
        "emacs --batch --eval 1",
        "gdb -ex 'shell ls'",
        "tar -cf a --checkpoint-act=exec=ls b",
        "tar xIf prog a",
        "rsync -e 'prog' a b",
        "ssh -oProxyCommand=prog host",
        "ssh -o ProxyCommand=prog host",
        "scp -S prog a b:",
        "git -c core.pager=prog log",
        "git -c alias.x='!prog' x",
        "git clone ext::prog",
        "git config core.hooksPath hooks",
        "git rebase -x prog main",
        "git bisect run prog",
        "find . -exec prog {} \\;",
        "find . -delete",
        "fd -x prog",
        "zip a b -TT prog",
        "man -P prog ls",
        "make --eval=all:",
        "nc -e prog host 1",
        "ncat --sh-exec prog host 1",
        "socat exec:prog tcp:host:1",
        "openssl x -engine ./e.so",
        "wget --use-askpass=prog a",
        "env LD_PRELOAD=./a.so sudo ls",
        "LD_PRELOAD=./a.so ls",
        "PATH=. ls",
        "GIT_SSH_COMMAND=prog git fetch",
        "PAGER=prog man ls",
        "less '!/opt/prog'",
        "sqlite3 a '.shell prog'",
        "psql -c '\\! prog'",
        "echo '$(prog)'",
        "anything /bin/sh",
        "anything --run=/usr/bin/bash",
        "eval ls",
        "source x",
        ". x",
        "alias ls='rm -r x'",
        "expect -c prog",
        "pip --x='`prog`'",
        "split --filter=prog a",
        "npx -c prog\\;x",
        "xargs sh",
        "parallel sh -c x",
        "script -q out",
        "dotnet fsi",
    ],
)
def test_running_code_by_the_side_door_is_refused(command: str) -> None:
    assert judge_shell(command)


@each_case(
    "command",
    [
        "sudo ls",
        "su root",
        "doas ls",
        "pkexec ls",
        "chmod u+s prog",
        "chmod 4755 prog",
        "chmod -R 777 .",
        "chmod 777 /",
        "chown -R me /",
        "setcap cap_net_raw+ep prog",
        "docker run --privileged img",
        "docker run -v /:/host img",
        "docker run --pid host img",
        "mkfs.ext4 /dev/sdb1",
        "dd if=a of=/dev/sda",
        "shred notes",
        "kill -9 -1",
        "reboot",
        "iptables -F",
        "modprobe x",
        "wipefs -a x",
        "cat /etc/shadow",
        "cat ~/.ssh/id_ed25519",
        "cat /proc/1/environ",
        "cp a /etc/cron.d/a",
        "tee /etc/hosts",
        "cp a ~/.bashrc",
        "crontab evil.txt",
        "rpm -i a.rpm",
        "dpkg -i a.deb",
        "rsync -a --delete a/ b/",
        "git clean -fdx",
        "rm *",
        "rm -f ~/*",
        "useradd x",
        "history -c",
    ],
)
def test_privilege_destruction_and_secrets_are_refused(command: str) -> None:
    assert judge_shell(command)


@each_case("command", ["powershell -File a.ps1", "pwsh", "cmd.exe /c dir", "Remove-Item a", "Get-Content a"])
def test_windows_shells_need_to_be_configured(command: str) -> None:
    assert rules_of(command) == {"shell.windows"}
    assert judge_shell(command, ShellRules(windows_shells=True)) == ()


@each_case(
    "command", ["ls 'a", 'echo "a', "echo )", "ls $(", "if ls", "{{ 7*7 }}", "phpinfo();", "() { :; }; id", "find . \\"]
)
def test_what_cannot_be_parsed_is_refused(command: str) -> None:
    assert judge_shell(command)


def test_allowlist_mode_lets_only_the_named_programs_run_at_any_depth() -> None:
    only = ShellRules(allowed_programs=("ls", "nice"))
    assert judge_shell("ls -l", only) == ()
    assert judge_shell("nice ls", only) == ()
    assert rules_of("cat a", only) == {"shell.not_allowed"}
    assert rules_of("nice cat a", only) == {"shell.not_allowed"}
    assert "shell.pipe" in rules_of("ls | ls", only)


def test_the_operator_can_block_further_programs() -> None:
    assert rules_of("nmap host", ShellRules(blocked_programs=("nmap",))) == {"shell.blocked"}


def test_an_argument_list_has_no_operators_only_words() -> None:
    assert judge_shell(["grep", "a;b|c", "notes.txt"]) == ()
    assert judge_shell(["echo", "&&"]) == ()
    assert rules_of(["rm", "-rf", "x"]) == {"shell.recursive_delete"}
    assert rules_of(["sh", "-c", "ls"]) == {"shell.runs_shell"}
    assert rules_of([]) == {"shell.empty"}


def test_nothing_to_run_is_refused() -> None:
    assert rules_of("") == {"shell.empty"}
    assert rules_of("  \n ") == {"shell.empty"}


def test_a_finding_shows_the_offending_span_and_a_fix() -> None:
    text = "  ls -l ; id"
    finding = next(one for one in judge_shell(text) if one.rule == "shell.sequence")
    assert finding.span is not None
    assert text[slice(*finding.span)] == ";"
    assert finding.hint


def test_spans_count_characters_when_the_text_is_not_ascii() -> None:
    text = "echo 'gr\u00fc\u00dfe' | wc"
    finding = next(one for one in judge_shell(text) if one.rule == "shell.pipe")
    assert finding.span is not None
    assert text[slice(*finding.span)] == "|"


def test_letters_of_other_scripts_pass_in_arguments() -> None:
    assert judge_shell("grep '\u0437\u0430\u043c\u0435\u0442\u043a\u0430' notes.txt") == ()
    assert judge_shell("cat \u8cc7\u6599.txt") == ()
