"""MCP in every revision: the handshake era (2024-11-05 to 2025-11-25) and the stateless era (2026-07-28)."""
