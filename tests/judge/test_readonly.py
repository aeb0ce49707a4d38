"""The `readonly` validator: commands may be joined, and none of them may write."""

from __future__ import annotations

from cases import each_case
from interlock.judge.readonly import ReadonlyRules, judge_readonly_shell
from interlock.judge.sql import judge_readonly_sql


@each_case(
    "command",
    [
        "ls -la",
        "cat a | grep b | sort | uniq -c",
        "ls && df -h",
        "wc -l < notes.txt",
        "ls nowhere 2>/dev/null",
        "ls 2>&1",
        'for f in a b; do cat "$f"; done',
        "find . -name '*.py' -exec grep -l main {} +",
        "sed -n 5p a",
        "sed 's/a/b/' a",
        "sed 's/word/east/g; /end/d' a",
        "sed -e '/west/,$p' -e 2q a",
        "sed 's|[/|]|w|' a",
        "awk '$3 > 5 {print $1}' a",
        "awk '/cat|dog/ || x {print $2}' a",
        """awk '$1 ~ /a|b/ {printf "%s | %s", $1, $2}' a""",
        "git log -p",
        "git status",
        "git branch -a",
        "git tag -l",
        "git config --get user.name",
        "git -C repo diff main",
        "git stash list",
        "curl -s https://example.org",
        "curl -o /dev/null -w '%{http_code}' https://example.org",
        "wget -qO- https://example.org",
        "tar tf a.tgz",
        "tar -tvf a.tgz",
        "unzip -l a.zip",
        "date +%F",
        "date -d yesterday",
        "hostname",
        "ip addr show eth0",
        "ip r",
        "sysctl kernel.ostype",
        "systemctl status nginx",
        "journalctl -u nginx -n 50",
        "docker ps",
        "kubectl get pods -n web",
        "kubectl -n web logs pod",
        "env | sort",
        "xargs -n1 cat",
        "nice cat a",
        "echo $(date)",
        "sudo cat a",
        "psql -c 'select 1'",
        "python3 --version",
        "crontab -l",
        "uniq a",
        "ps aux | awk '{print $2}'",
        "terraform plan",
        "npm ls",
        "aws s3 ls",
        "jq .a b.json",
        "dpkg -l",
        "command -v ls",
        "timeout 5 du -sh .",
        "stty -a",
        "yarn list",
        "ionice -c3 ls",
    ],
)
def test_reading_passes(command: str) -> None:
    assert judge_readonly_shell(command) == ()


