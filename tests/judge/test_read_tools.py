"""Developers' tools under `readonly`: looking and checking pass, whatever rewrites or sends does not."""

from __future__ import annotations

from cases import each_case
from interlock.judge.readonly import judge_readonly_shell
from interlock.judge.sql import judge_readonly_sql

READS = [
    "black --check src",
    "ruff check .",
    "ruff format --diff .",
    "prettier -l .",
    "gofmt -d .",
    "eslint src",
    "tsc --noEmit",
    "rpm -qi bash",
    "redis-cli -h cache GET a",
    "redis-cli --scan --pattern 'a*'",
    "redis-cli CONFIG GET x",
    "gh api repos/o/r --jq .name",
    "service nginx status",
    "npm audit --json",
    "git config user.name",
    "terraform providers",
    "aws logs tail group",
    "fd -e py -x wc -l",
    "curl -G https://x --data-urlencode a=b",
    "nc -zv host 443",
    "python3 -m json.tool f",
    "sqlite3 -readonly a.db 'select 1'",
    "awk '{print > \"/dev/stderr\"}' f",
    "crontab -l -u root",
    "head=$(git rev-parse HEAD); echo $head",
    "for f in *.md; do head -1 $f; done",
]
WRITES = [
    "black src",
    "ruff check --fix .",
    "ruff format .",
    "prettier --write .",
    "gofmt -w .",
    "eslint . --fix",
    "tsc",
    "rpm -i x.rpm",
    "rpm --eval '%(id)'",
    "redis-cli SET a b",
    "redis-cli CONFIG SET a b",
    "gh api -X DELETE repos/o/r",
    "gh api repos/o/r -f a=b",
    "service nginx stop",
    "npm audit fix",
    "git config user.name x",
    "git config --unset user.name",
    "fd -x rm",
    "curl --data-urlencode a=b https://x",
    "nc host 443",
    "python3 -m venv x",
    "awk '{print > \"f\"}' f",
    "go env -w A=b",
    "rlwrap -l log cat f",
    "time -o log ls",
    "x=-delete; find . $x",
    "t=touch; $t f",
    "PATH=/tmp; ls",
    "x=$(rm f); echo $x",
]


@each_case("command", READS)
def test_looking_passes(command: str) -> None:
    assert judge_readonly_shell(command) == ()


@each_case("command", WRITES)
def test_changing_does_not(command: str) -> None:
    assert judge_readonly_shell(command)


@each_case(
    "sql",
    [
        "SELECT * FROM file('/etc/passwd', 'CSV', 'a String')",
        "SELECT * FROM url('http://host.example', 'CSV', 'a int')",
        "SELECT query_to_xml_and_xmlschema('delete from t', true, true, '')",
        "SELECT release_all_locks()",
        "SELECT * FROM pragma_writable_schema",
        "SELECT httpuritype('http://host.example').getclob() FROM dual",
    ],
)
def test_functions_that_reach_beyond_the_tables_are_refused(sql: str) -> None:
    assert judge_readonly_sql(sql)


@each_case(
    "sql",
    [
        "SELECT `delete` FROM t",
        'SELECT "update" FROM "drop"',
        "SELECT quantile(0.9)(x) FROM t",
        "SELECT toDate(x) FROM t FORMAT JSON",
        "SELECT * FROM pragma_table_info('t')",
        "SELECT [select] FROM [my table]",
    ],
)
def test_words_in_quotes_and_other_dialects_are_read(sql: str) -> None:
    assert judge_readonly_sql(sql) == ()
