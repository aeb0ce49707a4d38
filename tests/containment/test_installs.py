"""The install step: packages come from a registry on this machine, into a folder whose digest is recorded."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hub.running_hub import RawClient, running_hub, text_of, until
from interlock.config.settings import HubSettings, TimeoutSettings
from interlock.containment import installs
from interlock.containment.backends import reports
from interlock.containment.policy import ContainmentRefused
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.states import ServerState
from interlock.wire.errors import Fault

SERVES = [report.backend for report in reports() if not report.missing]

COMMAND = ("npx", "-y", "greeter@1.0.0", "--loud")
PROGRAM = """
const tool = {name: "greet", description: "Greets.", inputSchema: {type: "object"}};
const answers = {
  initialize: (params) => ({
    protocolVersion: params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: "greeter", version: "1"}}),
  ping: () => ({}),
  "tools/list": () => ({tools: [tool]}),
  "tools/call": () => ({content: [{type: "text", text: "hello"}]}),
};
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const {id, method, params} = JSON.parse(line);
  if (id === undefined) return;
  const answer = answers[method];
  const said = answer ? {result: answer(params)} : {error: {code: -32601, message: "unknown method"}};
  process.stdout.write(JSON.stringify({jsonrpc: "2.0", id, ...said}) + "\\n");
});
"""


class Registry(BaseHTTPRequestHandler):
    """An npm registry with one package, whose install script would leave a trace."""

    archive: bytes
    trace: Path

    def do_GET(self) -> None:
        host = f"http://{self.headers['host']}"
        if self.path == "/greeter":
            digest = base64.b64encode(hashlib.sha512(self.archive).digest()).decode()
            dist = {"tarball": f"{host}/greeter.tgz", "integrity": f"sha512-{digest}"}
            version = {**self.manifest(self.trace), "dist": dist}
            body = json.dumps({"name": "greeter", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}})
            self._send(body.encode())
        elif self.path == "/greeter.tgz":
            self._send(self.archive)
        else:
            self.send_error(404)

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    @staticmethod
    def manifest(trace: Path) -> dict[str, object]:
        scripts = {"postinstall": f"touch {trace}"}
        return {"name": "greeter", "version": "1.0.0", "bin": {"greeter": "run.js"}, "scripts": scripts}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    Registry.trace = tmp_path_factory.mktemp("trace") / "ran"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in (("package.json", json.dumps(Registry.manifest(Registry.trace))), ("run.js", PROGRAM)):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    Registry.archive = packed.getvalue()
    served = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()


def test_t81_a_package_is_installed_once_without_its_scripts_and_runs_only_unchanged(
    tmp_path: Path, registry: str
) -> None:
    folder = tmp_path / "contained" / "greeter"
    with pytest.raises(ContainmentRefused, match="is not installed") as missing:
        installs.installed(str(folder), COMMAND)
    assert missing.value.hint == "run `interlock install greeter`"

    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "npm_config_registry": registry}
    record = installs.install(folder, COMMAND, env)
    program = Path(record.folder, "node_modules", "greeter", "run.js")
    assert record.argv[1:] == (str(program), "--loud")
    assert not Registry.trace.exists(), "the package's script ran outside the containment"
    assert installs.installed(str(folder), COMMAND) == record

    with pytest.raises(ContainmentRefused, match="is not installed"):
        installs.installed(str(folder), ("npx", "-y", "greeter@2.0.0"))
    program.write_text("process.exit(1)")
    installs.verified.clear()  # as in the next run of the hub
    with pytest.raises(ContainmentRefused, match="have changed"):
        installs.installed(str(folder), COMMAND)

    again = installs.install(folder, COMMAND, env)
    assert (installs.installed(str(folder), COMMAND), Path(record.folder).exists()) == (again, False)


@pytest.mark.anyio
@pytest.mark.skipif(not SERVES, reason=f"no backend serves on this machine: {[r.missing for r in reports()]}")
async def test_the_hub_installs_a_registered_package_and_runs_it_contained(
    tmp_path: Path, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", registry)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    async with running_hub(
        tmp_path, {}, hub=HubSettings(timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60))
    ) as hub:
        await hub.operate("discovery.register", id="greeter", command=COMMAND[0], args=list(COMMAND[1:]))
        await until(lambda: hub.hub_app.upstreams.get("greeter") is not None)
        await hub.state("greeter", ServerState.CONNECTED)
        folder = str(hub.hub_app.home.resolve() / "contained" / "greeter")
        record = installs.installed(folder, COMMAND)
        assert record is not None
        assert len(record.digest) == 64
        assert not Registry.trace.exists(), "the package's script ran outside the containment"
        await hub.allow("reader", "greeter")
        await until(lambda: hub.hub_app.catalog.offer("greeter") is not None)
        client = RawClient(f"{hub.url}/mcp", hub.key("reader"))
        assert text_of(await client.modern("tools/call", {"name": "greeter__greet", "arguments": {}})) == "hello"
        again = await hub.operate("discovery.install", id="greeter")
        assert (again["server_id"], again["package"]) == ("greeter", "greeter@1.0.0")
        updated = installs.installed(folder, COMMAND)
        assert updated is not None
        assert (updated.folder, updated.digest) == (again["folder"], again["digest"])
        assert updated.folder != record.folder
        with pytest.raises(Fault, match="no registered server"):
            await hub.operate("discovery.install", id="other")
        with pytest.raises(Fault, match="only the user"):
            await hub.operate("discovery.install", Principal("reader", "agent"), id="greeter")


def test_commands_that_fetch_nothing_need_no_install() -> None:
    for command in (("python", "server.py"), ("node", "server.js"), ("/usr/bin/uv", "--version")):
        assert installs.wanted(command) is None


@pytest.mark.parametrize(
    ("command", "package", "program", "arguments"),
    [
        (("npx", "-y", "@scope/files@1.2", "~/notes"), "@scope/files@1.2", "@scope/files", ("~/notes",)),
        (("npx", "--package=tools", "serve"), "tools", "serve", ()),
        (("uvx", "mcp-server-time"), "mcp-server-time", "mcp-server-time", ()),
        (("uvx", "--from", "tools==2", "serve", "-v"), "tools==2", "serve", ("-v",)),
    ],
)
def test_a_command_names_its_package(
    command: tuple[str, ...], package: str, program: str, arguments: tuple[str, ...]
) -> None:
    found = installs.wanted(command)
    assert found is not None
    assert (found.package, found.program, found.arguments) == (package, program, arguments)


@pytest.mark.parametrize(
    "command", [("pnpm", "dlx", "x"), ("bunx", "x"), ("uv", "tool", "run", "x"), ("npx", "-c", "x")]
)
def test_other_ways_to_fetch_are_refused(command: tuple[str, ...]) -> None:
    with pytest.raises(ContainmentRefused):
        installs.wanted(command)
