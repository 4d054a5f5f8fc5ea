"""Which addresses a webhook may be sent to: public ones, unless the application allows others.

The URL of an endpoint comes from a customer, and the request is made from inside our network. So every address is
checked that a connection is about to be made to, after all names are resolved. We keep our own list of networks:
`ipaddress.is_global` passes 64:ff9b::7f00:1 and 2002:7f00:1::, which both stand for 127.0.0.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from ..errors import InvalidInput
from ..model.limits import check_text

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PRIVATE_4 = [
    (IPv4Network("0.0.0.0/8"), "this host"),
    (IPv4Network("10.0.0.0/8"), "private"),
    (IPv4Network("100.64.0.0/10"), "shared address space"),
    (IPv4Network("127.0.0.0/8"), "loopback"),
    (IPv4Network("168.63.129.16/32"), "a metadata service"),
    (IPv4Network("169.254.0.0/16"), "link-local"),
    (IPv4Network("172.16.0.0/12"), "private"),
    (IPv4Network("192.0.0.0/24"), "reserved"),
    (IPv4Network("192.0.2.0/24"), "documentation"),
    (IPv4Network("192.88.99.0/24"), "reserved"),
    (IPv4Network("192.168.0.0/16"), "private"),
    (IPv4Network("198.18.0.0/15"), "benchmarking"),
    (IPv4Network("198.51.100.0/24"), "documentation"),
    (IPv4Network("203.0.113.0/24"), "documentation"),
    (IPv4Network("224.0.0.0/4"), "multicast"),
    (IPv4Network("240.0.0.0/4"), "reserved"),
]
PRIVATE_6 = [
    (IPv6Network("::1/128"), "loopback"),
    (IPv6Network("::/128"), "this host"),
    (IPv6Network("fe80::/10"), "link-local"),
    (IPv6Network("fc00::/7"), "private"),
    (IPv6Network("fec0::/10"), "private"),
    (IPv6Network("ff00::/8"), "multicast"),
    (IPv6Network("2001:db8::/32"), "documentation"),
    (IPv6Network("2001::/23"), "reserved"),
    (IPv6Network("3fff::/20"), "documentation"),
]
PUBLIC_6 = IPv6Network("2000::/3")
"""The only part of IPv6 from which public addresses are given out."""
MAPPED, NAT64, SIXTOFOUR, TEREDO = (
    IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"), IPv6Network("2002::/16"), IPv6Network("2001::/32"),
)  # fmt: skip
_ISATAP = {0x00005EFE, 0x02005EFE}

URL_CHARACTERS = 2048
_URL = re.compile(r"[!-~]+")


class Forbidden(OSError):
    """A connection to this address is not allowed. An OSError, because that is what failed connections raise."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What requests may be sent to.

    ```python
    from holdfast.webhooks import Policy

    policy = Policy(allow_private=["10.1.0.0/16"], ports=(443, 8443))  # for hf.add_endpoint(…, policy=policy)
    ```
    """

    allow_private: bool | Sequence[str] = False
    """Private addresses, too: all, or those of these networks, such as `["10.1.0.0/16"]`."""
    allow_http: bool = False
    """Without TLS, too."""
    ports: Sequence[int] | None = (443,)
    """Only these; None: any."""

    def __post_init__(self) -> None:
        self.networks()

    def networks(self) -> list[Network]:
        """The private networks that are allowed; raises if one is not a network."""
        if isinstance(self.allow_private, bool):
            return []
        found: list[Network] = []
        for text in self.allow_private:
            try:
                found.append(ip_network(text))
            except ValueError as error:
                raise InvalidInput("allow_private", f"expected networks such as '10.1.0.0/16': {error}") from None
        return found

    def check_address(self, text: str) -> None:
        """Raise `Forbidden` if no connection may be made to this address."""
        if self.allow_private is True:
            return
        address = parse(text)
        if address is None:
            raise Forbidden(f"{text[:64]!r} is not an IP address")
        reason = private(address)
        if reason is None:
            return
        inner: Sequence[Address] = embedded(address) or [address]
        if all(any(each in network for network in self.networks()) for each in inner):
            return
        raise Forbidden(f"{address} is not a public address ({reason}), so nothing is sent to it")

    def check_url(self, url: object) -> str:
        """Return the URL of an endpoint, checked. Names are resolved only when something is sent."""
        text = check_text("url", url)
        if len(text) > URL_CHARACTERS:
            raise InvalidInput("url", f"expected at most {URL_CHARACTERS} characters, got {len(text)}")
        if not _URL.fullmatch(text) or "\\" in text:
            raise InvalidInput("url", "expected ASCII without spaces and backslashes; encode other characters")
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise InvalidInput("url", f"is not a URL: {error}") from None
        if parts.scheme != "https" and not (parts.scheme == "http" and self.allow_http):
            http = " (see Webhooks(allow_http=…))" if parts.scheme == "http" else ""
            raise InvalidInput("url", f"expected https://…, got {text[:80]!r}{http}")
        if not parts.hostname:
            raise InvalidInput("url", "has no host")
        if parts.username is not None or parts.password is not None:
            raise InvalidInput("url", "must not have a user or password; requests are signed instead")
        if parts.fragment or text.endswith("#"):
            raise InvalidInput("url", "must not have a fragment (#…)")
        port = port if port is not None else 443 if parts.scheme == "https" else 80
        if self.ports is not None and port not in self.ports and not (port == 80 and parts.scheme == "http"):
            allowed = ", ".join(map(str, self.ports))
            raise InvalidInput("url", f"port {port} is not allowed; allowed: {allowed} (see Webhooks(ports=…))")
        if (literal := parse(parts.hostname)) is not None:
            try:
                self.check_address(str(literal))
            except Forbidden as error:
                raise InvalidInput("url", f"{error} (see Webhooks(allow_private=…))") from None
        return text


def parse(text: str) -> Address | None:
    """The address, if the text is one in its usual form."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def private(address: Address) -> str | None:
    """Why this is not a public address; None if it is one."""
    if isinstance(address, IPv4Address):
        return _within(address, PRIVATE_4)
    for inner in embedded(address):
        if (reason := private(inner)) is not None:
            return f"it stands for {inner}, {reason}"
    if address in MAPPED or address in NAT64:
        return None
    return _within(address, PRIVATE_6) or (None if address in PUBLIC_6 else "reserved")


def embedded(address: Address) -> list[IPv4Address]:
    """The IPv4 addresses that an IPv6 address stands for: mapped, NAT64, 6to4, Teredo, ISATAP."""
    if isinstance(address, IPv4Address):
        return []
    number = int(address)
    if address in MAPPED or address in NAT64:
        return [IPv4Address(number & 0xFFFFFFFF)]
    if address in SIXTOFOUR:
        return [IPv4Address(number >> 80 & 0xFFFFFFFF)]
    if address in TEREDO:
        return [IPv4Address(number >> 64 & 0xFFFFFFFF), IPv4Address(~number & 0xFFFFFFFF)]
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        return [IPv4Address(number & 0xFFFFFFFF)]
    return []


def _within(address: Address, networks: Iterable[tuple[Network, str]]) -> str | None:
    return next((reason for network, reason in networks if address in network), None)
