import {act, go, html, link, moment, part, session, useAsked, useState} from '../lib.js';
import {Button, Code, Errors, Explanation, Facts, Filters, Loading, Status, Table, Time, Title, useDialog} from '../parts.js';

const STATES = [['', 'all live'], ['pending', 'waits'], ['scheduled', 'later'], ['retrying', 'retrying'], ['processing', 'runs'], ['blocked', 'blocked'],
  ['dead_letter', 'dead letter'], ['ended', 'ended'], ['completed', 'completed'], ['failed', 'failed'], ['cancelled', 'cancelled'],
  ['expired', 'expired'], ['discarded', 'discarded']];
const FIELDS = [{name: 'status', label: 'State', options: STATES}, {name: 'queue', label: 'Queue'}, {name: 'kind', label: 'Kind'},
  {name: 'key', label: 'Key'}, {name: 'text', label: 'Text in payload or error'}];

export const COLUMNS = [
  {head: 'State', cell: (row) => html`<${Status} of=${row.status} later=${row.later} attempts=${row.attempts} />`},
  {head: 'Job', cell: (row) => html`<a href=${link(`/jobs/${row.id}`)}>${row.kind || '(no type)'}</a><div class="dim small">${String(row.id).slice(0, 18)}…</div>`},
  {head: 'Queue', kind: 'wide', cell: (row) => row.queue},
  {head: 'Key', kind: 'wide', cell: (row) => (row.key === row.id ? html`<span class="dim">–</span>` : html`<span class="key" title=${row.key}>${row.key}</span>`)},
  {head: 'Attempts', kind: 'number', cell: (row) => `${row.attempts} / ${row.max_attempts}`},
  {head: 'Enqueued', kind: 'nowrap', cell: (row) => html`<${Time} at=${row.created_at} />`},
  {head: 'Last error', kind: 'text wide', cell: (row) => html`<span title=${row.last_error || ''}>${row.last_error || ''}</span>`},
];

export function Jobs({query}) {
  const {before, ...filter} = query;
  const asked = useAsked(`/jobs?${new URLSearchParams(query)}`, before ? 0 : 2);
  return html`<${Title}>Jobs<//>
    <${Filters} fields=${query.worker ? [...FIELDS, {name: 'worker', label: 'Worker'}] : FIELDS} query=${filter} onChange=${(next) => go('/jobs', next)} />
    <${Loading} asked=${asked}>${(data) => html`
      <${Table} name="Jobs" rows=${data.jobs} columns=${COLUMNS} id=${(row) => row.id} href=${(row) => link(`/jobs/${row.id}`)}
        empty=${data.further ? `None among the newest ${data.looked_at.toLocaleString('en-US')}. Look further.` : 'No job matches.'} />
      <p class="further">${before && html`<a href=${link('/jobs', filter)}>First page</a>`}
        ${data.further && html`<a href=${link('/jobs', {...filter, before: data.further})}>${data.jobs.length ? 'Next page' : 'Look further'}</a>`}</p>`}<//>`;
}

// What became of the job, in order. Attempts that succeeded leave no record but the last.
function life(job) {
  const points = [{sign: '○', text: `enqueued in ${job.queue}`, at: job.created_at}];
  for (const error of job.errors) points.push({sign: '✕', tone: 'bad', text: `attempt ${error.attempt} failed: ${error.error || ''} ${error.message || ''}`, at: error.at});
  if (job.status === 'processing') points.push({sign: '●', tone: 'ok', text: `attempt ${job.attempts} runs on ${job.claimed_by}`, at: job.claimed_at});
  if (job.cancel_requested_at) points.push({sign: '▲', tone: 'warn', text: 'cancel asked for', at: job.cancel_requested_at});
  if (job.status === 'dead_letter') points.push({sign: '✕', tone: 'bad', text: 'became a dead letter', at: job.finished_at});
  else if (job.finished_at) points.push({sign: job.status === 'completed' ? '✓' : '✕', tone: job.status === 'completed' ? 'ok' : 'bad', text: job.status + (job.claimed_by ? ` by ${job.claimed_by}` : ''), at: job.finished_at});
  points.sort((a, b) => new Date(a.at) - new Date(b.at));
  if (job.status === 'pending') points.push({sign: '◷', tone: 'dim', text: 'due', at: job.available_at});
  return points;
}

