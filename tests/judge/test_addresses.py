"""Which addresses are public, whatever notation they are written in."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.judge.addresses import METADATA, judge_address, kind_of, read_address, read_networks

LOOPBACK = [
    "127.0.0.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "127.1",
    "0x7f.1",
    "0177.0.0.1",
    "１２７.０.０.１",
    "127.0.0.1.",
]


@each_case("text", [*LOOPBACK, "①②⑦.⓪.⓪.①", "[::1]", "::1", "::ffff:127.0.0.1", "0:0:0:0:0:ffff:7f00:1"])
def test_every_notation_of_the_loopback_address_is_read_as_it(text: str) -> None:
    address = read_address(text)
    assert address is not None
    assert kind_of(address) == "loopback"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("10.1.2.3", "private"),
        ("172.31.255.255", "private"),
        ("192.168.0.1", "private"),
        ("100.64.0.1", "shared"),
        ("169.254.1.1", "link_local"),
        ("0.0.0.0", "unspecified"),
        ("192.0.0.8", "reserved"),
        ("192.88.99.1", "reserved"),
        ("198.18.0.1", "benchmarking"),
        ("203.0.113.9", "documentation"),
        ("239.255.255.250", "multicast"),
        ("255.255.255.255", "reserved"),
        ("fe80::1%eth0", "link_local"),
        ("fd12:3456::1", "private"),
        ("fec0::1", "private"),
        ("2001:db8::1", "documentation"),
        ("3fff::1", "documentation"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "tunnel"),
        ("64:ff9b:1::1", "private"),
        ("64:ff9b::10.0.0.1", "private"),
        ("2002:7f00:1::", "loopback"),
        ("::ffff:0:192.168.1.1", "private"),
        ("::10.0.0.1", "private"),
        ("::8.8.8.8", "reserved"),
        ("2a00::200:5efe:10.0.0.1", "private"),
        ("ff02::1", "multicast"),
        ("4000::1", "reserved"),
    ],
)
def test_addresses_that_are_not_public_have_a_kind(text: str, kind: str) -> None:
    address = read_address(text)
    assert address is not None
    assert kind_of(address) == kind


@each_case(
    "text",
    [
        *("8.8.8.8", "9.255.255.255", "11.0.0.0", "126.255.255.255", "128.0.0.0", "100.63.255.255", "100.128.0.0"),
        *("169.253.255.255", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255"),
        *("198.20.0.0", "223.255.255.255", "2606:4700::1111", "2a00::1", "2002:808:808::1", "64:ff9b::8.8.8.8"),
        *("::ffff:8.8.8.8",),
    ],
)
def test_addresses_on_the_public_side_of_each_boundary_are_public(text: str) -> None:
    assert kind_of(ip_address(text)) is None


@each_case(
    "text", ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"]
)
def test_no_network_of_the_operator_allows_a_metadata_address(text: str) -> None:
    address = ip_address(text)
    assert kind_of(address) == METADATA
    assert [finding.rule for finding in judge_address(address, ("0.0.0.0/0", "::/0"))] == ["address.metadata"]


def test_a_metadata_address_hidden_in_a_transition_address_is_still_one() -> None:
    assert kind_of(ip_address("::ffff:169.254.169.254")) == METADATA
    assert kind_of(ip_address("64:ff9b::169.254.169.254")) == METADATA
    assert kind_of(ip_address("2002:a9fe:a9fe::1")) == METADATA


def test_a_network_of_the_operator_allows_its_own_addresses_only() -> None:
    assert judge_address(ip_address("10.1.2.3"), ("10.1.0.0/16",)) == ()
    assert judge_address(ip_address("10.2.2.3"), ("10.1.0.0/16",)) != ()


def test_a_network_that_cannot_be_read_allows_nothing() -> None:
    assert judge_address(ip_address("10.1.2.3"), ("ten/8",)) != ()
    with pytest.raises(ValueError, match="ten"):
        read_networks(("ten/8",))


@each_case("text", ["", "example.com", "1.2.3.4/8", "1.2.3.4@x", "999.1.1.1", "1.2.3.4.5", "[::1", "a b"])
def test_what_is_no_address_is_not_read_as_one(text: str) -> None:
    assert read_address(text) is None


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_as_public_as_the_address_inside(address: IPv4Address) -> None:
    assert kind_of(IPv6Address(f"::ffff:{address}")) == kind_of(address)


@given(st.integers(0, 2**32 - 1))
def test_all_numeric_spellings_of_an_address_mean_the_same(number: int) -> None:
    address = IPv4Address(number)
    parts = str(address).split(".")
    spellings = [str(number), hex(number), f"0{number:o}", ".".join(f"{int(part):#x}" for part in parts)]
    assert [read_address(text) for text in spellings] == [address] * 4


@given(st.text(max_size=60))
def test_reading_an_address_never_fails(text: str) -> None:
    address = read_address(text)
    assert address is None or kind_of(address) in {None, *_kinds()}


def _kinds() -> set[str]:
    from interlock.judge import addresses

    return set(addresses.MESSAGES)
