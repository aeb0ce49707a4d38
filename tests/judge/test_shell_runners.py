"""Programs that run a command for another: in a terminal, in a container, by a shell of their own or for each input."""

from __future__ import annotations

from cases import each_case
from interlock.judge.shell import ShellRules, judge_shell

EVERYDAY = ShellRules(everyday=True)
HARMFUL = [
    "tmux new -d 'sudo reboot'",
    "tmux new -d -s a 'sudo reboot'",
    "tmux send-keys -t a 'sudo reboot' Enter",
    "tmux send -t a 'sudo reboot' C-m",
    "tmux new-window 'sudo reboot'",
    "tmux splitw 'sudo reboot'",
    "tmux -L x new -d 'sudo reboot'",
    "tmux -c 'sudo reboot'",
    "tmux -f evil.conf new -d",
    "tmux source-file evil.conf",
    "tmux set-option -g default-command 'sudo reboot'",
    "tmux bind x run-shell 'sudo reboot'",
    "tmux set-hook -g after-new-session 'run \"sudo reboot\"'",
    "tmux pipe-pane -t a 'sudo reboot'",
    "tmux respawn-pane -k 'sudo reboot'",
    "vagrant ssh -c 'sudo reboot'",
    "vagrant ssh --command 'sudo reboot'",
    "vagrant ssh web -c 'sudo reboot'",
    "vagrant ssh -- -oProxyCommand=x",
    "nix develop -c sudo reboot",
    "flyctl ssh console -C 'sudo reboot'",
    "fly ssh console -C 'sudo reboot'",
    "fly ssh console --command 'sudo reboot'",
    "flyctl ssh console -a app -C 'sudo reboot'",
    "fly machine exec 1 'sudo reboot'",
    "npm exec -c 'sudo reboot'",
    "npm exec --call='sudo reboot'",
    "npm x -c 'sudo reboot'",
    "pnpm dlx -c 'sudo reboot'",
    "pnpm exec -c 'sudo reboot'",
    "screen -c evil -dm",
    "script -qc 'sudo reboot'",
    "script -qec 'sudo reboot' /dev/null",
    "env -iS 'sudo reboot'",
    "env -vS 'sudo reboot'",
    "parallel ::: 'sudo reboot'",
    "cargo watch -x run -s 'sudo reboot'",
    "cargo watch -s 'sudo reboot'",
    "concurrently 'sudo reboot'",
    "npx concurrently 'sudo reboot' ls",
    "docker exec -e A=1 -e B=2 -e C=3 web sudo reboot",
    "docker exec -e A=1 -e B=2 -e C=3 -e D=4 web sudo reboot",
    "docker --context x exec web sudo reboot",
    "kubectl -n prod exec pod sudo reboot",
    "kubectl -n prod exec pod -- sudo reboot",
    "tmux new -d -s a -n b -x 80 -y 24 'sudo reboot'",
    "tmux new -d ';' neww 'sudo reboot'",
    "tmux send-keys -t a 'su' 'do reboot' Enter",
    "tmux send-keys -t a 'su'",
    "tmux send-keys -H 73",
    "npx -p evil rimraf dist",
    "npx -p evil -c 'sudo reboot'",
    "screen -dm sudo reboot",
    "screen -dmS a sudo reboot",
    "screen -d -m bash -c 'sudo reboot'",
    "screen -S a -X stuff 'sudo reboot'",
    "screen -S a -p 0 -X stuff $'sudo reboot\\n'",
    "script -c 'sudo reboot' /dev/null",
    "script --command='sudo reboot'",
    "script -q /dev/null sudo reboot",
    "watch 'sudo reboot'",
    "watch sudo reboot",
    "watch -n 1 -x sudo reboot",
    "watch -g 'ls; sudo reboot'",
    "env -S 'sudo reboot'",
    "env -S'sudo reboot'",
    "env -S 'x=1 sudo' reboot",
    "git -c core.pager='sudo reboot' log",
    "git -c alias.x='!sudo reboot' x",
    "make -f /dev/stdin",
    "make -f -",
    "make -f- all",
    "make --makefile=/dev/fd/0",
    "make -f <(cat x)",
    "watchexec 'sudo reboot'",
    "watchexec -- sudo reboot",
]
HARMLESS = [
    "tmux new-session -d -s dev 'npm run dev'",
    "tmux send-keys -t dev 'npm test' Enter",
    "tmux send-keys -t dev C-c",
    "tmux ls",
    "tmux kill-session -t dev",
    "tmux capture-pane -p -t dev",
    "vagrant ssh -c 'cd /vagrant && make test'",
    'npx concurrently "npm run a" "npm run b"',
    "npm exec -- eslint .",
    "pnpm exec eslint src",
    "docker exec -e A=1 web env A=2 ls",
    "script -qc 'npm test' /dev/null",
    "watch -n 2 docker ps",
    "env -S 'A=1 npm test'",
    "fly ssh console -C 'ls -la'",
    "screen -dmS dev npm run dev",
]


@each_case("command", HARMFUL)
def test_a_command_that_another_program_runs_is_judged(command: str) -> None:
    assert judge_shell(command, EVERYDAY)


@each_case("command", HARMLESS)
def test_everyday_commands_that_another_program_runs_pass(command: str) -> None:
    assert judge_shell(command, EVERYDAY) == ()
