-- The claim age of each queue in which something is due, in seconds: now, not as it was measured.
-- Index    see holdfast.claim_ages().
select a.queue, a.age from holdfast.claim_ages(array(select q from holdfast.waiting_queues() q)) a
