"""The types of single values in the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

Mode = Literal["observe", "guard", "locked"]
Share = Literal["auto", "principal", "session"]
PassphraseUse = Literal["if-set", "required", "never"]
Start = Literal["eager", "on-demand"]
Era = Literal["auto", "modern", "legacy"]
RestartPolicy = Literal["never", "on_failure", "always"]
RequestPolicy = Literal["allow", "ask", "deny"]
RequestName = Literal["sampling", "elicitation", "roots"]
MaskPattern = Literal["email", "card"]
ScanResults = Literal["off", "flag", "escape", "mask"]
Level = Literal["L0", "L1", "L2", "L3"]

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Milliseconds = Annotated[int, Meta(ge=1, le=3_600_000)]
Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Tokens = Annotated[int, Meta(ge=600)]
"""The tools for finding tools need almost this many tokens."""

DefaultPolicy = Literal["opt-in", "opt-out"]
PermissionPolicy = Literal["interactive", "auto_approve", "deny_all", "config_only"]
TrustLevel = Literal["trusted", "standard", "sandboxed"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]
"""Only signatures with a public key, so that verifying a token does not need a secret that can create one."""
