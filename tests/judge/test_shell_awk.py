"""An awk program is judged by what it runs, writes and reads, and questioned where its text is not in the command."""

from __future__ import annotations

from cases import each_case
from interlock.judge.readonly import judge_readonly_shell
from interlock.judge.shell import ShellRules, judge_shell
from processor_work import work_of

EVERYDAY = ShellRules(everyday=True)
RUNS = [
    *(
        'BEGIN { system("id") }',
        'BEGIN { system ("id") }',
        "BEGIN { system\\\n(x) }",
        'BEGIN { f = "system"; @f("id") }',
    ),
    *('BEGIN { "id" | getline x; print x }', '{ print $1 | "sh" }', '{ print |& "sh" }', '@load "a"; BEGIN {}'),
    # Quotes and slashes in patterns, remarks and divisions hide no pipe.
    *('/"/ { print $1 | "sh" }', '# "\n{ print $1 | "sh" }', '{ y = x \\\n/ 1; print | "sh"; z = 1 / 1 }'),
    *('{ y = 1./ 1; print | "sh"; z = 1 / 1 }', '{ if (1) /"/; print | "sh" }', '/[/"]/ { print $1 | "sh" }'),
    *(
        '{ y = (1) / 1; print "a" | "sh"; z = 2 / 1 }',
        '{ y = a[1] / 1; print | "sh"; z = 1 / 1 }',
        '/\\/"/ { print | "sh" }',
    ),
    *('BEGIN { x = 1system("id") }', '/a/ /"/ { print | "sh" }', '{ 0x /=/; print "a" | "sh"; "a" }'),
    '{ x++ /"/; print "a" | "sh" }',
    *('{ y = x++ / 1; print | "sh"; z = 1 / 1 }', '{ switch (x) { case /"/: print | "sh" } }'),
]
HARMLESS = [
    *("{print $1}", "NR>1 && $3 ~ /a|b/ {print $2}", '/"name"/ {print $4}', 'BEGIN {FS="|"} {print $1 "|" $2}'),
    *(
        "{s+=$1} END {print s/NR}",
        "!seen[$0]++",
        '$1 == "systemd" || /systemd/ {n++} END {print n}',
        "/^---$/{p=!p; next} p",
    ),
    *(
        "{ print $1 / 2, $2 / 3 }",
        '{printf "%s | %s\\n", $1, $2}',
        "NR==FNR {a[$1]; next} ($1 in a)",
        "# a | b\n{ print }",
    ),
    *('{print > "/dev/stderr"}', "length($0) > 120", '{gsub(/["|]/, ""); print}', "/start/,/end/"),
]
SEPARATED = ["awk -F'|' '{print $2}' data", "awk -F '\\t' '{print $2}' data", "gawk -F: '{print $1 \"|\" $2}' data"]
ELSEWHERE = [
    *(
        "awk -f a.awk data",
        "awk -fa.awk data",
        "awk --file=a.awk data",
        "cat a | awk -f -",
        "awk -f <(cat a) data",
        "gawk -i a '{}'",
    ),
    *('awk "$PROGRAM" data', "awk $PROGRAM data", 'p=$(cat a); awk "$p" data', "awk $(cat a) data", "mawk -W exec a"),
    *("gawk -E a", "gawk -l a 'BEGIN {}'", 'p=\'BEGIN{system("id")}\'; awk "$p"', 'awk "{ print $(cat a) }" data'),
    *("awk -- '-F{} BEGIN{\"id\" | getline x}'", 'awk -- \'-F"1"; BEGIN {ARGV[1] = ".env"; ARGC = 2}\''),
    "gawk -e 'BEGIN { print 1 \\' -e '-F | \"sh\" }'",
    "gawk -Pe 'BEGIN { print 1 \\' --sour '-F | \"sh\" }'",
    *("awk '{ getline x < \".env\"; print x }' data", "awk 'BEGIN { while ((getline x < \"id_rsa\") > 0) print x }'"),
]


@each_case("program", RUNS)
def test_a_program_that_runs_commands_is_questioned_by_any_awk(program: str) -> None:
    quoted = program.replace("'", "'\\''")
    for name in ("awk", "gawk", "original-awk", "busybox awk", "mawk -F: -v a=b"):
        assert judge_shell(f"{name} '{quoted}' data", EVERYDAY), name
    assert judge_readonly_shell(f"awk '{quoted}' data")


@each_case("program", HARMLESS)
def test_a_program_that_only_prints_passes(program: str) -> None:
    assert judge_shell(f"awk '{program}' data", EVERYDAY) == ()
    assert judge_readonly_shell(f"awk '{program}' data") == ()


@each_case("command", SEPARATED)
def test_a_separator_is_no_program(command: str) -> None:
    assert judge_shell(command, EVERYDAY) == ()
    assert judge_shell(command.replace("{print", '{print | "sh"; print'), EVERYDAY)


@each_case("command", ELSEWHERE)
def test_a_program_from_elsewhere_or_that_reads_secrets_is_questioned(command: str) -> None:
    assert judge_shell(command, EVERYDAY)


@each_case(
    "program",
    [
        '{ print > "a" }',
        '{ y = x++ /\\/ 1; print a[1]>"a"; t = x /2 }',
        '/x/ || 1 { y = x++ /2//1; print > "a" }',
        '{ printf "%s",\n1 >> "a" }',
        '{ print 1 &&\n2 > "a" }',
        "{ print " + "1 " * 400 + '> "a" }',
    ],
)
def test_a_program_that_writes_is_questioned_however_its_slashes_are_read(program: str) -> None:
    assert {finding.rule for finding in judge_shell(["awk", program, "data"], EVERYDAY)} == {"shell.writes"}


@each_case(
    "token", [";" * 3_000 + "print" * 900, "print" * 1_500, "|" * 7_000, "print>" * 1_200, "print" * 800 + ">" * 3_000]
)
def test_t38_a_long_pattern_costs_no_more_than_its_length(token: str) -> None:
    assert work_of(lambda: judge_shell(f"awk '/{token}/ {{ x > 1 }}' file", EVERYDAY)) < 5_000_000
