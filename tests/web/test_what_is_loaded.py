"""What only some hubs need is loaded by them alone: an idle hub on a laptop pays for none of it."""

from __future__ import annotations

import subprocess
import sys

from hub.house import SOURCE

EXTRAS = ("joserfc", "cryptography", "prometheus_client", "opentelemetry", "psycopg")


def test_a_hub_without_extras_loads_none_of_them() -> None:
    script = f"import sys, interlock.web.run; print([name for name in {EXTRAS!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
