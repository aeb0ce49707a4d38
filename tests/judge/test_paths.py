"""Confinement of paths: in every reading, along every link, on both families of systems."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.judge.paths import judge_path, judge_real_path, resolve_path
from interlock.judge.readings import readings

ROOT = "/srv/data"


@each_case(
    "path",
    [
        *("a.txt", "./a/b", "a/../b", "/srv/data", "/srv/data/x", "//srv/data/x", "a b.txt", "~backup", "$a"),
        *("[a]", "a%20b", "C", "...", "..data", "..2024_01_01", "foo..", "a..b", "-rf", "x;y", "a&b", "naïve.txt"),
        *("日本語/ファイル", "aux.c", "Foo$Bar.class", "file:///srv/data/a%20b", "x" * 240, "100%", "50%off", "a\\b"),
        *("#x", "price_$usd", "./..."),
    ],
)
def test_ordinary_names_under_the_root_pass(path: str) -> None:
    assert judge_path(path, [ROOT]) == ()


@each_case(
    "path",
    [
        *("..", "../x", "a/../../x", "/etc/passwd", "/srv", "/srv/dataX", "/srv/data/../x", "..\\x", "\\x"),
        *("\\\\host\\share", "C:\\x", "C:x", "%2e%2e/x", "..%2fx", "..%252fx", "%252e%252e%252fx", "..%c0%afx"),
        *("..%c1%9cx", "..%e0%80%afx", "..%u2215x", "..%c0%qfx", "%2fetc%2fpasswd", "..2fx", "....//x"),
        *("....\\\\x", "..;/x", ".. /x", "．．／x", "‥/x", "..∕x", "..&#47;x", "..\\x2fx", "0x2e0x2e/x"),
        *(".\u200b./x", "..\u00ad/x", "\u202e../x", "a/.\u2060./.\ufe0f./x"),
        *("/%5c../..\\x", "a/%00/../../../x", "a\x00b", "a\nb", "", " ", "~", "~/x", "~root", "~user/x", "$HOME/x"),
        *("${HOME}/x", "$(id)/x", "%USERPROFILE%\\x", "`id`", "file:///etc/passwd", "file://host/srv/data/x"),
        *("php://filter/x", "http://x/", "//?/C:/x", "a::$DATA", "nul", "COM1", "x" * 256, "a/" * 3000, "\ud800"),
        *("Li4vLi4vLi4vZXRjL3Bhc3N3ZA==", ".../.../x", "/dev/fd/0", "/proc/self/environ"),
    ],
)
def test_whatever_leads_out_of_the_root_is_refused(path: str) -> None:
    assert judge_path(path, [ROOT]) != ()


def test_no_root_means_no_path() -> None:
    assert [finding.rule for finding in judge_path("a", [])] == ["path.no_root"]


def test_any_of_several_roots_will_do() -> None:
    assert judge_path("/opt/x", [ROOT, "/opt"]) == ()
    assert judge_path("/op", [ROOT, "/opt"]) != ()


def test_the_kernel_is_out_of_bounds_even_for_the_root_of_everything() -> None:
    assert judge_path("/etc/hosts", ["/"]) == ()
    assert judge_path("/proc/self/environ", ["/"]) != ()
    assert judge_path("/proc/self/environ", ["/proc"]) == ()


@each_case("path", ["x", "sub\\x.txt", "C:\\Data\\x", "c:/data/x", "\\data\\x"])
def test_windows_roots_take_windows_paths_without_regard_to_case(path: str) -> None:
    assert judge_path(path, ["C:\\data"]) == ()


@each_case("path", ["D:\\data\\x", "C:x", "x:stream", "nul.txt", "a.", "a ", "PROGRA~1", "\\\\host\\s", "..\\x", "\\x"])
def test_windows_roots_refuse_what_windows_would_read_otherwise(path: str) -> None:
    assert judge_path(path, ["C:\\data"]) != ()


LINKS = {
    "/srv/data/out": "/etc",
    "/srv/data/in": "real",
    "/srv/data/up": "..",
    "/srv/data/loop": "loop",
    "/srv/data/hop": "out",
    "/var/root": "/srv/data",
}


@each_case("path", ["in/x", "in/../x", "real/x", "new/file", "/srv/data/in/new"])
def test_links_that_stay_inside_pass(path: str) -> None:
    assert judge_real_path(path, [ROOT], LINKS.get) == ()


@each_case("path", ["out/passwd", "out/../srv/x", "up/x", "hop/new", "out", "in/../../data/out/x"])
def test_links_that_lead_out_are_refused_even_for_files_that_do_not_exist(path: str) -> None:
    assert [finding.rule for finding in judge_real_path(path, [ROOT], LINKS.get)] == ["path.link_outside"]


def test_links_in_circles_are_refused() -> None:
    assert [finding.rule for finding in judge_real_path("loop/x", [ROOT], LINKS.get)] == ["path.link_loop"]


def test_a_root_that_is_itself_a_link_is_followed() -> None:
    assert judge_real_path("x", ["/var/root"], LINKS.get) == ()
    assert judge_real_path("/var/root/out/x", ["/var/root"], LINKS.get) != ()


def test_the_walk_agrees_with_the_file_system(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/b")
    (tmp_path / "a" / "back").symlink_to(tmp_path)

    def read_link(path: str) -> str | None:
        return os.readlink(path) if os.path.islink(path) else None

    for path in ("link/../x", "a/back/link", "a/back/../y", "link/new/../z", "missing/../link"):
        assert resolve_path(path, str(tmp_path), read_link) == os.path.realpath(tmp_path / path)


def test_the_path_itself_is_its_first_reading() -> None:
    assert readings("plain") == ("plain",)
    assert readings("a%2fb")[:2] == ("a%2fb", "a/b")


NAMES = st.sampled_from(["a", "b", "..", ".", "", "..a"])


@given(st.lists(NAMES, max_size=8), st.booleans())
def test_plain_paths_are_confined_exactly_when_normalisation_says_so(names: list[str], absolute: bool) -> None:
    path = ("/" if absolute else "") + "/".join(names)
    if not path.strip() or path.startswith("//./"):
        return  # an empty path, and the device space of Windows
    real = os.path.normpath(os.path.join("/a", path))
    inside = real in ("/a", "//a") or real.startswith(("/a/", "//a/"))
    assert (judge_path(path, ["/a"]) == ()) == inside


@given(st.text(max_size=120), st.sampled_from(["", "../", "/srv/data/", "%2e%2e", "file:///", "\\\\", "C:"]))
def test_no_text_makes_the_judge_of_paths_fail(text: str, prefix: str) -> None:
    for roots in ([ROOT], ["C:\\data"], ["/"]):
        found = judge_real_path(prefix + text, roots, LINKS.get)
        assert found == judge_real_path(prefix + text, roots, LINKS.get)
