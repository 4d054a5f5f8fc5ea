import {act, count, html, link, rate, span, useAsked} from '../lib.js';
import {Button, Empty, Loading, Status, Table, Title} from '../parts.js';
import {Lines} from './incidents.js';

// States of the demo's processes, as the signs of other pages.
const STATES = {running: 'running', starting: 'waiting', restarting: 'waiting', draining: 'draining', drained: 'done', ended: 'done', killed: 'failed'};

const State = ({of}) => {
  const known = STATES[of] || (of.startsWith('crashed') ? 'failed' : of);
  return html`<${Status} of=${known} said=${of} />`;
};

function Stage({data, reload}) {
  const press = (what, body = {}) => act(`/demo/${what}`, body, reload);
  const turn = (each) => act(`/queues/${encodeURIComponent(each.queue)}/${each.paused ? 'resume' : 'pause'}`, {}, reload);
  const some = data.workers.some((each) => each.state === 'running');
  return html`<section aria-label="What you can do to it"><div class="buttons">
    <${Button} tone="bad" disabled=${!data.open || !some} onClick=${() => press('kill')}>Kill a worker<//>
    <${Button} disabled=${!data.open || !data.more} onClick=${() => press('add')}>Add a worker<//>
    <${Button} disabled=${!data.open || !some} onClick=${() => press('drain')}>Drain a worker<//>
    ${data.queues.map((each) => html`<${Button} key=${each.queue} disabled=${!data.open} onClick=${() => turn(each)}>${each.paused ? 'Resume' : 'Pause'} queue ${each.queue}<//>`)}
    <${Button} disabled=${!data.open} onClick=${() => press(data.pin ? 'release' : 'pin')}>${data.pin ? 'Release' : 'Pin'} the xmin horizon<//>
  </div><p class="dim small" role="status">${data.open ? 'Kill is SIGKILL, in the middle of a job. Drain is SIGTERM.' : `The buttons wait: ${data.act}.`}</p></section>`;
}

function Pinned({pin}) {
  if (!pin) return null;
  return html`<p class="well warn">▲ A transaction of session ${pin.pid} has been open for ${span(pin.seconds)}; ${count(pin.xids)} transactions have begun since. The inbox has ${count(pin.dead_rows)} dead rows,
    and vacuum removes none that is younger. See the check horizon of the <a href=${link('/doctor')}>doctor</a>.</p>`;
}

export function Demo() {
  const asked = useAsked('/demo', 0.5);
  const press = (what, worker) => act(`/demo/${what}`, {worker}, asked.reload);
  const columns = (data) => [
    {head: 'State', cell: (row) => html`<${State} of=${row.state} />`},
    {head: 'Worker', cell: (row) => row.name},
    {head: 'Process', kind: 'number wide', cell: (row) => row.pid || '–'},
    {head: 'Holds', kind: 'number', cell: (row) => count(row.held)},
    {head: 'Killed', kind: 'number', cell: (row) => `${row.kills} ×`},
    {head: html`<span class="unseen">Actions</span>`, kind: 'acts', cell: (row) => row.state === 'running' && html`<span class="buttons">
      <${Button} label=${`Kill ${row.name}`} tone="bad" disabled=${!data.open} onClick=${() => press('kill', row.name)}>Kill<//>
      <${Button} label=${`Drain ${row.name}`} disabled=${!data.open} onClick=${() => press('drain', row.name)}>Drain<//></span>`},
  ];
  return html`<${Title}>Demo<//><p class="dim">A shop takes orders, and its workers are killed. Do it yourself, and watch who takes over.</p>
    <${Loading} asked=${asked}>${(data) => html`<${Stage} data=${data} reload=${asked.reload} />
      <${Pinned} pin=${data.pin} />
      ${data.queues.filter((each) => each.paused).map((each) => html`<p class="well warn">❚❚ Queue ${each.queue} is paused: orders are still taken, and their jobs wait.</p>`)}
      <h2>Jobs</h2><dl class="second tight">${Object.entries(data.jobs).map(([state, number]) => html`<div><dt>${state}</dt><dd>${count(number)}</dd></div>`)}
        <div><dt>rate</dt><dd>${rate(data.rate)}</dd></div><div><dt>claim age</dt><dd>${span(data.claim_age)}</dd></div>
        <div><dt>kills</dt><dd>${count(data.kills)}</dd></div><div><dt>recovered</dt><dd>${count(data.recovered)}</dd></div></dl>
      <div class="split"><div><h2>Workers</h2><${Table} name="Workers" rows=${data.workers} columns=${columns(data)} id=${(row) => row.name} empty="The workers start." /></div>
      <section aria-label="The recovery"><h2>The recovery</h2>${data.events.length
        ? html`<ul class="told">${[...data.events].reverse().map((each) => html`<li>${each.trim()}</li>`)}</ul>` : html`<${Empty}>Nothing has happened yet.<//>`}</section></div>
      <div class="heading"><h2>What the flight recorder has</h2><a href=${link('/incidents')}>All incidents</a></div>
      ${data.lines.length ? html`<${Lines} lines=${[...data.lines].reverse()} />` : html`<${Empty}>Nothing yet.<//>`}`}<//>`;
}
