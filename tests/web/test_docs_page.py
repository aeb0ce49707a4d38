"""The documentation page in a real browser: it works with nothing but the hub, and shows tools' words as words."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.running_hub import SOURCE
from interlock.config.settings import HubSettings, ServerSettings, TimeoutSettings

from .browser import BROWSER, Page, browser
from .running import example, hub_in_a_thread

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="not measured: no chromium here"),
]

HOSTILE = """
from interlock import Server
server = Server("hostile")

@server.tool(title="<b>bold</b>", documentation_url="javascript:alert(1)", tags=["<i>tag</i>"])
async def hostile(value: str = "<script>document.title='taken'</script>") -> str:
    "<img src=x onerror=\\"document.title='taken'\\"> is only text."
    return "<script>document.title='taken'</script>"

server.run()
"""
OPEN = "document.getElementById({0!r}).open = true; true"
CALL = "document.getElementById({0!r}).querySelector('button.main').click(); true"
OUTCOME = "document.getElementById({0!r}).querySelector('.outcome.good, .outcome.bad')?.textContent"
TEXT = "document.getElementById({0!r}).innerText"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("hub")
    file = home / "hostile.py"
    file.write_text(HOSTILE)
    hostile = ServerSettings(command=(sys.executable, str(file)), env={"PYTHONPATH": str(SOURCE)})
    with hub_in_a_thread(home, {"fin": example(), "hostile": hostile}) as url:
        yield url


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One browser for all tests here. Each test has a page that shares nothing with another's."""
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def page(started: Page, address: str) -> Iterator[Page]:
    with started.stranger() as page:
        page.open(f"{address}/docs")
        page.until("document.querySelectorAll('.tool').length === 4")
        yield page


def test_a_tool_is_found_read_and_called_with_nothing_from_elsewhere(page: Page, address: str) -> None:
    tool = "fin__FinancialAnalyzer"
    page.run("document.getElementById('find').value = 'investment'")
    page.run("document.getElementById('find').dispatchEvent(new Event('input'))")
    assert page.run("[...document.querySelectorAll('.tool')].map((box) => box.id)") == [tool]
    page.run(OPEN.format(tool))
    page.until(f"document.querySelector('#{tool} textarea')?.value.includes('AAPL')")
    words = page.run(TEXT.format(tool))
    assert "ticker_symbol *" in words
    assert "matches ^[A-Z]{1,5}$; at least 1 characters; at most 5 characters" in words
    assert '"technical" | "fundamental" | "sentiment"' in words
    page.run(CALL.format(tool))
    assert page.until(OUTCOME.format(tool)).startswith("200 in ")
    assert '"recommendation": ' in page.run(TEXT.format(tool))
    assert page.complaints() == []
    assert {url.partition("/tools")[0].partition("/docs")[0] for url in page.requested()} == {address}


def test_a_bad_call_is_answered_with_what_to_fix(page: Page) -> None:
    tool = "fin__FinancialAnalyzer"
    page.run(OPEN.format(tool))
    page.until(f"document.querySelector('#{tool} textarea')?.value.includes('AAPL')")
    page.run(f"""document.querySelector('#{tool} textarea').value = '{{"ticker_symbol": "invalid123"}}'""")
    page.run(CALL.format(tool))
    assert page.until(OUTCOME.format(tool)).startswith("422 in ")
    words = page.run(TEXT.format(tool))
    assert "Pattern mismatch: expected ^[A-Z]{1,5}$, got 'invalid123'" in words
    assert "use uppercase letters" in words


def test_what_a_server_says_of_its_tools_is_never_run(page: Page) -> None:
    tool = "hostile__hostile"
    page.run(OPEN.format(tool))
    page.until(f"document.querySelector('#{tool} textarea')?.value.length > 0")
    page.run(CALL.format(tool))
    page.until(OUTCOME.format(tool))
    assert "<img src=x onerror=" in page.run(TEXT.format(tool))
    assert page.run("document.title") == "Interlock: tools over REST"
    assert page.run("document.querySelectorAll('main img, main i, main script').length") == 0
    assert page.run("[...document.querySelectorAll('a')].map((link) => link.protocol)") == ["http:"]
    assert page.complaints() == []


def test_what_would_be_run_if_the_page_were_fooled_is_refused_by_its_policy(page: Page) -> None:
    page.run(
        "document.body.insertAdjacentHTML('beforeend', \"<img src=x onerror=\\\"document.title='taken'\\\">\");"
        "const script = document.createElement('script'); script.textContent = \"document.title='taken'\";"
        "document.body.append(script); fetch('http://127.0.0.1:9/elsewhere').catch(() => 'refused')"
    )
    page.until("true")
    assert page.run("document.title") == "Interlock: tools over REST"
    assert len([told for told in page.complaints() if "Content Security Policy" in told]) >= 3


@pytest.mark.parametrize("width", [360, 1100])
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.size(width, 800)
    for tool in ("fin__FinancialAnalyzer", "hostile__hostile"):
        page.run(OPEN.format(tool))
        page.until(f"document.querySelector('#{tool} textarea')?.value.length > 0")
    assert page.run("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_hub_that_asks_for_a_key_says_so_and_shows_its_tools_to_whoever_has_one(
    tmp_path: Path, started: Page
) -> None:
    settings, keys = HubSettings(anonymous=False, timeouts=TimeoutSettings(start_s=30)), {"reader": ""}
    hub = hub_in_a_thread(tmp_path / "hub", {"fin": example()}, keys=keys, hub=settings)
    with hub as url, started.stranger() as page:
        page.open(f"{url}/docs")
        page.until("document.getElementById('count').textContent.includes('a key is needed')")
        assert page.run("document.querySelectorAll('.tool').length") == 0
        page.run(f"document.getElementById('key').value = {keys['reader']!r}")
        page.run("document.getElementById('key').dispatchEvent(new Event('change'))")
        page.until("document.querySelectorAll('.tool').length === 3")
