"""An installation with rows of every kind."""

from holdfast.db.database import Connection

SHARES = {
    # status, ordered, owned, attempts, crashes: of a thousand rows
    "pending false false 0 0": 598,
    "pending true false 0 0": 150,
    "pending false true 0 0": 100,
    "blocked true false 0 0": 100,
    "processing false false 1 0": 20,
    "processing true false 1 0": 10,
    "dead_letter false false 5 0": 10,
    "pending false false 1 1": 4,
    "pending false false 5 0": 4,
    "completed false false 1 0": 4,
}

_ROWS = """
    insert into holdfast.inbox (
        partition_key, partition_bucket, queue, priority, payload, status, ordered, owned, attempts, crashes,
        available_at, claimed_by, claimed_at, lease_expires_at, lease_generation, idempotency_key, dead_at,
        completed_at, expires_at)
    select case when not $3::boolean or $2::text = 'processing' then concat($2::text, n)
                else 'key ' || n % ($1::int / 5 + 1) end,
           n % 1024, case when n % 10 = 0 then 'mail' else 'default' end, 1, '{"type": "job", "note": "some words"}',
           $2::text::holdfast.inbox_status, $3::boolean, $4::boolean, $5::int, $6::int,
           now() - interval '1 hour' + n * interval '3 milliseconds',
           case when $2::text = 'processing' then 'w' || n % 20 end, case when $2::text = 'processing' then now() end,
           case when $2::text = 'processing' then now() + n * interval '1 millisecond' end, 1,
           case when n % 4 = 0 then concat($2::text, $3::boolean, $4::boolean, $5::int, $6::int, n) end,
           case when $2::text = 'dead_letter' then now() end, case when $2::text = 'completed' then now() end,
           case when n % 20 = 0 then now() + (n - $1::int / 2) * interval '1 second' end
    from generate_series(1, $1::int) n
"""

_OTHERS = """
    insert into holdfast.dedupe (key, job_id, kind, payload_hash, expires_at)
    select 'd' || n, gen_random_uuid(), 'job', '\\x00', case when n % 2 = 0 then now() + n * interval '1 second' end
    from generate_series(1, {rows}) n;
    insert into holdfast.once (key, job_id, fence, entered_at, done_at)
    select 'o' || n, gen_random_uuid(), n, now(), case when n % 2 = 0 then now() end from generate_series(1, {rows}) n;
    insert into holdfast.archive (
        id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, status, attempts,
        max_attempts, claimed_by, lease_generation, available_at, created_at, finished_at)
    select gen_random_uuid(), n, 'k', 1, 'default', 1, 'job', '{{"type": "job"}}', 1, 'completed', 1, 5, 'w1', 1, now(),
           now(), now() + n % 3 * interval '1 day'
    from generate_series(1, {rows}) n
"""


async def fill(connection: Connection, thousands: int) -> None:
    """So many thousand rows in the inbox, and a fifth of that in each of the other tables that grow."""
    for words, share in SHARES.items():
        status, ordered, owned, attempts, crashes = words.split()
        await connection.execute(
            _ROWS,
            share * thousands,
            status,
            ordered == "true",
            owned == "true",
            int(attempts),
            int(crashes),
            timeout=300,
        )
    await connection.execute(_OTHERS.format(rows=200 * thousands), timeout=300)
