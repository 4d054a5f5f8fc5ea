-- How far the latest attempt is, as its handler said. Not in an index, so that writing it moves no index entry.
alter table holdfast.inbox add column progress jsonb;
