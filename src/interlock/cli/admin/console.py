"""`interlock console`: shows the console's address and a login code, and opens a browser.

The code must not appear in the arguments of a process, which every user can read. So the browser opens a file that only
this user can read, and the file leads to the address with the code in its fragment.
"""

from __future__ import annotations

import html
import time

import click

from interlock.cli.control.perform import need_person, perform
from interlock.cli.terminal.show import bold, has_screen, json_option, say, show_json

KEPT_S = 10.0
"""How long the file stays for the browser to read. The code in it is valid for a minute and once."""


@click.command()
@click.option("--no-open", is_flag=True, help="Print the address and the code, and open no browser.")
@json_option
def console(no_open: bool, as_json: bool) -> None:
    """Open the console in a browser, with a login code.

    The code is valid for a minute and once. Needs a terminal.

    \b
    Example:
      interlock console
    """
    need_person("open the console")
    made = perform("console.code", {"terminal": True})
    if as_json:
        show_json(made)
        return
    say(f"Address  {bold(made['url'])}")
    say(f"Code     {bold(made['code'])}  (valid for {made['valid_s']} s, once)")
    if not no_open and has_screen():
        _open_browser(f"{made['url']}/login#code={made['code']}")


def _open_browser(url: str) -> None:
    import webbrowser

    from interlock.config.files import write_atomically
    from interlock.config.home import home_folder

    file = home_folder() / "run" / "console.html"
    write_atomically(file, _leading_to(url), private=True)
    try:
        if webbrowser.open(file.as_uri()):
            time.sleep(KEPT_S)
    finally:
        file.unlink(missing_ok=True)


def _leading_to(url: str) -> bytes:
    address = html.escape(url, quote=True)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0; url={address}"><title>Interlock</title>'
        f'<p><a href="{address}">Open the console</a></p></html>'
    ).encode()
