"""`interlock secrets`, and tokens in the files that are imported."""

from __future__ import annotations

import json
import sys

import pytest

from interlock.config.load import load

from .conftest import User

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def test_a_secret_is_stored_used_rotated_and_removed_and_never_shown(user: User) -> None:
    user.configure('[servers.a]\nurl = "https://a.example"\nheaders = { X-Key = "${secret:a-key}" }\n')
    said = [user.run("secrets", "set", "a-key", stdin="first-value\n").output]
    assert load(user.config, home=user.home).config.servers["a"].headers == {"X-Key": "first-value"}
    refused = user.run("secrets", "set", "a-key", stdin="other")
    assert refused.exit_code == 2
    assert "rotate" in refused.output
    said.append(user.run("secrets", "rotate", "a-key", stdin="second-value").output)
    assert load(user.config, home=user.home).config.servers["a"].headers == {"X-Key": "second-value"}
    assert json.loads(user.run("secrets", "list", "--json").output) == ["a-key"]
    said.append(user.run("secrets", "list").output)
    assert user.run("secrets", "remove", "a-key").exit_code == 0
    assert user.run("secrets", "remove", "a-key").exit_code == 2
    (problem,) = load(user.config, home=user.home).problems
    assert "interlock secrets set a-key" in problem.hint
    assert "-value" not in "".join(said)


def test_import_moves_plain_tokens_and_warns_of_a_file_that_all_can_read(user: User) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Plain": "yes"}
    file = user.folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"code": {"url": "https://a.example", "headers": headers}}}))
    file.chmod(0o644)
    kept = user.run("import", "--yes", "--move-secrets", str(file))
    assert kept.exit_code == 0, kept.output
    if sys.platform != "win32":
        assert "every user of this machine can read" in kept.output
    assert TOKEN not in user.config.read_text()
    assert "Bearer ${secret:code-authorization}" in user.config.read_text()
    assert load(user.config, home=user.home).config.servers["code"].headers == headers
    assert TOKEN.encode() not in (user.home / "secrets.json").read_bytes()


def test_import_moves_tokens_of_arguments_and_addresses_and_names_those_that_stay(user: User) -> None:
    command = ["npx", "-y", "server@1.0", "--token", "t0ken-one", "--api-key=t0ken-two", "--verbose", f"user:{TOKEN}"]
    remote = ["npx", "-y", "mcp-remote", "https://a.example/mcp?apiKey=t0ken-three&page=2", "--header"]
    remote += ["Authorization: Bearer t0ken-four", "-e", "API_KEY=t0ken-five", "--auth-token", "${PLAIN}"]
    remote += ["postgresql://me:t0ken-eight@a.example/db"]
    urls = {"query": "https://a.example/mcp?api_key=t0ken-six&api_key=t0ken-seven#x"}
    servers: dict[str, object] = {
        name: {"command": words[0], "args": words[1:]} for name, words in {"local": command, "remote": remote}.items()
    }
    servers |= {name: {"url": url} for name, url in urls.items()}
    file = user.folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    user.configure()
    user.config.chmod(0o644)
    stayed = user.run("import", "--yes", "--trust", "--keep-secrets", str(file))
    for words in ("(token, api-key, github_token)", "(apiKey, Authorization, API_KEY, url_password)", "(api_key)"):
        assert words in stayed.output
    if sys.platform != "win32":
        assert f"can read {user.config} with the tokens of `local`, `remote`, `query`" in stayed.output
    user.config.write_text("")
    moved = user.run("import", "--yes", "--trust", "--move-secrets", str(file))
    assert moved.exit_code == 0, moved.output
    text = user.config.read_text()
    for secret in ("t0ken", TOKEN):
        assert secret not in text
        assert secret not in stayed.output + moved.output
    assert str(user.config) + " with" not in moved.output
    assert "Authorization: Bearer ${secret:remote-authorization}" in text
    assert "${PLAIN}" in text
    # The programs and addresses get the same words as before.
    loaded = load(user.config, home=user.home, environ={"PLAIN": "plain"}).config.servers
    assert loaded["local"].command == tuple(command)
    assert loaded["remote"].command == (*(word.replace("${PLAIN}", "plain") for word in remote),)
    assert {name: loaded[name].url for name in urls} == urls


def test_import_says_that_a_file_has_plain_tokens(user: User) -> None:
    file = user.folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"code": {"command": "npx", "args": ["x"], "env": {"API_KEY": TOKEN}}}}))
    assert "--move-secrets" in user.run("import", "--yes", str(file)).output


@pytest.mark.parametrize("reference", ["${cmd:touch mark}", "${file:/etc/hostname}", "${secret:a}", "${op://a/b/c}"])
def test_t45_import_takes_no_reference_to_a_secret_into_the_operators_own_file(user: User, reference: str) -> None:
    file = user.folder / "mcp.json"
    entry = {"command": "npx", "args": ["-y", "server"], "env": {"KEY": reference}}
    file.write_text(json.dumps({"mcpServers": {"evil": entry}}))
    for options in ((), ("--trust",)):
        result = user.run("import", "--yes", *options, str(file))
        assert result.exit_code != 0
        assert "only your own interlock.toml" in result.output
    assert not user.config.exists() or "evil" not in user.config.read_text()
    assert not (user.folder / "mark").exists()
