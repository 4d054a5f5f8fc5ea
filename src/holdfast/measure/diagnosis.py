"""The bottleneck, and the one thing to change: a pure function of what was measured.

What outlasts everything else comes first: dead rows that cannot be removed, then the user's own handlers, then the way
to the server and its disk. Only when all of those are as they should be is the drain itself looked at, and the largest
part of its time named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .measurements import Holder, Installation, Measurements, Server

SLOW_TRIP = 1.0
"""Milliseconds of a round trip; within one network zone it is a fraction of that."""
SLOW_FLUSH = 5.0
"""Milliseconds of a commit beyond its trip; an SSD takes 0.1 to 3."""
SLOWING = 0.6
"""Of the drain's first quarter: a last quarter below that is a drain that gets slower as dead rows pile up."""
SLOWING_JOBS = 50_000
"""In fewer jobs than that, a slow quarter is chance."""
MANY_DEAD = 100_000
DEAD_TO_LIVE = 5
BACKLOG_AGE = 10.0
"""Seconds from which due jobs that wait are a backlog."""
NO_HAND_FREE = 0.8
"""Share of the running jobs from which workers cannot start more."""
FAR_BELOW = 0.25
"""Of the rate that was measured here: workers with a backlog that do less are held up by their handlers."""
BUSY = 0.7
"""Of a core: a worker process above that is held up by itself."""
IDLE = 0.4
"""Of a core: a worker process below that waits."""
LONG_TRIP = 0.3
"""Milliseconds of a round trip from which two sides that both wait are waiting for it."""
JUMPY = 10.0
"""A commit's 99th percentile over its median from which checkpoints are worth a word."""
BUSY_MACHINE = 1.0
"""Load per core from which this machine is a poor place to measure from."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    bottleneck: str
    """One word for machines: horizon, bloat, handler, network, commit, client_cpu, server_cpu, disk or lock."""
    title: str
    why: str
    """With the figures that say so."""
    setting: str
    """The one thing to change."""
    how: str
    notes: tuple[str, ...] = ()
    """What else was seen."""


def diagnose(found: Measurements) -> Diagnosis:
    for look in (_dead_rows, _handler, _way, _flush):
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
            "horizon", "somebody holds the xmin horizon",
            f"{_sentence(why)} Vacuum may not remove them because of {_named(holders[0])}.", setting, how,
        )  # fmt: skip
    if full and own is not None:
        off = found.server.settings.get("autovacuum") == "off"
        return Diagnosis(
            "bloat", "dead rows that nobody removes", _sentence(why),
            "autovacuum" if off else "autovacuum_max_workers",
            "Turn it on: alter system set autovacuum = on; select pg_reload_conf()." if off else
            "Autovacuum does not get round to this table: raise autovacuum_max_workers, restart the server, and run "
            f"once now: vacuum {own.schema}.inbox.",
        )  # fmt: skip
    return None


def _release(holder: Holder, server: Server) -> tuple[str, str]:
    """How to end it, and how to keep it from coming back."""
    match holder.kind:
        case "session":
            unlimited = server.settings.get("idle_in_transaction_session_timeout", "0") == "0"
            later = (
                " Then set idle_in_transaction_session_timeout (now: none), such as '5min', for the role that did it."
                if unlimited
                else ""
            )
            end = f"End it, if nobody needs it: select pg_terminate_backend({holder.name}).{later}"
            return "idle_in_transaction_session_timeout", end
        case "prepared transaction":
            return "max_prepared_transactions", f"End it: rollback prepared '{holder.name}' (or commit prepared)."
        case "replication slot":
            return "pg_replication_slots", f"If its reader is gone: select pg_drop_replication_slot('{holder.name}')."
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
        f"{own.due:,} jobs of {own.schema} are due, the oldest for {own.claim_age:,.0f} s, and {_workers(own)}, all "
        f"hands busy, end {own.rate:,.0f} jobs/s; one worker process ends {found.drain.rate:,.0f} jobs/s here "
        "when they do nothing. The database is not what they wait for.",
        "--concurrency",
        "Handlers that wait (HTTP, mail): raise holdfast worker --concurrency. Handlers that compute: raise "
        "--processes, up to the number of cores. Or make them shorter.",
    )  # fmt: skip


def _workers(own: Installation) -> str:
    return "its one live worker" if own.live_workers == 1 else f"its {own.live_workers} live workers"


# The way to the server, and its disk


def _way(found: Measurements) -> Diagnosis | None:
    trip = found.round_trip.p50
    return _network(found) if trip >= SLOW_TRIP and trip >= found.flush else None


def _network(found: Measurements) -> Diagnosis:
    trip = found.round_trip.p50
    between = " There is a pooler in between, which is part of the way." if found.server.pooler else ""
    return Diagnosis(
        "network", "the network round trip",
        f"A trip to the server and back takes {_ms(trip)}, of the {_ms(found.commit.p50)} of a commit. In one network "
        f"zone it takes less than 0.5 ms.{between}",
        "HOLDFAST_DATABASE_URL",
        "Run workers and producers next to the server (same zone, no VPN or tunnel in between). Until then, enqueue "
        "many jobs per call with enqueue_many, and raise holdfast worker --processes, so that trips overlap.",
    )  # fmt: skip


def _flush(found: Measurements) -> Diagnosis | None:
    if found.flush < SLOW_FLUSH:
        return None
    return _commit(
        found,
        f"A commit takes {_ms(found.commit.p50)} (99 %: {_ms(found.commit.p99)}), of which the trip is "
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
            f"Every commit waits for a standby ({standbys}). Bring the standby closer. Where a job may be lost "
            "together with the primary's disk, set synchronous_commit = local for this role."
        )
    elif found.commit.p99 >= JUMPY * found.commit.p50 and found.checkpoints_asked:
        setting = "max_wal_size"
        how = _larger_wal(found)
    else:
        setting = "the disk of pg_wal"
        how = (
            "Each commit waits until that disk has its write: put pg_wal on a local or faster one (more IOPS). Until "
            "then, enqueue many jobs per call with enqueue_many: a thousand share one commit. Do not turn fsync off."
        )
    return Diagnosis("commit", "commit latency", why, setting, how)


def _larger_wal(found: Measurements) -> str:
    return (
        f"{found.checkpoints_asked} checkpoints came before their time, because max_wal_size "
        f"({found.server.settings.get('max_wal_size', 'unknown')}) was reached. Raise it, such as to 8GB."
    )


# The drain itself


def _drain(found: Measurements) -> Diagnosis:
    """The largest part of the time of the worker's sessions; the worker's own, when they wait for it."""
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
        return _network(found)  # neither side has anything to do meanwhile
    return largest(found)


def _client_cpu(found: Measurements) -> Diagnosis:
    speed = "" if found.uvloop else " And install holdfast[speed], a faster event loop."
    return Diagnosis(
        "client_cpu", "CPU of the worker process",
        f"One worker process ends {found.drain.rate:,.0f} jobs/s that do nothing and uses {found.drain.worker_cpu:.0%} "
        f"of a core; its sessions at the server wait for it {found.drain.sessions.idle:.0%} of the time.",
        "--processes",
        f"Raise holdfast worker --processes, up to the number of cores (here {found.cores}).{speed} If your jobs take "
        "longer than a millisecond, this is not what holds them up: look at the handlers.",
    )  # fmt: skip


def _server_cpu(found: Measurements) -> Diagnosis:
    return Diagnosis(
        "server_cpu", "CPU of the server",
        f"One worker process ends {found.drain.rate:,.0f} jobs/s that do nothing. Its sessions compute "
        f"{found.drain.sessions.cpu:.0%} of the time, wait for commits {found.drain.sessions.commit:.0%} and for the "
        f"worker {found.drain.sessions.idle:.0%}.",
        "cores of the server",
        "If that rate is enough, change nothing. For more, give the server more or faster cores; more worker processes "
        "help only while it has idle ones. If your jobs are far slower than this, look at the handlers.",
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
        f"The worker's sessions wait for locks {found.drain.sessions.lock:.0%} of the time: other work of this server "
        "is in the way.",
        "max_connections",
        "Let fewer sessions work at a time: fewer worker processes, smaller pools, or a pooler. "
        "select wait_event, count(*) from pg_stat_activity group by 1 shows what they wait for.",
    )  # fmt: skip


# What else was seen


def _notes(found: Measurements, bottleneck: str) -> Iterator[str]:
    settings, holders = found.server.settings, found.server.holders
    if holders and bottleneck != "horizon":
        more = f" and {len(holders) - 1} more" if len(holders) > 1 else ""
        yield (
            f"The xmin horizon is held by {_named(holders[0])}{more}: until it ends, no vacuum removes dead rows, and "
            "tables grow. Claims stay fast."
        )
    if settings.get("autovacuum") == "off" and bottleneck != "bloat":
        yield "autovacuum is off: tables and indexes grow for ever. Turn it on."
    if found.checkpoints_asked and "max_wal_size" in settings and bottleneck != "commit":
        yield _larger_wal(found)
    if found.server.pooler:
        yield "A pooler is in between: no wake-ups, so a job on an idle worker starts within --poll."
    if settings.get("synchronous_commit") == "local" and settings.get("synchronous_standby_names"):
        yield "synchronous_commit is local: a job may be lost together with the primary's disk."
    if found.load > BUSY_MACHINE * found.cores:
        yield (
            f"This machine was busy before the run began (load {found.load:.1f} on {found.cores} cores): on a quiet "
            "one the figures are better."
        )
    if found.drain.sessions.looks == 0:
        yield "The worker's sessions could not be seen, so where the drain's time goes is a guess."


def _sentence(parts: list[str]) -> str:
    words = ", and ".join(parts)
    return f"{words[0].upper()}{words[1:]}."


def _ms(value: float) -> str:
    return f"{value:.2f} ms" if value < 10 else f"{value:,.0f} ms"
