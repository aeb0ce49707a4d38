"""`interlock` as it runs where there are no Unix sockets, no uvloop and no signal handlers on the loop: the modules
that ask what system this is are told Windows. These tests do not try the parts that only Windows has."""

from __future__ import annotations

import sys
import types

import interlock.cli
import interlock.cli.control.hub_link
import interlock.web.control
import interlock.web.run

told = types.SimpleNamespace(**vars(sys))
told.platform = "win32"
for module in (interlock.cli.control.hub_link, interlock.web.control, interlock.web.run):
    vars(module)["sys"] = told

if __name__ == "__main__":
    interlock.cli.main()
