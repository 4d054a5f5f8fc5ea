-- What is archived says how a job ended: completed, failed by its handler, cancelled, expired, or discarded by an operator.
-- In a migration of its own: these values can be used once it is committed.
alter type holdfast.inbox_status add value 'cancelled';
alter type holdfast.inbox_status add value 'expired';
alter type holdfast.inbox_status add value 'discarded';
