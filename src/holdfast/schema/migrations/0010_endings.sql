-- The archive says how a job ended: completed, failed by its handler, cancelled, expired, or discarded by an operator.
-- A separate migration, because these values can be used only after it has committed.
alter type holdfast.inbox_status add value 'cancelled';
alter type holdfast.inbox_status add value 'expired';
alter type holdfast.inbox_status add value 'discarded';