@each_case(
    "command",
    [
        "touch a",
        "cat a > b",
        "cat a >> b",
        "> a",
        "echo x | tee a",
        "cat a >| b",
        "ls &> a",
        "rm a",
        "mv a b",
        "cp a b",
        "ln a b",
        "mkdir a",
        "sed -i s/a/b/ f",
        "sed -ni p f",
        "sed --in-place=.bak p f",
        "sed -n 'w out' f",
        "sed 's/a/b/w out' f",
        "sed '/x/w out' f",
        "sed 's|a|b|gw out' f",
        "sed -e p -e 'w out' f",
        "sed 's/a/b/e' f",
        "sed 'p;w out' f",
        "aws s3 cp list-a.txt s3://b/list-a.txt",
        "nmcli c delete home",
        "gcloud compute instances delete list-a",
        "sed '1e touch a' f",
        "awk '{print > \"out\"}' f",
        "awk '{print >> \"out\"}' f",
        "awk 'BEGIN{system(\"touch a\")}'",
        "awk -f prog f",
        "awk '{x = 1 /1; print | \"sh\"; y = 1/1}' f",
        "awk '{\"date\" | getline d; print d}' f",
        "sort -o a a",
        "sort -uo a a",
        "sort --outp=a a",
        "uniq a b",
        "xxd a b",
        "find . -delete",
        "find . -fprint out",
        "find . -exec touch {} \\;",
        "find . -execdir rm {} +",
        "xargs rm",
        "env touch a",
        "nice touch a",
        "sudo touch a",
        "sudo -i",
        "git commit -m x",
        "git tag v1",
        "git branch new",
        "git branch -D old",
        "git config user.name x",
        "git stash",
        "git checkout .",
        "git fetch",
        "git diff --output=f",
        "git -c core.pager='touch a' log",
        "git remote add a b",
        "curl -o f https://example.org",
        "curl -sO https://example.org/f",
        "curl -XPOST https://example.org",
        "curl -d a=b https://example.org",
        "curl -T f https://example.org",
        "wget https://example.org/f",
        "tar xf a.tgz",
        "tar cf a.tgz b",
        "unzip a.zip",
        "gzip a",
        "dd if=a of=b",
        "date -s now",
        "date 010203042024",
        "hostname new",
        "ip link set eth0 up",
        "ip addr add 10.0.0.1/8 dev eth0",
        "sysctl -w a=1",
        "sysctl a=1",
        "systemctl stop nginx",
        "docker rm a",
        "docker run img",
        "kubectl delete pod a",
        "kubectl apply -f a",
        "psql -c 'delete from t'",
        "psql -f a.sql",
        "psql",
        "sqlite3 a.db 'drop table t'",
        "python3 -c 1",
        "python3 a.py",
        "bash -c ls",
        "sh a.sh",
        "perl -pe1 a",
        "t=touch; $t a",
        "$(echo touch) a",
        "t''ouch a",
        "echo a & ",
        "f() { touch a; }; f",
        "LD_PRELOAD=a ls",
        "terraform apply",
        "npm install",
        "pip install a",
        "crontab -r",
        "ulimit -n 5",
        "tee a",
        "truncate -s0 a",
        "chmod 600 a",
        "jq -i . a",
        "yq -i .a b",
        "exiftool -Artist=x a.jpg",
        "aws s3 rm s3://a/b",
        "aws s3 cp a b",
        "nonsense",
        "cat <(touch a)",
        "diff a >(tee b)",
        "echo `touch a`",
        "ls; touch a",
        "if touch a; then ls; fi",
        'while read l; do touch "$l"; done',
        "watch touch a",
        "time touch a",
        "cat </dev/tcp/host/1",
        "less -o out a",
        "ls 'a",
        "",
        "yarn",
        "stty -echo",
        "ionice -c1 -p 1",
        "taskset -p 3 1234",
    ],
)
def test_writing_is_refused_side_doors_included(command: str) -> None:
    assert judge_readonly_shell(command)


def test_the_operator_can_add_readers() -> None:
    assert judge_readonly_shell("inventory list")
    assert judge_readonly_shell("inventory list", ReadonlyRules(readers=("inventory",))) == ()


def test_argument_lists_are_judged_word_by_word() -> None:
    assert judge_readonly_shell(["grep", "a > b", "notes"]) == ()
    assert judge_readonly_shell(["touch", "a"])


@each_case(
    "sql",
    [
        "SELECT 1",
        "select a, count(*) from t group by a having count(*) > 1 order by 2 limit 5;",
        "SELECT * FROM t WHERE note = 'drop table x'",
        "WITH recent AS (SELECT * FROM t) SELECT * FROM recent JOIN u USING (id)",
        "SELECT 1 UNION ALL SELECT 2",
        "VALUES (1), (2)",
        "EXPLAIN SELECT * FROM t",
        "EXPLAIN QUERY PLAN SELECT * FROM t",
        "SHOW TABLES",
        "DESCRIBE t",
        "PRAGMA table_info(t)",
        "PRAGMA user_version",
        "SELECT replace(a, 'x', 'y') FROM t",
        "SELECT `a` FROM `t`",
        'SELECT "delete" FROM "update"',
        "SELECT * FROM t -- insert nothing",
        "SELECT row_number() OVER (PARTITION BY a ORDER BY b) FROM t",
        "SELECT data->>'a' FROM t",
        "SELECT TOP 3 * FROM [dbo].[t]",
        "SELECT 1; SELECT 2",
        "select coalesce(max(updated_at), now()) from t",
    ],
)
def test_sql_that_reads_passes(sql: str) -> None:
    assert judge_readonly_sql(sql) == ()


