"""Servers that are registered while the hub runs: checked, approved by a person, stored and installed."""
