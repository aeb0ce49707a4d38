"""Imports one program of the bench by its name."""

from __future__ import annotations

import importlib
import sys

import interlock.cli.app
import interlock.web.run

if __name__ == "__main__":
    assert interlock.cli.app
    assert interlock.web.run
    importlib.import_module(sys.argv[1])
