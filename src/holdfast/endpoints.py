"""Webhook endpoints as an application uses them: add, pause, rotate, test and recover them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from .errors import InvalidInput
from .lazy import LazyModule
from .model.durations import Duration
from .model.limits import check_flag, check_instant, check_int
from .operating import OperatorVerbs

if TYPE_CHECKING:
    from .webhooks import addresses, transport
    from .webhooks import operating as endpoints
    from .webhooks.addresses import Policy
    from .webhooks.operating import EndpointAttempt, EndpointState, NewEndpoint, Recovered
    from .webhooks.transport import Webhooks
else:
    addresses = LazyModule("holdfast.webhooks.addresses")
    endpoints = LazyModule("holdfast.webhooks.operating")
    transport = LazyModule("holdfast.webhooks.transport")

OVERLAP = 24 * 3600.0
"""Seconds for which the old secret stays valid after a rotation."""
Since = datetime | Duration


class EndpointVerbs(OperatorVerbs):
    """What `Holdfast` inherits: webhook endpoints. Each verb awaits; its twin in `_sync` is for code that does not."""

    async def add_endpoint(
        self,
        url: str,
        *,
        types: Sequence[str] = ("*",),
        tenant: str | None = None,
        ordered: bool = False,
        description: str | None = None,
        secret: str | None = None,
        policy: Policy | None = None,
    ) -> NewEndpoint:
        """Add a webhook endpoint. Events that are published from now on are sent to it.

        `types` are those of a route: `["order.paid", "invoice.*"]`. `tenant`: only events of this tenant; None: only
        events without one; `"*"`: all. With `ordered`, events with the same key are sent one at a time and in order;
        the route must be ordered, too. `secret` is made if you pass none. `policy` allows URLs that are not public:
        `Webhooks(allow_http=True).policy`.

        ```python
        added = await hf.add_endpoint("https://hooks.example/orders", types=["order.*"], tenant="acme")
        print(added.secret)  # shown once
        ```
        """
        check_flag("ordered", ordered)
        return await endpoints.add(
            self._calls, url, types=types, tenant=tenant, ordered=ordered, description=description, secret=secret,
            policy=policy if policy is not None else addresses.Policy(),
        )  # fmt: skip

    def add_endpoint_sync(
        self,
        url: str,
        *,
        types: Sequence[str] = ("*",),
        tenant: str | None = None,
        ordered: bool = False,
        description: str | None = None,
        secret: str | None = None,
        policy: Policy | None = None,
    ) -> NewEndpoint:
        """As `add_endpoint`, for code that does not await."""
        return self._calls.wait_for(
            self.add_endpoint(
                url, types=types, tenant=tenant, ordered=ordered, description=description, secret=secret, policy=policy
            )
        )

    async def list_endpoints(self, tenant: str | None = None) -> list[EndpointState]:
        """Webhook endpoints, of one tenant or of all; at most 1,000.

        ```python
        for endpoint in await hf.list_endpoints():
            print(endpoint.url, endpoint.status, endpoint.held)
        ```
        """
        return await endpoints.states(self._calls, tenant=tenant)

    def list_endpoints_sync(self, tenant: str | None = None) -> list[EndpointState]:
        """As `list_endpoints`, for code that does not await."""
        return self._calls.wait_for(self.list_endpoints(tenant))

    async def endpoint(self, id: UUID) -> EndpointState:
        """One webhook endpoint.

        ```python
        endpoint = await hf.endpoint(added.id)
        ```
        """
        return await endpoints.state(self._calls, id)

    def endpoint_sync(self, id: UUID) -> EndpointState:
        """As `endpoint`, for code that does not await."""
        return self._calls.wait_for(self.endpoint(id))

    async def pause_endpoint(self, id: UUID) -> int:
        """Send nothing to an endpoint until it is resumed. Nothing is lost: its events wait. Returns how many do.

        ```python
        await hf.pause_endpoint(added.id)
        ```
        """
        return await endpoints.pause(self._calls, id)

    def pause_endpoint_sync(self, id: UUID) -> int:
        """As `pause_endpoint`, for code that does not await."""
        return self._calls.wait_for(self.pause_endpoint(id))

    async def resume_endpoint(self, id: UUID) -> int:
        """Send to a paused endpoint again, first what has waited. Returns how many events had.

        ```python
        await hf.resume_endpoint(added.id)
        ```
        """
        return await endpoints.resume(self._calls, id)

    def resume_endpoint_sync(self, id: UUID) -> int:
        """As `resume_endpoint`, for code that does not await."""
        return self._calls.wait_for(self.resume_endpoint(id))

    async def disable_endpoint(self, id: UUID, reason: str = "disabled by an operator") -> int:
        """Send nothing to an endpoint, and keep no new events for it. What waits now is held. Returns how many.

        ```python
        await hf.disable_endpoint(added.id, "the customer has left")
        ```
        """
        return await endpoints.disable(self._calls, id, reason)

    def disable_endpoint_sync(self, id: UUID, reason: str = "disabled by an operator") -> int:
        """As `disable_endpoint`, for code that does not await."""
        return self._calls.wait_for(self.disable_endpoint(id, reason))

    async def enable_endpoint(self, id: UUID) -> int:
        """Use a disabled endpoint again, first for what was held. Returns how many events were.

        Events that were published while it was disabled: see `recover_endpoint`.

        ```python
        await hf.enable_endpoint(added.id)
        ```
        """
        return await endpoints.enable(self._calls, id)

    def enable_endpoint_sync(self, id: UUID) -> int:
        """As `enable_endpoint`, for code that does not await."""
        return self._calls.wait_for(self.enable_endpoint(id))

    async def rotate_endpoint_secret(
        self, id: UUID, *, overlap: Duration = OVERLAP, force: bool = False, secret: str | None = None
    ) -> str:
        """Give an endpoint a new secret, and return it; it is not shown again. Requests are signed with both for 24 h.

        `overlap` is another time than that. While the old secret is valid, another rotation needs `force`.

        ```python
        secret = await hf.rotate_endpoint_secret(added.id)
        ```
        """
        check_flag("force", force)
        return await endpoints.rotate(self._calls, id, overlap, force, secret)

    def rotate_endpoint_secret_sync(
        self, id: UUID, *, overlap: Duration = OVERLAP, force: bool = False, secret: str | None = None
    ) -> str:
        """As `rotate_endpoint_secret`, for code that does not await."""
        return self._calls.wait_for(self.rotate_endpoint_secret(id, overlap=overlap, force=force, secret=secret))

    async def test_endpoint(self, id: UUID, webhooks: Webhooks | None = None) -> EndpointAttempt:
        """Send a signed test event to an endpoint, from this process, and return what came of it. Nothing is stored.

        ```python
        attempt = await hf.test_endpoint(added.id)
        print(attempt.status, attempt.error)
        ```
        """
        return await endpoints.test(self._calls, id, webhooks if webhooks is not None else transport.Webhooks())

    def test_endpoint_sync(self, id: UUID, webhooks: Webhooks | None = None) -> EndpointAttempt:
        """As `test_endpoint`, for code that does not await."""
        return self._calls.wait_for(self.test_endpoint(id, webhooks))

    async def endpoint_attempts(self, id: UUID, *, since: Since = "1d", limit: int = 100) -> list[EndpointAttempt]:
        """Attempts to deliver to an endpoint, newest first; `since` is a time, or how long ago.

        ```python
        for attempt in await hf.endpoint_attempts(added.id, since="1h"):
            print(attempt.at, attempt.event, attempt.status, attempt.ms)
        ```
        """
        return await endpoints.attempts(self._calls, id, endpoints.instant(since), check_int("limit", limit, 1, 10_000))

    def endpoint_attempts_sync(self, id: UUID, *, since: Since = "1d", limit: int = 100) -> list[EndpointAttempt]:
        """As `endpoint_attempts`, for code that does not await."""
        return self._calls.wait_for(self.endpoint_attempts(id, since=since, limit=limit))

    async def recover_endpoint(self, id: UUID, *, since: Since) -> Recovered:
        """Resend what has failed permanently since then, and what was published while the endpoint was disabled.

        ```python
        await hf.recover_endpoint(added.id, since="3d")
        ```
        """
        return await endpoints.recover(self._calls, id, endpoints.instant(since))

    def recover_endpoint_sync(self, id: UUID, *, since: Since) -> Recovered:
        """As `recover_endpoint`, for code that does not await."""
        return self._calls.wait_for(self.recover_endpoint(id, since=since))

    async def replay_endpoint(
        self,
        id: UUID,
        *,
        since: Since | None = None,
        until: datetime | None = None,
        types: Sequence[str] = (),
        event: UUID | None = None,
    ) -> int:
        """Send events to one endpoint once more: those published in a time, or one. Returns how many.

        They keep their ids, so a receiver that has counted one drops it. Only events that the endpoint would get now
        are sent: those of its tenant and of its types. If it is not active, they wait until it is.

        ```python
        again = await hf.replay_endpoint(added.id, since="2h", types=["order.paid"])
        ```
        """
        if since is None and event is None:
            raise InvalidInput("since", "expected a time, or event=…: which events are meant?")
        first = endpoints.instant(since) if since is not None else datetime.min.replace(tzinfo=UTC)
        last = check_instant("until", until) if until is not None else datetime.now(UTC) + timedelta(hours=1)
        counts = [count async for count in endpoints.replay(self._calls, id, first, last, tuple(types), event)]
        return counts[-1] if counts else 0

    def replay_endpoint_sync(
        self,
        id: UUID,
        *,
        since: Since | None = None,
        until: datetime | None = None,
        types: Sequence[str] = (),
        event: UUID | None = None,
    ) -> int:
        """As `replay_endpoint`, for code that does not await."""
        return self._calls.wait_for(self.replay_endpoint(id, since=since, until=until, types=types, event=event))
