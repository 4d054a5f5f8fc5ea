-- Is this kind a workflow, as the workers that run it have declared?
create or replace function holdfast.is_workflow(kind text) returns boolean
    language sql stable parallel safe
    return coalesce((select k.workflow from holdfast.kinds k where k.kind = is_workflow.kind), false);
