"""Where URLs lead, and which of them are refused before anything is opened."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.judge.findings import Finding
from interlock.judge.urls import (
    UrlRules,
    judge_redirect,
    judge_resolved,
    judge_url,
    judge_urls_in_text,
    names_to_resolve,
    urls_in_text,
)


def rules_of(found: tuple[Finding, ...]) -> set[str]:
    return {finding.rule for finding in found}


@each_case(
    "url",
    [
        *("https://example.org/", "http://example.org:8080/a?b=10.0.0.1#c", "https://user:p%40ss@example.org/"),
        *("https://10.example.org/", "https://metadata.example.org/", "https://EXAMPLE.org./", "https://1.1.1.1/"),
        *("https://bücher.example.org/", "https://example.org/#http://127.0.0.1"),
        *("https://example.org/?u=a@127.0.0.1", "https://localhost.example.org/"),
    ],
)
def test_public_urls_pass(url: str) -> None:
    assert judge_url(url) == ()


@each_case(
    ("url", "rule"),
    [
        ("http://127.0.0.1/", "address.loopback"),
        ("http://0x7f.1:8080/", "address.loopback"),
        ("  http://10.0.0.5/  ", "address.private"),
        ("ht\ttp://[::1]/", "address.loopback"),
        ("http:192.168.1.1", "address.private"),
        ("http://%31%30%2e%30%2e%30%2e%31/", "address.private"),
        ("http://169.254.169.254\\@example.org/", "address.metadata"),
        ("http://metadata.google.internal/", "address.metadata"),
        ("http://ｌｏｃａｌｈｏｓｔ/", "url.local_name"),
        ("http://local\u00adhost/", "url.local_name"),
        ("http://app.localhost./", "url.local_name"),
        ("http://printer.local/", "url.local_name"),
        ("http://kubernetes.default.svc/", "url.local_name"),
        ("http://intranet/", "url.local_name"),
        ("http://a9fea9fe.nip.io/", "url.any_address_name"),
        ("file:///etc/passwd", "url.scheme"),
        ("gopher://example.org/_x", "url.scheme"),
        ("javascript:alert(1)", "url.scheme"),
        ("//example.org/", "url.invalid"),
        ("http://", "url.invalid"),
        ("http://[fe80::1%25eth0]/", "url.invalid"),
        ("http://0o177.0.0.1/", "url.invalid"),
        ("http://example.org%00.evil.example.org/", "url.invalid"),
        ("http://a..example.org/", "url.invalid"),
        ("http://example.org:22/", "url.port"),
        ("http://[::1];@example.org/", "url.ambiguous"),
        ("http://127.0.0.1;@example.org/", "url.ambiguous"),
        ("http://169.254.169.254%23@example.org/", "url.ambiguous"),
        ("http://example.org#@127.0.0.1/", "url.ambiguous"),
        ("http://example.org\\@evil.example.org/", "url.ambiguous"),
        ("http://example.org/a\nb", "url.control"),
        ("http://example.org/\ud800", "url.invalid"),
        ("http://example.org/" + "a" * 20_000, "url.too_long"),
    ],
)
def test_a_url_that_leads_elsewhere_is_refused_by_name(url: str, rule: str) -> None:
    assert rule in rules_of(judge_url(url))


def test_rules_narrow_schemes_ports_hosts_and_credentials() -> None:
    rules = UrlRules(schemes=("https",), ports=(443,), credentials=False, hosts=("*.example.org", "example.com"))
    assert judge_url("https://api.example.org/", rules) == ()
    assert judge_url("https://example.com/", rules) == ()
    assert rules_of(judge_url("http://example.com/", rules)) == {"url.scheme"}
    assert rules_of(judge_url("https://example.com:8443/", rules)) == {"url.port"}
    assert rules_of(judge_url("https://a:b@example.com/", rules)) == {"url.credentials"}
    assert rules_of(judge_url("https://example.org.evil.net/", rules)) == {"url.host"}


def test_the_operator_may_vouch_for_a_local_name_and_network_but_not_for_metadata() -> None:
    rules = UrlRules(allowed_names=("db.internal", "metadata.google.internal"), networks=("10.0.0.0/8",))
    assert judge_url("http://db.internal/", rules) == ()
    assert judge_url("http://10.2.3.4/", rules) == ()
    assert judge_resolved("db.internal", ("10.2.3.4",), rules) == ()
    assert judge_resolved("db.internal", ("192.168.0.1",), rules) != ()
    assert judge_url("http://metadata.google.internal/", rules) != ()


def test_only_names_are_left_to_resolve() -> None:
    assert names_to_resolve("https://Example.org./x") == ("example.org",)
    assert names_to_resolve("https://1.1.1.1/") == ()
    assert names_to_resolve("https://[2606:4700::1]/") == ()
    assert names_to_resolve("no url") == ()


def test_one_bad_address_refuses_a_name() -> None:
    assert judge_resolved("example.org", ("93.184.216.34", "2606:4700::1")) == ()
    assert rules_of(judge_resolved("example.org", ("93.184.216.34", "::ffff:10.0.0.1"))) == {"address.private"}
    assert rules_of(judge_resolved("example.org", ("fe80::1%eth0",))) == {"address.link_local"}
    assert rules_of(judge_resolved("example.org", ())) == {"url.unresolved"}
    assert rules_of(judge_resolved("example.org", ("not an address",))) == {"url.unresolved"}


@each_case(
    ("location", "target", "rule"),
    [
        ("/next", "https://example.org/next", None),
        ("//10.0.0.1/x", "https://10.0.0.1/x", "address.private"),
        ("http://localhost\\@example.org/", "http://localhost/@example.org/", "url.local_name"),
        ("file:///etc/passwd", "file:///etc/passwd", "url.scheme"),
        ("http://[", "", "url.invalid"),
    ],
)
def test_each_redirect_is_judged_as_the_url_it_leads_to(location: str, target: str, rule: str | None) -> None:
    url, found = judge_redirect("https://example.org/go", location)
    assert url == target
    assert (rule in rules_of(found)) if rule else found == ()


def test_redirects_are_counted() -> None:
    assert judge_redirect("https://example.org/", "/a", hop=5)[1] == ()
    assert rules_of(judge_redirect("https://example.org/", "/a", hop=6)[1]) == {"url.redirects"}


def test_urls_are_found_inside_longer_text() -> None:
    text = "See (https://example.org/a_(b)), then http://10.0.0.1/x. And https://[::1]:80/!"
    assert [text[start:end] for start, end in urls_in_text(text)] == [
        "https://example.org/a_(b)",
        "http://10.0.0.1/x",
        "https://[::1]:80/",
    ]
    found = judge_urls_in_text(text)
    assert rules_of(found) == {"address.private", "address.loopback"}
    assert {text[slice(*finding.span)] for finding in found if finding.span} == {
        "http://10.0.0.1/x",
        "https://[::1]:80/",
    }


def test_text_about_addresses_is_not_taken_for_a_request_unless_it_asks_for_metadata() -> None:
    assert judge_urls_in_text("RFC 1918 defines 172.16.0.0/12, and 169.254.169.254/32 is special.") == ()
    assert rules_of(judge_urls_in_text("curl 169.254.169.254/latest/meta-data/")) == {"address.metadata"}


@given(st.text(max_size=80), st.sampled_from(["", "http://", "https://a@", "http://[", "//", "http://127.0.0.1"]))
def test_no_text_makes_the_judge_of_urls_fail(text: str, prefix: str) -> None:
    url = prefix + text
    assert judge_url(url) == judge_url(url)
    names_to_resolve(url)
    judge_urls_in_text(url)
    judge_redirect("https://example.org/", url)


@given(st.sampled_from(["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]"]), st.text("abc:@/?#\\;.%20", max_size=12))
def test_whatever_stands_around_a_private_host_a_url_that_opens_it_is_refused(host: str, tail: str) -> None:
    import ada_url

    url = f"http://{host}{tail}"
    try:
        reached = ada_url.URL(url).hostname
    except ValueError:
        reached = ""
    if reached == host:
        assert judge_url(url)


def test_a_list_of_hosts_is_not_passed_by_writing_an_address() -> None:
    rules = UrlRules(hosts=("api.example.com", "93.184.216.34"))
    assert [finding.rule for finding in judge_url("http://8.8.8.8/", rules)] == ["url.host"]
    assert judge_url("http://93.184.216.34/", rules) == ()
