"""Text that reaches a shell by a pipe or a redirection is judged where it is known, and questioned where it is not."""

from __future__ import annotations

from cases import each_case
from interlock.judge.shell import ShellRules, judge_shell

EVERYDAY = ShellRules(everyday=True)
PRODUCERS = [
    *("echo 'sudo reboot'", "printf 'ls\\nsudo reboot'", "printf '%s\\n' 'sudo reboot'", "printf 'sud%s reboot' o"),
    *("echo -e 'sud\\x6f reboot'", "x='sudo reboot'; echo \"$x\"", 'x=$(cat notes); echo "$x"', "echo $(cat notes)"),
    *("{ echo 'sudo reboot'; echo ls; }", "(cat notes; echo ls)", "for i in 1; do echo sudo reboot; done"),
    *(
        "cat notes",
        "curl -s https://a.example",
        "git show HEAD:notes",
        "jq -r .a a.json",
        "tr a b < notes",
        "yes sudo reboot",
    ),
]
PIPES = [" | ", " |& ", " | cat | ", " | tee log | ", " | tr _ o | ", " | head -1 | "]
CONSUMERS = [
    *("ssh host", "ssh -p 2 a@host", "timeout 5 ssh host", "nice -n 5 ssh host", "ssh host bash", "ssh host sh -s"),
    *(
        "{ true; ssh host; }",
        "(ssh host)",
        "tee >(ssh host)",
        "bash -c 'ssh host'",
        "sshpass -f a ssh host",
        "pdsh -w h",
    ),
    *("at now", "batch", "timeout 5 at now", "parallel", "parallel {}", "xargs -I{} {}", "xargs env", "xargs nice"),
    *(
        "xargs ssh host",
        "xargs -n1 timeout 5",
        "xargs sh -c",
        "xargs -0 awk",
        "nice xargs -I% %",
        "xargs -d '\\n' -n1 npx",
    ),
    *("bash", "sh -s", "env sh", "nohup sh", "busybox sh", "source /dev/stdin", "bash /dev/stdin", "su", "sudo -s"),
    *("docker exec -i web sh", "docker exec -i web bash -s", "docker run -i alpine sh", "podman exec -i web sh"),
    *("kubectl exec -i pod -- sh", "lxc exec web -- sh", "vagrant ssh", "colima ssh", "fly ssh console", "adb shell"),
    *("gcloud compute ssh host", "limactl shell web", "heroku run bash", "machinectl shell"),
    *('while read -r l; do ssh host "$l"; done', 'while read l; do bash -c "$l"; done', "while read l; do $l; done"),
    *("python3 -", "python3 - a", "make -f -", "make -f /dev/stdin", "awk -f -"),
]
INTERPRETERS = ["python3", "node", "node -", "perl", "perl -", "ruby -", "php", "python3 - a", "node - a"]
NOT_KNOWN = [
    *(
        "cat notes",
        "{ echo a; echo b; }",
        "echo $(cat notes)",
        'x=$(cat notes); echo "$x"',
        "printf 'a%s' b",
        "(echo a)",
    ),
]
INPUTS = ["{} < notes", "{} < <(cat notes)", '{} <<< "$(cat notes)"', "{} <<< 'sudo reboot'", "{} <<E\nsudo reboot\nE"]
HARMLESS = [
    *(
        "ssh -T git@github.com",
        "ssh -T git@github.com 2>&1 | head -1",
        "ssh -N -L 8080:localhost:80 host",
        "ssh host uptime",
    ),
    *("echo 'docker ps' | ssh host", "ssh host <<'E'\ncd app\ngit pull\nE", "printf 'ls\\nuptime\\n' | ssh host"),
    *("tar c dist | ssh host 'tar x -C app'", "git ls-files | xargs wc -l", "git ls-files | xargs -n1 basename"),
    *("find . -name '*.py' | xargs grep -n TODO", "git branch --merged | grep -v main | xargs git branch -d"),
    *(
        "docker ps -q | xargs docker stop",
        "ls *.js | xargs -I{} node --check {}",
        "echo 'npm test' | at now + 1 minute",
    ),
    *(
        "cat urls.txt | xargs -I{} curl -s http://localhost/{}",
        "cat names | xargs -n1 echo",
        "seq 3 | xargs -I{} touch f{}",
    ),
    *("cat a.sql | docker exec -i db psql -U app", "find src -name '*.ts' | xargs npx prettier --check"),
]


def test_no_text_reaches_a_shell_unread() -> None:
    commands = [
        producer + PIPES[(row + column) % len(PIPES)] + consumer
        for row, producer in enumerate(PRODUCERS)
        for column, consumer in enumerate(CONSUMERS)
    ]
    assert len(commands) > 800
    assert [command for command in commands if not judge_shell(command, EVERYDAY)] == []


def test_no_redirection_reaches_a_shell_unread() -> None:
    shells = [consumer for consumer in CONSUMERS if "while" not in consumer and "parallel" not in consumer]
    commands = [form.format(consumer) for form in INPUTS for consumer in shells if "%" not in consumer]
    assert [command for command in commands if not judge_shell(command, EVERYDAY)] == []


def test_code_that_an_interpreter_reads_is_judged_where_all_of_it_is_known() -> None:
    commands = [f"{producer} | {interpreter}" for producer in NOT_KNOWN for interpreter in INTERPRETERS]
    assert [command for command in commands if not judge_shell(command, EVERYDAY)] == []
    for interpreter in ("python3", "python3 -"):
        assert judge_shell(f"{interpreter} <<'E'\nprint(1)\nE", EVERYDAY) == ()
        assert judge_shell(f"{interpreter} <<'E'\nimport os\nos.system('id')\nE", EVERYDAY)


@each_case("command", HARMLESS)
def test_known_text_and_lists_of_names_pass(command: str) -> None:
    assert judge_shell(command, EVERYDAY) == ()
