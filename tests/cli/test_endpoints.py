"""`holdfast endpoint …`."""

import re

from tests.cli.conftest import Shell


def test_the_life_of_an_endpoint(shell: Shell) -> None:
    assert shell("endpoint", "list").out.startswith("no endpoints")
    added = shell("endpoint", "add", "https://example.com/hook", "--type", "order.*", "--type", "user.added",
                  "--tenant", "acme", "--description", "orders").out  # fmt: skip
    found = re.search(r"endpoint  (\S+)\nsecret    (whsec_\S+)\n.*not shown again", added)
    assert found is not None, added
    endpoint, secret = found.groups()

    (listed,) = shell("endpoint", "list", "--json").json
    assert (listed["id"], listed["types"], listed["status"], listed["held"]) == (
        endpoint, ["order.*", "user.added"], "active", 0,
    )  # fmt: skip
    shown = shell("endpoint", "show", endpoint)
    assert "order.*, user.added" in shown.out and "acme" in shown.out
    assert shell("endpoint", "show", endpoint, "--json").json["description"] == "orders"
    assert secret not in shown.out + shell("endpoint", "list").out + shell("endpoint", "list", "--json").out

    assert "paused; 0 events wait" in shell("endpoint", "pause", endpoint, "--yes").out
    assert "paused" in shell("endpoint", "list").out
    assert "active; 0 events had waited" in shell("endpoint", "resume", endpoint).out
    assert "disabled; 0 events are held" in shell(
        "endpoint", "disable", endpoint, "--yes", "--reason", "they left").out  # fmt: skip
    assert "they left" in shell("endpoint", "show", endpoint).out
    assert "is disabled" in shell("endpoint", "resume", endpoint).err
    assert "active" in shell("endpoint", "enable", endpoint).out

    rotated = shell("endpoint", "rotate", endpoint, "--yes", "--json").json["secret"]
    assert rotated.startswith("whsec_") and rotated != secret
    again = shell("endpoint", "rotate", endpoint, "--yes")
    assert (again.code, "--force" in again.err) == (1, True)
    assert "secret    whsec_" in shell("endpoint", "rotate", endpoint, "--yes", "--force").out

    assert shell("endpoint", "attempts", endpoint).out == "no attempts\n"
    assert shell("endpoint", "attempts", endpoint, "--json").json == []
    assert shell("endpoint", "recover", endpoint, "--since", "3d", "--yes", "--json").json == {
        "revived": 0,
        "missed": 0,
    }
    assert "0 events would be sent" in shell("endpoint", "replay", endpoint, "--since", "2h", "--dry-run").out
    event = "00000000-0000-7000-8000-000000000000"
    assert shell("endpoint", "replay", endpoint, "--event", event, "--yes", "--json").json == {
        "endpoint": endpoint, "events": 0, "dry_run": False,
    }  # fmt: skip
    assert "expected --since" in shell("endpoint", "replay", endpoint, "--yes").err


def test_a_test_and_mistakes(shell: Shell) -> None:
    private = shell("endpoint", "add", "https://127.0.0.1/")
    assert (private.code, "is not a public address" in private.err) == (1, True)
    plain = shell("endpoint", "add", "http://127.0.0.1:9/")
    assert (plain.code, "expected https" in plain.err, "--allow-http" in plain.err) == (1, True, True)
    port = shell("endpoint", "add", "https://127.0.0.1:9/")
    assert (port.code, "port 9 is not allowed" in port.err, "--any-port" in port.err) == (1, True, True)
    added = shell("endpoint", "add", "http://127.0.0.1:9/", "--allow-http", "--allow-private", "--any-port", "--json")
    endpoint = added.json["id"]
    refused = shell("endpoint", "test", endpoint)
    assert (refused.code, "not taken: url: expected https" in refused.out) == (1, True), refused.all
    assert " ms" not in refused.out and "no address" not in refused.out, "nothing was sent"
    away = shell("endpoint", "test", endpoint, "--allow-http", "--allow-private", "--any-port")
    assert (away.code, "not taken: " in away.out) == (1, True)
    again = shell("endpoint", "add", "http://127.0.0.1:9/", "--allow-http", "--allow-private", "--any-port")
    assert (again.code, "there is already an endpoint" in again.err) == (1, True)
    missing = shell("endpoint", "show", "00000000-0000-7000-8000-000000000000")
    assert (missing.code, "There is no endpoint" in missing.err) == (1, True)
    assert "expected an endpoint id" in shell("endpoint", "show", "nightly").err
