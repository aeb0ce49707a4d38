"""Connections to other machines through a real forward proxy, to servers with certificates of a private authority."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cases import each_case
from conformance.packages import NODE, PLACE, install
from hub.running_hub import RawClient, running_hub, text_of
from hub.test_server_logins import go
from interlock.config.settings import ServerSettings
from interlock.hub.upstreams.states import ServerState
from interlock.transports.http.client.documents import Post, exchange, fetch
from interlock.transports.http.client.origin import Origin
from interlock.transports.http.client.outside import Proxy, client_context, proxy_for
from interlock.transports.resolving import Resolver, guarded, guarded_for
from interlock.wire.errors import Fault
from protected_server import ProtectedServer, visit

SCRIPT = Path(__file__).parents[1] / "peers" / "forward_proxy.mjs"
OUTSIDE = "127.0.0.2"
"""Stands for another machine: only this machine's own names are always reached directly."""


class RunningProxy:
    """The proxy, and the tunnels that it was asked for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.tunnels: list[str] = []
        self.read = asyncio.Event()

    async def asked(self) -> list[str]:
        """The tunnels since the last time. The proxy prints them in order, so a last one shows that all were read."""
        host, port = self.url.removeprefix("http://").split(":")
        last = "tunnel nowhere.invalid:1"
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"CONNECT nowhere.invalid:1 HTTP/1.1\r\nHost: nowhere.invalid:1\r\n\r\n")
        while last not in self.tunnels:
            self.read.clear()
            await self.read.wait()
        writer.close()
        found, self.tunnels = [tunnel for tunnel in self.tunnels if tunnel != last], []
        return found


@contextlib.asynccontextmanager
async def forward_proxy() -> AsyncIterator[RunningProxy]:
    await asyncio.to_thread(install)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(NODE, str(SCRIPT), str(PLACE / "node_modules"), stdout=pipe)
    assert process.stdout is not None
    port = (await process.stdout.readline()).split()[1].decode()
    proxy = RunningProxy(f"http://127.0.0.1:{port}")

    async def read(lines: asyncio.StreamReader) -> None:
        async for line in lines:
            proxy.tunnels.append(line.decode().strip())
            proxy.read.set()

    reading = asyncio.ensure_future(read(process.stdout))
    try:
        yield proxy
    finally:
        process.terminate()
        await process.wait()
        await reading


class Authority:
    """A private certificate authority: its certificate, one of a server and one of a client, as files."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Private authority")])
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(_pem(self._certificate(self._name, self._key, authority=True)))
        self.server, self.client = folder / "server.pem", folder / "client.pem"
        for file in (self.server, self.client):
            key = ec.generate_private_key(ec.SECP256R1())
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, file.stem)])
            file.write_bytes(_pem(self._certificate(name, key)) + _key_pem(key))

    def server_context(self) -> ssl.SSLContext:
        """TLS of a server that wants a certificate of its clients."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.ca)
        context.load_cert_chain(self.server)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _certificate(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool = False
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(OUTSIDE))])
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = x509.CertificateBuilder(self._name, name, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        if authority:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(identifier, critical=False).add_extension(issuer, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


async def test_everything_goes_through_the_proxy_and_nothing_where_no_proxy_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    files = {"ca_bundle": str(authority.ca), "client_certificate": str(authority.client)}
    browser = client_context(str(authority.ca), str(authority.client))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with forward_proxy() as proxy, ProtectedServer(host=OUTSIDE, tls=authority.server_context()) as protected:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        place = protected.base.removeprefix("https://")
        for home, bypass in (("through", ""), ("directly", f"example.com,{OUTSIDE}")):
            monkeypatch.setenv("NO_PROXY", bypass)
            before = protected.connections
            docs = ServerSettings(url=protected.url, **files)
            async with running_hub(tmp_path / home, {"docs": docs}, wait=False) as hub:
                await hub.state("docs", ServerState.ERROR)
                page = await hub.operate("logins.begin", server="docs")
                assert (await go(await visit(page["url"], browser)))[0] == 200
                await hub.state("docs", ServerState.CONNECTED)
                client = RawClient(f"{hub.url}/mcp")
                asked = {"name": "docs__whoami", "arguments": {}}
                assert text_of(await client.modern("tools/call", asked)).startswith("you are")
            # Documents and posts of the hub itself, with the authority in the place of the system's.
            monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
            guard = guarded_for(protected.base, Resolver())
            for ask in (
                fetch(f"{protected.base}/x", guard=guard, most_bytes=99),
                Post(f"{protected.base}/x", {}, guard=guard, most_bytes=99)(b"{}", 10),
            ):
                with pytest.raises(Fault):
                    await ask  # The server wants a certificate, which these do not have.
            monkeypatch.delenv("SSL_CERT_FILE")
            made = protected.connections - before
            assert made >= 5
            tunnels = await proxy.asked()
            assert set(tunnels) == (set() if bypass else {f"tunnel {place}"})
            if not bypass:
                assert len(tunnels) >= made


async def test_t107_an_address_inside_is_not_reached_through_the_proxy_either(monkeypatch: pytest.MonkeyPatch) -> None:
    async with forward_proxy() as proxy:
        for name in ("HTTPS_PROXY", "HTTP_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        for url in (f"https://{OUTSIDE}/", "http://169.254.169.254/latest", "https://10.0.0.1/"):
            with pytest.raises(Fault):
                await fetch(url, guard=guarded(Resolver()), most_bytes=99)
        assert await proxy.asked() == []


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop")
def test_a_tunnel_opens_on_the_hubs_own_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run on asyncio's loop, and a hub on uvloop, whose transports differ."""
    import uvloop

    async def ask() -> None:
        authority = Authority(tmp_path)
        context = client_context(str(authority.ca), str(authority.client))
        async with forward_proxy() as proxy, ProtectedServer(host=OUTSIDE, tls=authority.server_context()) as protected:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url)
            answer = await exchange("GET", protected.url, {}, b"", guard=None, most_bytes=9_999, context=context)
            assert answer.status == 401
            assert await proxy.asked()

    uvloop.run(ask())