function Life({job}) {
  const points = life(job);
  return html`<section><h2>Life line</h2><ol class="line">${points.map((each) => html`<li><span class="sign ${each.tone || ''}" aria-hidden="true">${each.sign}</span>
    ${each.text}<${Time} at=${each.at} only="moment" /></li>`)}</ol></section>`;
}

export function Job({id}) {
  const asked = useAsked(`/jobs/${part(id)}`, 1);
  const [dialog, open] = useDialog();
  const writes = !session.get().read_only;
  const buttons = (job) => {
    if (!writes) return null;
    const live = ['pending', 'blocked', 'processing'].includes(job.status);
    return html`${job.workflow && html`<a href=${link(`/workflows/${part(id)}`)}>Workflow</a>`}
      ${job.status === 'pending' && new Date(job.available_at) > new Date(job.now) && html`<${Button} onClick=${() => act(`/jobs/${id}/run-now`, {}, asked.reload)}>Run now<//>`}
      ${live && html`<${Button} tone="bad" onClick=${() => open({title: 'Cancel this job?', text: `${job.kind}: it does not run again. A handler that runs is told to stop.`,
        yes: 'Cancel the job', onYes: () => act(`/jobs/${id}/cancel`, {}, asked.reload)})}>Cancel<//>`}
      ${job.status === 'dead_letter' && html`<${Button} tone="primary" name="r" onClick=${() => act('/dead/some', {verb: 'revive', ids: [id]}, asked.reload)}>Revive<//>
        <${Button} tone="bad" onClick=${() => open({title: 'Discard this dead letter?', text: 'It goes to the archive, and does not run again.', yes: 'Discard',
          onYes: () => act('/dead/some', {verb: 'discard', ids: [id]}, asked.reload)})}>Discard<//>`}`;
  };
  return html`${asked.data === null && html`<${Title}>Job<//>`}<${Loading} asked=${asked}>${(job) => html`
    <${Title} more=${buttons(job)}>${job.kind || '(no type)'}<//>
    <p><${Status} of=${job.status} later=${new Date(job.available_at) > new Date(job.now)} attempts=${job.attempts} /> <code class="dim">${job.id}</code></p>
    <${Explanation} of=${job.explanation} />
    <div class="split"><div>
      <${Life} job=${job} />
    </div><div><section><h2>Facts</h2><${Facts} facts=${[
      ['Queue', html`<a href=${link('/jobs', {queue: job.queue})}>${job.queue}</a>`], ['Priority', job.priority], ['Version', job.version],
      ['Key', job.key === job.id ? null : html`<a href=${link('/jobs', {key: job.key})}>${job.key}</a>`], ['Bucket', job.bucket],
      ['Attempts', `${job.attempts} of ${job.max_attempts}`], ['Worker', job.claimed_by], ['Lease until', job.lease_expires_at && moment(job.lease_expires_at)],
      ['Fence', job.fence], ['Generation', job.generation], ['Idempotency key', job.idempotency_key],
      ['Blocked by', job.explanation.head && html`<a href=${link(`/jobs/${job.explanation.head.id}`)}>${job.explanation.head.id}</a>`],
      ['Progress', job.progress && `${Math.round((job.progress.fraction || 0) * 100)} % ${job.progress.text || ''}`],
      ['Expires', job.expires_at && moment(job.expires_at)], ['Crashes', job.crashes || null]]} /></section></div></div>
    <${Errors} errors=${job.errors} />
    <section><h2>Payload</h2><${Code} text=${job.payload} name="Payload" /></section>
    ${job.result !== null && html`<section><h2>Result</h2><${Code} text=${job.result} name="Result" /></section>`}
    ${job.headers !== null && html`<section><h2>Headers</h2><${Code} text=${job.headers} name="Headers" /></section>`}`}<//>${dialog}`;
}
