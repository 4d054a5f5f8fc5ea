"""The guard of our network: what is public, in every spelling."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.webhooks.addresses import Forbidden, Policy, embedded, private

FORBIDDEN = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "168.63.129.16",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::2", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "64:ff9b:1::8.8.8.8", "100::1",
    "2001::1", "2001:0:4136:e378:8000:63bf:80ff:fffe", "2001:db8::1", "2001:10::1", "2001:20::1",
    "2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1",
    "fe80::1%1", "fec0::1", "ff02::1", "2606:4700::5efe:a00:1", "2606:4700::200:5efe:7f00:1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
    "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
    "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2001:200::1", "2001:4860:4860::8888", "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8", "2002:808:808::1",
]  # fmt: skip


@pytest.mark.parametrize("address", FORBIDDEN)
def test_forbidden(address: str) -> None:
    with pytest.raises(Forbidden, match="is not a public address"):
        Policy().check_address(address)
    Policy(allow_private=True).check_address(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    Policy().check_address(address)


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f.1", "2130706433", "1.2.3.4.5", "::1%", "1.1.1.1 "])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Forbidden):
        Policy().check_address(text)


@given(st.ip_addresses())
def test_stricter_than_the_standard_library(address: IPv4Address | IPv6Address) -> None:
    if private(address) is None:
        inner = embedded(address)
        assert all(each.is_global for each in inner) if inner else address.is_global


def test_networks_that_are_allowed() -> None:
    policy = Policy(allow_private=["10.1.0.0/16", "fd00::/8"])
    for allowed in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "8.8.8.8"):
        policy.check_address(allowed)
    for forbidden in ("10.2.0.1", "127.0.0.1", "::ffff:10.2.0.1", "169.254.169.254", "fe80::1"):
        with pytest.raises(Forbidden):
            policy.check_address(forbidden)
    with pytest.raises(InvalidInput, match="allow_private"):
        Policy(allow_private=["10.1.0.0/40"])


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com", "//example.com/",
        "https://", "https:///path", "https://user@example.com/", "https://user:pass@example.com/",
        "https://example.com:8443/", "https://example.com:0/", "https://example.com:99999/", "https://example.com/#x",
        "https://example.com/ x", "https://exa\tmple.com/", "https://example.com/\r\nx: y", "https://exämple.com/",
        "https://example.com\\@127.0.0.1/", "https://127.0.0.1/", "https://[::1]/", "https://[::ffff:7f00:1]/",
        "https://[64:ff9b::7f00:1]/", "https://169.254.169.254/latest/meta-data", "https://[fe80::1%25eth0]/",
        "https://example.com/" + "x" * 2048, "", "https://[", "https://[::1/", None, 7,
    ],
)  # fmt: skip
def test_urls_that_are_rejected(url: object) -> None:
    with pytest.raises(InvalidInput, match=r"^url: "):
        Policy().check_url(url)


def test_urls() -> None:
    for url in (
        "https://example.com",
        "https://example.com:443/a?b=c&d=%20",
        "https://8.8.8.8/",
        "https://xn--bcher.de/",
    ):
        assert Policy().check_url(url) == url
    assert Policy(allow_http=True).check_url("http://example.com/")
    assert Policy(ports=(443, 8443)).check_url("https://example.com:8443/")
    assert Policy(True, True, None).check_url("http://127.0.0.1:9999/hook")
    assert str(ip_address("127.0.0.1")) in str(Forbidden("127.0.0.1"))


@pytest.mark.parametrize(
    ("url", "setting"),
    [
        ("http://example.com/", "allow_http"),
        ("https://example.com:9/", "ports"),
        ("https://127.0.0.1/", "allow_private"),
    ],
)
def test_what_is_not_allowed_names_the_setting(url: str, setting: str) -> None:
    """And no flag of the command line: the error is also kept with attempts of deliveries."""
    with pytest.raises(InvalidInput) as caught:
        Policy().check_url(url)
    assert f"(see Webhooks({setting}=…))" in str(caught.value)
    assert "command line" not in str(caught.value)
