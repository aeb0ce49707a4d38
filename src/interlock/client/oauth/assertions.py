"""Signs the JWT by which a client proves who it is (RFC 7523, Using JWTs for Client Authentication)."""

from __future__ import annotations

import secrets
import time
from typing import Final

from interlock.wire.errors import Fault

VALID_S: Final = 300


def client_assertion(client_id: str, issuer: str, private_key: str, algorithm: str) -> str:
    """A fresh assertion for one authorization server; `issuer` is its audience. Raises INVALID_PARAMS."""
    try:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey, OKPKey, RSAKey
    except ImportError:
        hint = "install interlock[oauth]"
        raise Fault("INVALID_PARAMS", "signing with a private key needs the extra `oauth`", hint=hint) from None
    kinds: dict[str, type[ECKey] | type[RSAKey] | type[OKPKey]] = {"ES": ECKey, "RS": RSAKey, "PS": RSAKey}
    kind = kinds.get(algorithm[:2], OKPKey)
    now = int(time.time())
    claims: dict[str, object] = {
        "iss": client_id,
        "sub": client_id,
        "aud": issuer,
        "iat": now,
        "exp": now + VALID_S,
        "jti": secrets.token_urlsafe(16),
    }
    try:
        key = kind.import_key(private_key)
        return jwt.encode({"alg": algorithm}, claims, key, algorithms=[algorithm])
    except (JoseError, ValueError, TypeError):
        # The message of a library may quote the key.
        raise Fault("INVALID_PARAMS", f"the private key cannot sign with {algorithm}") from None
