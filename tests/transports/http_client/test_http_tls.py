"""HTTPS: whom we speak to is checked before anything is said."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from web_peer import LinkPeer, RecordingListener, WebPeer

from interlock.transports.http.client.link import HttpLink
from interlock.transports.http.client.pool import default_context


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate and its key for this machine alone, signed by nobody."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.mark.parametrize("trusted", [True, False])
async def test_only_a_server_whose_certificate_is_trusted_gets_a_request(certificate: Path, trusted: bool) -> None:
    async def script(visit) -> None:
        await visit.result({"n": 1})

    web = WebPeer(script)
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(certificate)
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0, ssl=own)
    context = default_context()
    if trusted:
        context.load_verify_locations(certificate)
    listener = RecordingListener()
    port = server.sockets[0].getsockname()[1]
    link = HttpLink(f"https://127.0.0.1:{port}/mcp", listener, context=context)
    try:
        if trusted:
            assert await LinkPeer(web, link, listener).ask() == {"n": 1}
        else:
            fault = await LinkPeer(web, link, listener).lose()
            assert fault.name == "UPSTREAM_UNAVAILABLE"
            assert "certificate" in fault.message
            assert web.visits == []
    finally:
        await link.close()
        server.close()
