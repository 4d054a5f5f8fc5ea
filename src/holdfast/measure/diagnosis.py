"""The bottleneck, and the one thing to change: a pure function of what was measured.

The checks run in this order: dead rows that cannot be removed, then the user's own handlers, then the network and the
disk of the server. Only if all of these are good is the drain itself examined, and the largest part of its time named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .measurements import Holder, Installation, Measurements, Server

SLOW_TRIP = 1.0
"""Milliseconds of a round trip; within one network zone, it takes a fraction of that."""
SLOW_FLUSH = 5.0
"""Milliseconds of a commit without its round trip; an SSD takes 0.1 to 3."""
SLOWING = 0.6
"""Share of the first quarter's rate: if the last quarter is below it, dead rows slow the drain down."""
SLOWING_JOBS = 50_000
"""With fewer jobs, a slow quarter may be chance."""
MANY_DEAD = 100_000
DEAD_TO_LIVE = 5
BACKLOG_AGE = 10.0
"""Claim age in seconds from which due jobs are a backlog."""
NO_HAND_FREE = 0.8
"""Share of their concurrency that workers use from which they count as full."""
FAR_BELOW = 0.25
"""Share of the rate measured here: workers with a backlog and a lower rate are limited by their handlers."""
BUSY = 0.7
"""Share of a core: a worker process above it is limited by its own CPU."""
IDLE = 0.4
"""Share of a core: a worker process below it is waiting."""
LONG_TRIP = 0.3
"""Milliseconds of a round trip from which it is the cause if both sides wait."""
JUMPY = 10.0
"""A commit's 99th percentile over its median, from which checkpoints are mentioned."""
BUSY_MACHINE = 1.0
"""Load per core from which measurements on this machine are poor."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    bottleneck: str
    """One word for machines: horizon, bloat, handler, network, commit, client_cpu, server_cpu, disk or lock."""
    title: str
    why: str
    """The reason, with the figures."""
    setting: str
    """The one thing to change."""
    how: str
    notes: tuple[str, ...] = ()
    """Other findings."""


def diagnose(found: Measurements) -> Diagnosis:
    for look in (_dead_rows, _handler, _slow_trip, _flush):
        diagnosis = look(found)
        if diagnosis is not None:
            break
    else:
        diagnosis = _drain(found)
    notes = tuple(_notes(found, diagnosis.bottleneck))
    return Diagnosis(
        diagnosis.bottleneck, diagnosis.title, diagnosis.why, diagnosis.setting, diagnosis.how, diagnosis.notes + notes
    )


# Dead rows


def _dead_rows(found: Measurements) -> Diagnosis | None:
    drain, own, holders = found.drain, found.installation, found.server.holders
    slowing = drain.jobs >= SLOWING_JOBS and drain.last_quarter < SLOWING * drain.first_quarter
    full = own is not None and own.dead_rows >= max(MANY_DEAD, DEAD_TO_LIVE * own.live_rows)
    why = []
    if slowing:
        why.append(
            f"the drain slowed down from {drain.first_quarter:,.0f} to {drain.last_quarter:,.0f} jobs/s "
            "as dead rows piled up"
        )
    if full and own is not None:
        why.append(f"the inbox of {own.schema} has {own.dead_rows:,} dead rows beside {own.live_rows:,} live ones")
    if holders and why:
        setting, how = _release(holders[0], found.server)
        return Diagnosis(
            "horizon", "something holds the xmin horizon",
            f"{_sentence(why)} Vacuum cannot remove them because of {_named(holders[0])}.", setting, how,
        )  # fmt: skip
    if full and own is not None:
        off = found.server.settings.get("autovacuum") == "off"
        return Diagnosis(
            "bloat", "dead rows that are not removed", _sentence(why),
            "autovacuum" if off else "autovacuum_max_workers",
            "Turn it on: alter system set autovacuum = on; select pg_reload_conf()." if off else
            "Autovacuum does not reach this table: raise autovacuum_max_workers, restart the server, and run this "
            f"once now: vacuum {own.schema}.inbox.",
        )  # fmt: skip
    return None


def _release(holder: Holder, server: Server) -> tuple[str, str]:
    """Return how to end it, and how to prevent it from happening again."""
    match holder.kind:
        case "session":
            unlimited = server.settings.get("idle_in_transaction_session_timeout", "0") == "0"
            later = (
                " Then set idle_in_transaction_session_timeout (now: none), for example to '5min', for its role."
                if unlimited
                else ""
            )
            end = f"End it if it is not needed: select pg_terminate_backend({holder.name}).{later}"
            return "idle_in_transaction_session_timeout", end
        case "prepared transaction":
            return "max_prepared_transactions", f"End it: rollback prepared '{holder.name}' (or commit prepared)."
        case "replication slot":
            return "pg_replication_slots", f"If its consumer is gone: select pg_drop_replication_slot('{holder.name}')."
        case _:
            return "hot_standby_feedback", "A query on the standby holds it: end that, or turn the feedback off there."


def _named(holder: Holder) -> str:
    age = f", for {holder.seconds:,.0f} s" if holder.seconds is not None else ""
    return f"{holder.kind} {holder.name} ({holder.what}{age})"


# The handlers of the installation


def _handler(found: Measurements) -> Diagnosis | None:
    own = found.installation
    if own is None or own.due == 0 or own.claim_age < BACKLOG_AGE:
        return None
    if own.busy < NO_HAND_FREE or own.rate >= FAR_BELOW * found.drain.rate:
        return None
    return Diagnosis(
        "handler", "your handlers",
        f"{own.due:,} jobs of {own.schema} are due, the oldest for {own.claim_age:,.0f} s, and {_workers(own)}, at "
        f"full concurrency, end {own.rate:,.0f} jobs/s. Here, one worker process ends {found.drain.rate:,.0f} jobs/s "
        "that do nothing. So the database is not the limit.",
        "--concurrency",
        "Handlers that wait (HTTP, mail): raise holdfast worker --concurrency. Handlers that compute: raise "
        "--processes, up to the number of cores. Or make the handlers faster.",
    )  # fmt: skip


def _workers(own: Installation) -> str:
    return "its one live worker" if own.live_workers == 1 else f"its {own.live_workers} live workers"


# The network, and the disk of the server


def _slow_trip(found: Measurements) -> Diagnosis | None:
    trip = found.round_trip.p50
    return _network(found) if trip >= SLOW_TRIP and trip >= found.flush else None


def _network(found: Measurements) -> Diagnosis:
    trip = found.round_trip.p50
    between = " There is a pooler in between, which is part of it." if found.server.pooler else ""
    return Diagnosis(
        "network", "the network round trip",
        f"A round trip to the server takes {_ms(trip)}, of the {_ms(found.commit.p50)} of a commit. In one network "
        f"zone, it takes less than 0.5 ms.{between}",
        "HOLDFAST_DATABASE_URL",
        "Run workers and producers next to the server (same zone, no VPN or tunnel in between). Until then, enqueue "
        "many jobs per call with enqueue_many, and raise holdfast worker --processes, so that round trips overlap.",
    )  # fmt: skip


def _flush(found: Measurements) -> Diagnosis | None:
    if found.flush < SLOW_FLUSH:
        return None
    return _commit(
        found,
        f"A commit takes {_ms(found.commit.p50)} (99 %: {_ms(found.commit.p99)}), of which the round trip is "
        f"{_ms(found.round_trip.p50)}.",
    )


def _commit(found: Measurements, why: str) -> Diagnosis:
    settings = found.server.settings
    delay = int(settings.get("commit_delay", "0"))
    standbys = settings.get("synchronous_standby_names", "")
    if delay / 1000 >= found.flush / 4 and delay:
        setting = "commit_delay"
        how = (
            f"It makes every commit wait {_ms(delay / 1000)} for others. Set it to 0: "
            "alter system set commit_delay = 0; select pg_reload_conf()."
        )
    elif standbys and settings.get("synchronous_commit") != "local":
        setting = "synchronous_standby_names"
        how = (
            f"Every commit waits for a standby ({standbys}). Move the standby closer. If jobs may be lost "
            "when the primary's disk is lost, set synchronous_commit = local for this role."
        )
    elif found.commit.p99 >= JUMPY * found.commit.p50 and found.checkpoints_asked:
        setting = "max_wal_size"
        how = _larger_wal(found)
    else:
        setting = "the disk of pg_wal"
        how = (
            "Each commit waits for a write to that disk: put pg_wal on a local or faster disk (more IOPS). Until then, "
            "enqueue many jobs per call with enqueue_many: a thousand share one commit. Do not turn fsync off."
        )
    return Diagnosis("commit", "commit latency", why, setting, how)


def _larger_wal(found: Measurements) -> str:
    return (
        f"{found.checkpoints_asked} checkpoints came early, because max_wal_size "
        f"({found.server.settings.get('max_wal_size', 'unknown')}) was reached. Raise it, for example to 8GB."
    )


# The drain itself


def _drain(found: Measurements) -> Diagnosis:
    """Name the largest part of the sessions' time; if they wait for the worker, that is the worker's CPU."""
    sessions = found.drain.sessions
    parts: dict[Callable[[Measurements], Diagnosis], float] = {
        _server_cpu: sessions.cpu,
        _commits_of_drain: sessions.commit,
        _disk: sessions.disk,
        _lock: sessions.lock,
        _client_cpu: sessions.idle,
    }
    if found.drain.worker_cpu >= BUSY:
        return _client_cpu(found)
    largest = max(parts, key=lambda part: parts[part])
    if largest is _client_cpu and found.drain.worker_cpu < IDLE and found.round_trip.p50 >= LONG_TRIP:
        return _network(found)  # both sides are idle during the trip
    return largest(found)


def _client_cpu(found: Measurements) -> Diagnosis:
    speed = "" if found.uvloop else " And install holdfast[speed], a faster event loop."
    return Diagnosis(
        "client_cpu", "CPU of the worker process",
        f"One worker process ends {found.drain.rate:,.0f} jobs/s that do nothing and uses {found.drain.worker_cpu:.0%} "
        f"of a core; its sessions at the server wait for it {found.drain.sessions.idle:.0%} of the time.",
        "--processes",
        f"Raise holdfast worker --processes, up to the number of cores (here {found.cores}).{speed} If your jobs take "
        "longer than a millisecond, this does not limit them: look at the handlers.",
    )  # fmt: skip


def _server_cpu(found: Measurements) -> Diagnosis:
    return Diagnosis(
        "server_cpu", "CPU of the server",
        f"One worker process ends {found.drain.rate:,.0f} jobs/s that do nothing. Its sessions compute "
        f"{found.drain.sessions.cpu:.0%} of the time, wait for commits {found.drain.sessions.commit:.0%} and for the "
        f"worker {found.drain.sessions.idle:.0%}.",
        "cores of the server",
        "If that rate is enough, change nothing. For more, give the server more or faster cores; more worker processes "
        "help only while it has idle ones. If your jobs are much slower than this, look at the handlers.",
    )  # fmt: skip


def _commits_of_drain(found: Measurements) -> Diagnosis:
    return _commit(
        found,
        f"The worker's sessions wait for commits {found.drain.sessions.commit:.0%} of the time, at "
        f"{_ms(found.commit.p50)} each, and end {found.drain.rate:,.0f} jobs/s that do nothing.",
    )


def _disk(found: Measurements) -> Diagnosis:
    return Diagnosis(
        "disk", "reads and writes of the server's disk",
        f"The worker's sessions wait for data files {found.drain.sessions.disk:.0%} of the time.",
        "shared_buffers",
        f"It is {found.server.settings.get('shared_buffers', 'unknown')}. Raise it to a quarter of the server's "
        "memory, and restart the server.",
    )  # fmt: skip


def _lock(found: Measurements) -> Diagnosis:
    return Diagnosis(
        "lock", "locks inside the server",
        f"The worker's sessions wait for locks {found.drain.sessions.lock:.0%} of the time: other work on this server "
        "holds them.",
        "max_connections",
        "Let fewer sessions work at the same time: fewer worker processes, smaller pools, or a pooler. "
        "select wait_event, count(*) from pg_stat_activity group by 1 shows what they wait for.",
    )  # fmt: skip


# Other findings


def _notes(found: Measurements, bottleneck: str) -> Iterator[str]:
    settings, holders = found.server.settings, found.server.holders
    if holders and bottleneck != "horizon":
        more = f" and {len(holders) - 1} more" if len(holders) > 1 else ""
        yield (
            f"The xmin horizon is held by {_named(holders[0])}{more}: until it ends, vacuum removes no dead rows, and "
            "tables grow. Claims stay fast."
        )
    if settings.get("autovacuum") == "off" and bottleneck != "bloat":
        yield "autovacuum is off: tables and indexes grow without limit. Turn it on."
    if found.checkpoints_asked and "max_wal_size" in settings and bottleneck != "commit":
        yield _larger_wal(found)
    if found.server.pooler:
        yield "There is a pooler in between, so there are no wake-ups: an idle worker starts a job within --poll."
    if settings.get("synchronous_commit") == "local" and settings.get("synchronous_standby_names"):
        yield "synchronous_commit is local: jobs may be lost when the primary's disk is lost."
    if found.load > BUSY_MACHINE * found.cores:
        yield (
            f"This machine was busy before the run began (load {found.load:.1f} on {found.cores} cores): on a quiet "
            "machine, the figures are better."
        )
    if found.drain.sessions.looks == 0:
        yield "The worker's sessions were not visible, so what limits the drain is a guess."


def _sentence(parts: list[str]) -> str:
    words = ", and ".join(parts)
    return f"{words[0].upper()}{words[1:]}."


def _ms(value: float) -> str:
    return f"{value:.2f} ms" if value < 10 else f"{value:,.0f} ms"
