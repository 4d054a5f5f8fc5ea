"""Signatures of webhooks, against the vector of Standard Webhooks and its own package."""

from __future__ import annotations

import base64
import hmac
import itertools
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from holdfast.errors import InvalidInput
from holdfast.model import signature
from holdfast.model.signature import BadSignature, check_secret, new_secret, sign, verify, verify_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_vector() -> None:
    assert sign(SECRET, ID, AT, BODY) == SIGNED
    verify(ID, str(AT), BODY, SIGNED, [SECRET], AT)


@given(body=st.text(), id=st.text("abc_09", min_size=1), others=st.integers(0, 3))
def test_the_package_verifies_ours_and_we_verify_its(body: str, id: str, others: int) -> None:
    secrets = [new_secret() for _ in range(others + 1)]
    at = int(time.time())
    headers = {"webhook-id": id, "webhook-timestamp": str(at)}
    ours = " ".join(sign(each, id, at, body.encode()) for each in secrets)
    for each in secrets:
        Webhook(each).verify(body, {**headers, "webhook-signature": ours}, json_parse=False)
    its = Webhook(secrets[-1]).sign(id, datetime.fromtimestamp(at, UTC), body)
    assert verify_headers({**headers, "webhook-signature": its}, body.encode(), secrets, at) == id


@pytest.mark.parametrize(
    ("id", "timestamp", "body", "signatures"),
    [
        ("msg_other", str(AT), BODY, SIGNED),
        (ID, str(AT + 1), BODY, SIGNED),
        (ID, str(AT), BODY + b" ", SIGNED),
        (ID, str(AT), BODY, SIGNED.replace("v1,", "v1a,")),
        (ID, str(AT), BODY, SIGNED.replace("v1,", "v2,")),
        (ID, str(AT), BODY, "v1"),
        (ID, str(AT), BODY, "v1,"),
        (ID, str(AT), BODY, SIGNED[:-1]),
        (ID, str(AT), BODY, SIGNED.replace(",", "")),
        (ID, str(AT), BODY, ""),
        (ID, str(AT), BODY, "\N{SNOWMAN}"),
        (ID, f"{AT}.9", BODY, SIGNED),
        (ID, f"+{AT}", BODY, SIGNED),
        (ID, f"{AT} ", BODY, SIGNED),
        (ID, f"{AT}\n", BODY, SIGNED),
        (ID, "١٦١٤٢٦٥٣٣٠", BODY, SIGNED),
        (ID, "9" * 5000, BODY, SIGNED),
        (ID, "nan", BODY, SIGNED),
        (ID, "", BODY, SIGNED),
        (ID, None, BODY, SIGNED),
        (None, str(AT), BODY, SIGNED),
        ("", str(AT), BODY, SIGNED),
        ("\udc80", str(AT), BODY, SIGNED),
        (ID, str(AT), BODY, None),
        (ID, str(AT), BODY, " ".join([SIGNED] * 33)),
    ],
)
def test_altered_and_malformed(id: str | None, timestamp: str | None, body: bytes, signatures: str | None) -> None:
    with pytest.raises(BadSignature):
        verify(id, timestamp, body, signatures, [SECRET], AT)


def test_stale_and_early() -> None:
    for shift in (-300, 300):
        verify(ID, str(AT), BODY, SIGNED, [SECRET], AT + shift)
    for shift, words in ((-301, "ahead"), (301, "ago")):
        with pytest.raises(BadSignature, match=words):
            verify(ID, str(AT), BODY, SIGNED, [SECRET], AT + shift)
    with pytest.raises(BadSignature):
        verify(ID, str(AT), BODY, SIGNED, [SECRET], float("nan"))


def test_several_signatures_and_secrets() -> None:
    other = new_secret()
    verify(ID, str(AT), BODY, f"v1,junk v1a,x {sign(other, ID, AT, BODY)} {SIGNED}", [SECRET], AT)
    verify(ID, str(AT), BODY, SIGNED, [other, SECRET], AT)
    for secrets in ([], [other]):
        with pytest.raises(BadSignature):
            verify(ID, str(AT), BODY, SIGNED, secrets, AT)


class Compared:
    """Stands for `hmac` in the module: its comparison is recorded, and may have another result."""

    new = staticmethod(hmac.new)

    def __init__(self, result: bool | None = None) -> None:
        self.result = result
        self.pairs: list[tuple[bytes, bytes]] = []

    def compare_digest(self, one: bytes, other: bytes) -> bool:
        self.pairs.append((one, other))
        return hmac.compare_digest(one, other) if self.result is None else self.result


OTHERS = [new_secret() for _ in range(2)]
EVERY_WAY = [
    (signatures, secrets)
    for signatures in itertools.permutations([SIGNED, *(sign(each, ID, AT, b"") for each in OTHERS)])
    for secrets in itertools.permutations([SECRET, OTHERS[0]])
]


@pytest.mark.parametrize(("signatures", "secrets"), EVERY_WAY)
def test_a_comparison_in_constant_time_decides_and_nothing_else(
    signatures: Sequence[str], secrets: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every signature is compared with that of every secret in this way, also after one has matched."""
    header = " ".join(signatures)
    monkeypatch.setattr(signature, "hmac", compared := Compared())
    verify(ID, str(AT), BODY, header, secrets, AT)
    expected = [base64.b64decode(sign(secret, ID, AT, BODY).removeprefix("v1,")) for secret in secrets]
    given_ones = [base64.b64decode(each.removeprefix("v1,")) for each in signatures]
    assert compared.pairs == [(one, other) for other in expected for one in given_ones]
    # What would notice a comparison by == beside it: it says no where they are equal, and yes where they are not.
    monkeypatch.setattr(signature, "hmac", Compared(False))
    with pytest.raises(BadSignature):
        verify(ID, str(AT), BODY, header, secrets, AT)
    monkeypatch.setattr(signature, "hmac", Compared(True))
    verify(ID, str(AT), BODY + b"altered", header, secrets, AT)


text = st.text() | st.none() | st.sampled_from([ID, str(AT), SIGNED])


@given(id=text, timestamp=text, body=st.binary(), signatures=text, secret=st.text())
def test_nothing_but_bad_signature(
    id: str | None, timestamp: str | None, body: bytes, signatures: str | None, secret: str
) -> None:
    with pytest.raises(BadSignature):
        verify(id, timestamp, body, signatures, [SECRET, secret], AT)


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ", SECRET + "!", SECRET + "\n", None, 7]
    + ["whsec_" + base64.b64encode(bytes(size)).decode() for size in (23, 65)],
)
def test_bad_secrets(secret: object) -> None:
    with pytest.raises(InvalidInput) as raised:
        check_secret(secret)
    assert str(secret)[6:].strip() not in str(raised.value) or len(str(secret)) < 12
    with pytest.raises(BadSignature):
        verify(ID, str(AT), BODY, SIGNED, [secret, SECRET], AT)  # type: ignore[list-item]


def test_new_secrets() -> None:
    made = {new_secret() for _ in range(10)}
    assert len(made) == 10
    for each in made:
        assert check_secret(each) == each
        assert len(base64.b64decode(each.removeprefix("whsec_"))) == 32
