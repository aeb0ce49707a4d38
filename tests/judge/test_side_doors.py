"""Reading programs and reading statements that can be made to write, run or reach files after all."""

from __future__ import annotations

from cases import each_case
from interlock.judge.code import CodeRules, judge_code
from interlock.judge.readonly import judge_readonly_shell
from interlock.judge.shell.syntax import parse
from interlock.judge.sql import judge_readonly_sql


@each_case(
    "command",
    [
        "git < notes.txt push origin",
        "git 2>/dev/null push",
        "docker <Dockerfile build -",
        "cat a | tee <b c",
        "git <<END push\nx\nEND",
        "for i in 1; do git <a push; done",
        "jc rm notes.txt",
        "arch -x86_64 touch a",
        "setarch -3 /bin/sh",
        "linux32",
        "compgen -C 'touch a' x",
        "jobs -x touch a",
        "bat --pager 'touch a' b",
        "base64 -i a -o b",
        "zstdcat a.zst -o b",
        "atop -w log 5",
        "lstopo chart.png",
        "mount -a",
        "ip link s eth0 mtu 9000",
        "ip l s eth0 down",
        "git symbolic-ref --delete refs/x",
        "go env -u GOBIN",
        "poetry version patch",
        "terraform providers lock",
        "kubectl cluster-info dump --output-directory=out",
        "rpcinfo -d mountd 1",
        "nvidia-smi --power-limit 100",
        "zpool status -c script",
        "typos --dump-config typos.toml",
        "wget --spider --warc-file=a https://example.com",
        "identify msl:script.msl",
        "fx a.json 'process.exit()'",
    ],
)
def test_side_doors_of_reading_programs_are_refused(command: str) -> None:
    assert judge_readonly_shell(command)


@each_case(
    "command",
    [
        "wc -l <notes.txt",
        "cat <a - b",
        "ls 2>&1 -l",
        "jc ls",
        "ls | jc --ls",
        "arch",
        "setarch x86_64 ls",
        "ip addr s",
        "ip route s",
        "go env GOBIN",
        "poetry version",
        "terraform providers",
        "kubectl get pods --output wide",
        "gh issue ls",
        "brew tap -h",
        "mount",
        "mount -t ext4",
        "pip list -o",
        "base64 -d a",
    ],
)
def test_what_stands_beside_them_still_only_reads(command: str) -> None:
    assert judge_readonly_shell(command) == ()


def test_words_behind_a_redirection_belong_to_the_command() -> None:
    (command,) = parse("git <a push 2>&1 origin").commands
    assert [word.text for word in command.words] == ["git", "push", "origin"]
    outer, inner = parse("cat $(ls) <a b").commands
    assert [word.text for word in outer.words] == ["cat", "$(ls)", "b"]
    assert [word.text for word in inner.words] == ["ls"]


def test_a_script_cannot_hide_a_program_behind_a_redirection() -> None:
    assert judge_code("env <a rm -rf b", CodeRules(language="bash"))


@each_case(
    "sql",
    [
        "SELECT * FROM '/etc/hosts'",
        "SELECT * FROM text.`/var/log/a`",
        "SELECT * FROM glob('*')",
        "SELECT getenv('HOME')",
        "SELECT SYSTEM$SEND_EMAIL('a', 'b')",
        "SELECT * FROM EXTERNAL_QUERY('c', 'x')",
        "SELECT * FROM ts_stat('select f()')",
        "SELECT * FROM crosstab('select f()') AS t(a int)",
        "SELECT cron.schedule('a', 'b', 'c')",
        "SELECT aws_lambda.invoke('a', 'b')",
        "SELECT lowrite(1, 'x')",
        "SELECT lock_table('t')",
        "SELECT * FROM fsdir('/')",
        "SELECT \"lo_export\"(1, 'x')",
    ],
)
def test_functions_and_tables_that_reach_out_of_the_database_are_refused(sql: str) -> None:
    assert judge_readonly_sql(sql)


def test_a_long_statement_with_quoted_names_is_read_once() -> None:
    columns = ", ".join(f'"column {number}"' for number in range(130))
    sql = f'SELECT {columns} FROM "orders" WHERE "state" = \'open\''
    assert len(sql) * 3 > 5_000
    assert judge_readonly_sql(sql) == ()


@each_case(
    "sql",
    [
        """SELECT "a\\"; DELETE FROM t; -- " FROM t""",
        'SELECT "a" FROM t; DELETE FROM t -- "',
        "SELECT `a` FROM t; DELETE FROM t -- `",
        "SELECT [a] FROM t; DELETE FROM t",
    ],
)
def test_quotes_that_end_elsewhere_in_another_dialect_hide_nothing(sql: str) -> None:
    assert judge_readonly_sql(sql)


@each_case("before", ["", "select 1; "])
def test_a_statement_that_the_parser_would_read_for_ever_is_not_given_to_it(before: str) -> None:
    sql = f"{before}CREATE TABLE [t] ([a] INT) WITH (SYSTEM_VERSIONING = ON (HISTORY_TABLE = [h]\n,]B = 4 MONTHS))"
    assert judge_readonly_sql(sql)
    assert judge_readonly_sql(sql, "tsql")
