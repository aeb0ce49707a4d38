"""Approval requests, their answers, learned rules and pinned tool definitions."""
