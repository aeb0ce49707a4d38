"""TLS towards one server, from its settings."""

from __future__ import annotations

import ssl

from interlock.config.settings import ServerSettings
from interlock.transports.http.client.outside import client_context
from interlock.wire.errors import Fault


def tls_of(settings: ServerSettings) -> ssl.SSLContext | None:
    """The TLS settings of a server; None for the usual ones. Raises SERVER_NOT_READY for files that cannot be used."""
    if settings.ca_bundle is None and settings.client_certificate is None:
        return None
    try:
        return client_context(settings.ca_bundle, settings.client_certificate, settings.client_key)
    except OSError as cause:
        hint = "check `ca_bundle`, `client_certificate` and `client_key`"
        reason = cause.strerror or "they are no certificates"
        raise Fault("SERVER_NOT_READY", f"the files for TLS cannot be used: {reason}", hint=hint) from None