@each_case(
    "sql",
    [
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "DROP TABLE t",
        "ALTER TABLE t ADD a int",
        "CREATE TABLE t (a int)",
        "TRUNCATE t",
        "REPLACE INTO t VALUES (1)",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "GRANT ALL ON t TO u",
        "SELECT 1; DELETE FROM t",
        "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d",
        "SELECT * INTO copy FROM t",
        "SELECT a FROM t INTO OUTFILE '/tmp/a'",
        "SELECT * FROM t FOR UPDATE",
        "COPY t TO PROGRAM 'prog'",
        "COPY t FROM '/tmp/a'",
        "EXPLAIN ANALYZE DELETE FROM t",
        "CALL p()",
        "EXEC p",
        "DO $$ BEGIN DELETE FROM t; END $$",
        "SET x = 1",
        "ATTACH 'a' AS b",
        "VACUUM",
        "PRAGMA journal_mode = wal",
        "PRAGMA writable_schema = 1",
        "SELECT nextval('s')",
        "SELECT setval('s', 1)",
        "SELECT pg_sleep(9)",
        "SELECT lo_export(1, '/tmp/a')",
        "SELECT load_extension('a')",
        "SELECT dblink('c', 'delete from t')",
        "SELECT purge_all()",
        "/*!50000 DROP TABLE t */",
        "SELECT '\\'; DELETE FROM t; --'",
        "SELECT 1 # \n; DELETE FROM t",
        "LOCK TABLE t",
        "KILL 5",
        "NOTIFY a",
        "SELECT @a := 1",
        "REFRESH MATERIALIZED VIEW v",
        "PREPARE p AS DELETE FROM t",
        "nonsense",
        "",
        ";",
        "SELECT 1 FROM",
        "SELECT 1\x00",
        "BEGIN",
        "USE other",
        "LOAD DATA INFILE 'a' INTO TABLE t",
        "SELECT dbms_lock.sleep(5) FROM dual",
    ],
)
def test_sql_that_writes_or_cannot_be_read_is_refused(sql: str) -> None:
    assert judge_readonly_sql(sql)


def test_a_known_dialect_is_read_as_that_dialect_alone() -> None:
    text = "SELECT 'a\\'; DROP TABLE t; --'"
    assert judge_readonly_sql(text, "mysql") == ()
    assert judge_readonly_sql(text)


@each_case(
    ("command", "rule"),
    [
        ("find . {-name,x,-delete}", "readonly.writes"),
        ("sort {-o,out} x", "readonly.writes"),
        ("sort -{o,u} out x", "readonly.writes"),
        ("sed -{i,n} p f", "readonly.writes"),
        ("find . $(echo -delete)", "readonly.writes"),
        ("find . ${x:--delete}", "readonly.writes"),
        ("find . $(cat f)", "readonly.nested"),
        ("find . x$(cat f)", "readonly.nested"),
        ('sort "$(cat f)"', "readonly.nested"),
        ("while read f; do sort $f; done < l", "readonly.nested"),
        ("ls " + "{a,b}" * 40, "readonly.too_many"),
    ],
)
def test_words_that_the_shell_makes_are_judged(command: str, rule: str) -> None:
    assert rule in {finding.rule for finding in judge_readonly_shell(command)}


@each_case(
    "command",
    [
        "ls src/{a,b}",
        "wc -l $(cat list)",
        "git diff $(git merge-base main HEAD)",
        'find "$(pwd)" -name x',
        'find . -name "x$(date +%Y)"',
        'ls *.json | while read f; do jq . "$f"; done',
        "sort ${FILE:-a.txt}",
    ],
)
def test_words_that_cannot_write_pass(command: str) -> None:
    assert judge_readonly_shell(command) == ()


def test_a_finding_marks_its_part_behind_leading_blanks() -> None:
    text = "  touch a"
    (finding,) = judge_readonly_shell(text)
    assert finding.span is not None
    assert text[slice(*finding.span)] == "touch a"
