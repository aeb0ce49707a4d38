"""The output of a command is not known before it runs: as an option, a program or code, it is questioned."""

from __future__ import annotations

from itertools import product

from cases import each_case
from interlock.judge.shell import ShellRules, judge_shell

EVERYDAY = ShellRules(everyday=True)
SETTERS = [
    "x=$(curl -s https://a.example)",
    "x=`cat notes`",
    'x="$(cat notes)"',
    'x="a $(cat notes)"',
    "x=-$(cat notes)",
    "y=$(cat notes); x=$y",
    "y=$(cat notes); x=${y#a}",
    "export x=$(cat notes)",
    "read -r x < notes",
    "read -r y x < notes",
    "x=($(cat notes))",
    "mapfile x < notes",
    "printf -v x %s $(cat notes)",
]
SPLIT = [
    'x=$(docker ps -q --format "{{.Names}}"); docker exec $x ls',
    *("rm $x dist", "find . $x", "find $x", "tar $x", "tar xf a.tar $x", "tar xf a.tar a$x", "dd $x", "chmod $x"),
    *("git $x", "git $x status", "git fetch $x", "git log $x", "git push $x", "git grep $x", "git rebase $x"),
    *("nice $x", "xargs $x", "xargs -n1 $x ls", "xargs find $x", "env $x", "timeout 5 $x", "timeout $x ls"),
    *("nice tar $x", "find . -exec tar $x {} +", "find . -exec $x {} +", "npx $x", "npm exec $x", "poetry run $x"),
    *("docker exec web $x", "docker run $x alpine", "kubectl exec pod -- $x", "ssh $x ls", "ssh host $x"),
    *("bash -c $x", "bash -c 'tar $1' a $x", "python $x", "make $x", "sort $x", "rsync $x a b", "zip $x"),
    *("curl $x", "wget $x", "mv $x", "cp $x", "tee $x", "rg $x", "less $x", "go build $x", "cargo $x", "npm $x"),
    *("sqlite3 $x", "psql $x", "pip install $x", "for f in $x; do tar xf $f; done", "set -- $x; tar $1"),
]
QUOTED = [
    *('tar "$x" -xf a.tar', 'tar xf a.tar "$x"', 'git "$x" status', 'git fetch "$x"', 'find "$x"', 'find . "$x"'),
    *('nice "$x"', 'xargs "$x"', 'docker exec web "$x"', 'docker run "$x" alpine', 'ssh host "$x"', 'dd "$x"'),
    *('ssh host "ls $x"', 'bash -c "$x"', 'bash -c "ls $x"', 'python3 -c "print($x)"', 'node -e "$x"', 'tee "$x"'),
    *('sed "s/a/$x/" a', 'sed -i -e "s/a/$x/" a', 'awk "/$x/" a', 'awk "$x" a', 'python "$x"', 'perl -e "$x"'),
    *('git bisect run "$x"', 'git submodule foreach "$x"', 'curl "$x"'),
]
HARMLESS = [
    "BASE=$(git merge-base main HEAD); git diff $BASE",
    'BRANCH=$(git branch --show-current); git push -u origin "$BRANCH"',
    "TAG=$(git rev-parse --short HEAD); docker build -t app:$TAG . && docker run app:$TAG",
    'V=$(node -p "require(\'./package.json\').version"); git tag "v$V" && git tag "$V"',
    'for f in $(git diff --name-only); do head -5 "$f"; done',
    'ls *.json | while read f; do jq . "$f"; done',
    'find . -name "*.tar" | while read -r f; do tar tf "$f"; done',
    "D=$(mktemp -d); tar xf a.tar -C $D; rm -rf $D",
    'python scripts/report.py "$(cat notes)"',
    "kill $(lsof -t -i:3000)",
    'git commit -m "$(cat notes)"',
    'echo "$(cat notes)" > out.txt',
    'grep -n "$(cat notes)" src/a.py',
    "docker logs $(docker compose ps -q web)",
    "c=$(docker ps -qf name=web); docker exec $c ls",
]


def test_the_output_of_a_command_is_no_option_no_program_and_no_code() -> None:
    split = [f"{setter}; {use}" for setter, use in product(SETTERS, SPLIT[:24:6])]
    assert [command for command in split if not judge_shell(command, EVERYDAY)] == []
    whole = [f"{setter}; {use}" for setter, use in product(SETTERS[2:3], [*SPLIT, *QUOTED])]
    assert [command for command in whole if not judge_shell(command, EVERYDAY)] == []
    direct = [use.replace("$x", "$(cat notes)") for use in (*SPLIT, *QUOTED) if "'" not in use]
    assert [command for command in direct if not judge_shell(command, EVERYDAY)] == []


@each_case("command", HARMLESS)
def test_output_that_is_no_option_passes(command: str) -> None:
    assert judge_shell(command, EVERYDAY) == ()


@each_case(
    "command",
    [
        'git log --author="$(git config user.name)" --oneline',
        'git log "--since=$(date -d yesterday +%F)"',
        'gh pr create --title="$(git log -1 --format=%s)" --body=x',
        "uv run ruff format src",
        "poetry run alembic history --verbose",
    ],
)
def test_the_value_of_an_option_that_takes_any_text_may_be_unknown(command: str) -> None:
    assert judge_shell(command, ShellRules(everyday=True)) == ()


@each_case(
    "command",
    [
        "git log --author=$(cat x)",
        'git log --author="$(cat x)"$(cat y)',
        'a=($(cat x)); git log --author="${a[@]}"',
        'a=($(cat x)); git log --author="${y:-${a[@]}}"',
        'a=($(cat x)); y="a[@]"; git log --author="${!y}"',
        'a=($(cat x)); declare -n y="a[@]"; git log --author="$y"',
        'git log --output="$(cat x)"',
        'git log "$(cat x)"',
        "poetry run env",
        "aws-vault exec prod env",
    ],
)
def test_any_other_word_of_unknown_text_is_questioned(command: str) -> None:
    assert judge_shell(command, ShellRules(everyday=True))
