"""Tests of `interlock.signatures`."""
