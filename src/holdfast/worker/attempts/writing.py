"""Write endings of any kind: of jobs, of convoys, of children that a workflow waits for, and of runs of workflows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ...db.runner import Runner
from ...inbox import convoys, ending
from ...model.convoy import Convoy
from ...model.flow import PARENT, AnyOutcome, FlowEnd, FlowOutcome, Parked
from ...model.job import Claim
from ...model.keep import Keep, as_installed
from ...model.outcome import DONE, Completed, Ended, Outcome
from ...model.report import Report
from ...workflow import ending as flow_ending


async def write(
    runner: Runner,
    endings: Sequence[tuple[Claim, AnyOutcome | Convoy]],
    repeated: bool = False,
    keep: Keep[Claim] = as_installed,
) -> Report[Claim]:
    """Write the endings of one worker; see `inbox.ending.write`."""
    if not [1 for claim, outcome in endings if outcome is not DONE or claim.headers is not None]:  # the usual batch
        return await ending.write(runner, cast("Sequence[tuple[Claim, Outcome]]", endings), repeated, keep)
    jobs: list[tuple[Claim, Outcome]] = []
    flows: list[tuple[Claim, FlowOutcome]] = []
    children: list[tuple[Claim, Completed | Ended | FlowEnd]] = []
    whole: list[Convoy] = []
    for claim, outcome in endings:
        if isinstance(outcome, (Completed, Ended, FlowEnd)) and claim.headers is not None and PARENT in claim.headers:
            children.append((claim, outcome))
        elif isinstance(outcome, (Parked, FlowEnd)):
            flows.append((claim, outcome))
        elif isinstance(outcome, Convoy):
            whole.append(outcome)
        else:
            jobs.append((claim, outcome))
    if not flows and not children and not whole:
        return await ending.write(runner, jobs, repeated, keep)
    report: Report[Claim] = await ending.write(runner, jobs, repeated, keep) if jobs else Report()
    if whole:
        report.add(await convoys.end(runner, whole, repeated))
    if flows:
        report.add(await flow_ending.write(runner, flows, repeated, keep))
    if children:
        report.add(await flow_ending.end_children(runner, children, repeated, keep))
    return report
