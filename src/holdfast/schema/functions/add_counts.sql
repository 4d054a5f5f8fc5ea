-- Add two histograms, bucket by bucket; one may have fewer buckets.
create or replace function holdfast.add_counts(one bigint[], other bigint[]) returns bigint[]
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
    as $$
begin
    return array(
        select coalesce(u.one, 0) + coalesce(u.other, 0)
        from unnest(one, other) with ordinality as u (one, other, bucket)
        order by u.bucket);
end
$$;
