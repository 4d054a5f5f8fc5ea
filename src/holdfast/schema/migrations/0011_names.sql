-- Names.

-- A job that was cancelled is shown as cancelled even before it is archived. The value is cast from text when it is read:
-- as a plain literal, servers before PostgreSQL 17 reject it in the transaction that has added it.
create or replace view holdfast.jobs as
    select id, seq, queue, priority, kind, partition_key, partition_bucket, payload, payload_version, headers,
           case when status = 'failed' and cancel_requested_at is not null then 'cancelled'::text::holdfast.inbox_status
                else status end as status,
           attempts, max_attempts, crashes, claimed_by, claimed_at, lease_expires_at, lease_generation, fence,
           available_at, cancel_requested_at, last_error, errors, idempotency_key, null::jsonb as result,
           created_at, coalesce(dead_at, completed_at) as finished_at
    from holdfast.inbox
    union all
    select id, seq, queue, priority, kind, partition_key, partition_bucket, payload, payload_version, headers, status,
           attempts, max_attempts, 0, claimed_by, claimed_at, null, lease_generation, fence,
           available_at, cancel_requested_at, last_error, errors, idempotency_key, result,
           created_at, finished_at
    from holdfast.archive;

update holdfast.chores set name = 'unblock' where name = 'release';