async def test_a_certificate_of_an_unknown_authority_is_refused_and_the_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    async with ProtectedServer(host=OUTSIDE, tls=authority.server_context()) as protected:
        async with running_hub(tmp_path, {"docs": ServerSettings(url=protected.url)}, wait=False) as hub:
            await hub.state("docs", ServerState.ERROR)
            problem = str((await hub.operate("status"))["servers"][0]["problem"])
            assert "its certificate is not trusted" in problem
            assert "`ca_bundle` or SSL_CERT_FILE" in problem
        missing = ServerSettings(url=protected.url, ca_bundle=str(tmp_path / "none.pem"))
        async with running_hub(tmp_path, {"docs": missing}, wait=False) as hub:
            await hub.state("docs", ServerState.ERROR)
            assert "ca_bundle" in (await hub.operate("status"))["servers"][0]["hint"]
        # A proxy that is away is named, and not the server behind it.
        with contextlib.closing(socket.socket()) as unheard:
            unheard.bind(("127.0.0.1", 0))
            proxy = f"127.0.0.1:{unheard.getsockname()[1]}"
            monkeypatch.setenv("HTTPS_PROXY", f"http://me:s3cret@{proxy}")
            with pytest.raises(Fault) as caught:
                await fetch(protected.url, guard=None, most_bytes=99)
        assert f"the proxy {proxy} cannot be reached" in str(caught.value)
        assert "s3cret" not in str(caught.value)
    assert protected.asked == []


@each_case(
    ("url", "environ", "proxied"),
    [
        ("https://a.example", {"HTTPS_PROXY": "http://p:3128"}, True),
        ("http://a.example", {"HTTPS_PROXY": "http://p:3128"}, False),
        ("http://a.example", {"http_proxy": "p:3128"}, True),
        ("https://a.example", {"ALL_PROXY": "http://p:3128"}, True),
        ("https://localhost:8443", {"HTTPS_PROXY": "http://p:3128"}, False),
        ("https://a.example", {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "*"}, False),
        ("https://a.b.example", {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "x.example, .b.example"}, False),
        ("https://bb.example", {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "b.example"}, True),
        ("https://10.1.2.3", {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "10.0.0.0/8"}, False),
        ("https://a.example:444", {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "a.example:443"}, True),
        ("https://a.example", {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "a.example:443"}, False),
    ],
)
def test_the_environment_says_who_is_reached_through_a_proxy(url: str, environ: dict[str, str], proxied: bool) -> None:
    scheme, _, rest = url.partition("://")
    host, _, port = rest.partition(":")
    found = proxy_for(Origin(scheme, host, int(port or (443 if scheme == "https" else 80))), environ)
    assert found == (Proxy("p", 3128) if proxied else None)


def test_the_password_of_a_proxy_is_sent_to_it_and_not_shown() -> None:
    proxy = proxy_for(Origin("https", "a.example", 443), {"HTTPS_PROXY": "http://me:s%40fe@p:3128"})
    assert proxy == Proxy("p", 3128, "me", "s@fe")
    assert (proxy.authorization, proxy.url) == ("Basic bWU6c0BmZQ==", "http://me:s%40fe@p:3128")
    assert "fe" not in repr(proxy)
    with pytest.raises(ValueError, match="HTTPS_PROXY"):
        proxy_for(Origin("https", "a.example", 443), {"HTTPS_PROXY": "socks5://p:1080"})
