import {act, count, html, link, pair, percent, rate, session, span, useAsked} from '../lib.js';
import {Button, Loading, Table, Time, Title} from '../parts.js';

export function Queues({query}) {
  const asked = useAsked('/queues', 1);
  const writes = !session.get().read_only;
  const turn = (row) => act(`/queues/${encodeURIComponent(row.queue)}/${row.paused_at ? 'resume' : 'pause'}`, {}, asked.reload);
  const state = (name) => (row) => pair(row.jobs[name]);
  const columns = [
    {head: 'Queue', cell: (row) => html`<a href=${link('/jobs', {queue: row.queue})}>${row.queue}</a>
      ${row.paused_at && html`<div class="warn small">❚❚ paused <${Time} at=${row.paused_at} /></div>`}
      ${Object.entries(row.unclaimable).map(([kind, number]) => html`<div class="bad small">▲ no worker for ${pair(number)} × ${kind}</div>`)}`},
    {head: 'Waits', kind: 'number', cell: state('pending')},
    {head: 'Due', kind: 'number wide', cell: state('due')},
    {head: 'Later', kind: 'number wide', cell: state('scheduled')},
    {head: 'Retrying', kind: 'number wide', cell: state('retrying')},
    {head: 'Runs', kind: 'number wide', cell: state('processing')},
    {head: 'Dead', kind: 'number', cell: (row) => html`<a href=${link('/dead', {queue: row.queue})} class=${row.jobs.dead_letters?.[0] ? 'bad' : 'dim'}>${pair(row.jobs.dead_letters)}</a>`},
    {head: 'Claim age', kind: 'number', cell: (row) => html`<span class=${row.claim_age > 60 && !row.paused_at ? 'warn' : ''}>${span(row.claim_age)}</span>`},
    {head: 'Rate', kind: 'number wide', cell: (row) => rate(row.throughput)},
    {head: 'Retry rate', kind: 'number wide', cell: (row) => percent(row.retry_rate)},
    {head: 'Run p95', kind: 'number wide', cell: (row) => span(row.run_p95)},
    {head: 'Pick-up p95', kind: 'number wide', cell: (row) => span(row.pickup_p95)},
    {head: 'Mode', kind: 'wide', cell: (row) => html`<span class="dim">${row.mode}</span>`},
  ];
  if (writes) columns.push({head: html`<span class="unseen">Actions</span>`, kind: 'acts', cell: (row) => html`<${Button} onClick=${() => turn(row)}
    label=${`${row.paused_at ? 'Resume' : 'Pause'} queue ${row.queue}`}>${row.paused_at ? 'Resume' : 'Pause'}<//>`});
  return html`<${Title}>Queues<//><${Loading} asked=${asked}>${(data) => {
    const rows = query.queue ? [...data.queues].sort((a, b) => (b.queue === query.queue) - (a.queue === query.queue)) : data.queues;
    return html`<${Table} name="Queues" id=${(row) => row.queue} rows=${rows} columns=${columns} href=${(row) => link('/jobs', {queue: row.queue})}
      empty="No queue has a job yet. Enqueue one: holdfast enqueue KIND" />
      <p class="dim small">Counts were taken ${span(data.age)} ago; ≈ marks an estimate.</p>`;
  }}<//>`;
}
