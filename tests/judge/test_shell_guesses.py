"""Commands in the arguments of programs that no row describes, and of runners that a table forgets easily."""

from __future__ import annotations

import shlex

from cases import each_case
from interlock.judge.shell import ShellRules, judge_shell

EVERYDAY = ShellRules(everyday=True)
HARM = ("sudo reboot", "rm -rf ~/work", "cat .env")
BEHIND = """
nobody-listed exec
nobody-listed run
nobody-listed --
nobody-listed ssh host
nobody-listed -n 3 --flag value
nobody-listed run:detached
nobody-listed exec-env file.yaml
find . -exec
find . -type f -execdir
find . -ok
yarn workspace web exec
yarn workspaces foreach -A exec
mamba run -n env
sem -j 2
mosh host --
autossh -M 0 host
ctr t exec --exec-id a c
ctr run --rm alpine a
heroku run:detached
heroku local:run
tmux attach \\; neww
nix run nixpkgs#hello --
uvx --from x
uv tool run --from x
pipx run --spec x
k exec pod --
k3s kubectl exec pod --
docker-compose exec web
podman machine ssh
nerdctl compose exec web
gh codespace ssh -c name --
gem exec
rustup run nightly
hatch run
hatch env run -e dev --
devbox shell --
cargo make exec --
cmake -E env
fakeroot -s file --
flatpak-spawn --host
lima
plink host
rbenv exec
opam exec --
stack exec --
lerna exec --
npx env-cmd -f x.env
wait-for-it.sh db:5432 -t 5 --
zellij run --
kitty @ launch
nomad alloc exec a
tsh ssh user@host
pct exec 100 --
coz run ---
""".strip().splitlines()
QUOTED = """
nobody-listed exec {}
nobody-listed --command={}
nobody-listed --ssh-command {}
nobody-listed -x {}
nobody-listed -- {}
tmux attach \\; neww {}
byobu new -d {}
sem --fg {}
autossh -M 0 host {}
cargo-watch -s {}
concurrently ls {}
watchfiles {} src
npx start-server-and-test {} http://localhost test
npm pkg set scripts.test={}
npx husky add .husky/pre-commit {}
composer config scripts.x {}
gh alias set --shell x {}
gh cs ssh {}
doppler run --command={}
pueue add {}
parallel-ssh -H host {}
cross-env-shell A=1 {}
kitty @ send-text {}
sops exec-env file.yaml {}
bun exec {}
pm2 start {}
""".strip().splitlines()
FORMS = [f"{form} {harm}" for form in BEHIND for harm in HARM]
FORMS += [form.format(shlex.quote(harm)) for form in QUOTED for harm in HARM]
NOT_FOLLOWED = """
declare -n y=x; y=-rf; rm ${x[0]} ~/work
declare -n y=x; : ${y:=-rf}; rm $x ~/work
declare -n y=x; : ${y:=-rf}; export x; bash -c 'rm ${x[0]} ~/work'
y=-rf; typeset -n x=y; ssh host "rm $x ~/work"
printf -v "$n" %s -rf; rm $x ~/work
x=$(cat list); tmux new "rm $x ~/work"
x=$(cat list); npm exec -c "rm $x ~/work"
x=$(cat list); script -qc "rm $x ~/work" /dev/null
x=$(cat list); nobody-listed exec "rm $x ~/work"
x=$(cat list); nobody-listed exec rm $x ~/work
nix run github:somebody/tool
nix run nixpkgs#bash -- -c ls
kak -e '%sh{ls}' file
hatch run test:sudo reboot
hatch run test:cat .env
yarn config set yarnPath ./other.cjs
hatch run +py=3.11 reboot
npm explore lodash reboot
npm set-script test reboot
npm --workspace exec x -c reboot
pnpm --filter exec dlx kill -9 -1
bear --library ls -- sudo reboot
flatpak-spawn --sandbox-expose ls -- sudo reboot
lima --workdir ls -- sudo reboot
ctr tasks -x 'a;' exec --exec-id a c sudo reboot
""".strip().splitlines()
ORDINARY = """
nobody-listed history --all
nobody-listed format --check src
nobody-listed install sudo bash git
nobody-listed info sudo
nobody-listed run format --all
nobody-listed copy path/to/source path/to/target
nobody-listed --message "source maps are broken; sudo is not needed"
nobody-listed exec npm test
nobody-listed -- make test
nobody-listed reboot
dune exec ./main.exe
direnv exec . make
devcontainer exec --workspace-folder . npm test
cargo build --target x86_64-unknown-linux-gnu
cp sudo.md docs/
yarn workspace web exec tsc --noEmit
uvx --from httpie http --help
hatch run +py=3.11 pytest
npm pkg set scripts.test="vitest run"
npx husky add .husky/pre-commit "npm test"
gh alias set co "pr checkout"
mosh host
autossh -M 0 -N -L 5432:localhost:5432 host
find . -name sudo -print
find . -name node -prune -o -name '*.js' -print
k get pods
jupyter nbconvert --to script a.ipynb
x=$(git rev-parse HEAD); tmux send-keys -t dev "git show $x" Enter
""".strip().splitlines()


@each_case("command", FORMS)
def test_harm_behind_any_runner_is_found(command: str) -> None:
    assert judge_shell(command, EVERYDAY)


@each_case("command", NOT_FOLLOWED)
def test_values_behind_references_and_in_texts_of_runners_are_not_trusted(command: str) -> None:
    assert judge_shell(command, EVERYDAY)


@each_case("command", ORDINARY)
def test_names_of_programs_that_are_verbs_or_operands_pass(command: str) -> None:
    assert judge_shell(command, EVERYDAY) == ()


def test_a_guess_is_no_excuse_and_counts_for_simple_commands_too() -> None:
    assert judge_shell("nobody-listed exec sudo reboot")
    assert judge_shell(["nobody-listed", "exec", "sudo", "reboot"])
    assert judge_shell("nobody-listed exec npm test") == ()
