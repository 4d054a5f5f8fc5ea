import {act, count, html, link, moment, say, session, span, tell, useAsked, useState} from '../lib.js';
import {Button, Code, Facts, Loading, Status, Table, Time, Title, useDialog} from '../parts.js';

const ROUTES = [
  {head: 'Route', cell: (row) => html`${row.name}<div class="dim small">${row.destination || ''}</div>`},
  {head: 'State', kind: 'wide', cell: (row) => html`<${Status} of=${row.removed_at ? 'removed' : row.paused_at ? 'paused' : 'active'} />`},
  {head: 'Types', kind: 'wide', cell: (row) => row.types.join(' ')},
  {head: 'Waits', kind: 'number', cell: (row) => html`<a href=${link('/jobs', {queue: row.queue})}>${count(row.waiting)}</a>`},
  {head: 'Oldest', kind: 'number', cell: (row) => html`<span class=${row.oldest > 60 ? 'warn' : ''}>${span(row.oldest)}</span>`},
  {head: 'Dead', kind: 'number', cell: (row) => html`<a href=${link('/dead', {queue: row.queue})} class=${row.dead_letters ? 'bad' : 'dim'}>${count(row.dead_letters)}</a>`},
  {head: 'Delivered, 5 min', kind: 'number wide', cell: (row) => count(row.delivered)},
  {head: 'Lag p50', kind: 'number wide', cell: (row) => span(row.lag_p50)},
  {head: 'Lag p99', kind: 'number', cell: (row) => span(row.lag_p99)},
];
const ENDPOINTS = [
  {head: 'State', cell: (row) => html`<${Status} of=${row.status} />${row.failing_since && html`<div class="bad small">▲ failing <${Time} at=${row.failing_since} /></div>`}`},
  {head: 'Endpoint', cell: (row) => html`<a href=${link(`/outbox/endpoints/${row.id}`)}>${row.url}</a>${row.description && html`<div class="dim small">${row.description}</div>`}`},
  {head: 'Tenant', kind: 'wide', cell: (row) => row.tenant || html`<span class="dim">–</span>`},
  {head: 'Types', kind: 'wide', cell: (row) => row.types.join(' ')},
  {head: 'Held', kind: 'number', cell: (row) => count(row.held)},
];
const EVENTS = [
  {head: 'Event', cell: (row) => html`<a href=${link(`/outbox/events/${row.id}`)}>${row.type}</a><div class="dim small">${row.id.slice(0, 18)}…</div>`},
  {head: 'Key', kind: 'wide', cell: (row) => row.key || html`<span class="dim">–</span>`},
  {head: 'Tenant', kind: 'wide', cell: (row) => row.tenant || html`<span class="dim">–</span>`},
  {head: 'Published', kind: 'nowrap', cell: (row) => html`<${Time} at=${row.published_at} />`},
  {head: 'Deliveries', cell: (row) => row.deliveries.map((each) => html`<div>${each}</div>`)},
];

function Replay({route, onClose}) {
  const [since, set] = useState('1h');
  const [found, counted] = useState(null);
  const ask = async (dry) => {
    try {
      const answer = await tell('/outbox/replay', {route, since, dry});
      if (dry) counted(answer.events);
      else {
        say(`${count(answer.events)} events are delivered once more along ${route}.`);
        onClose();
      }
    } catch (problem) {
      say(problem.message, 'bad');
    }
  };
  return html`<p>Deliver events once more along ${route}. They keep their ids, and each replay has a number of its own.</p>
    <label>Published within the last <input name="since" value=${since} onInput=${(event) => { set(event.currentTarget.value); counted(null); }} /></label>
    <p class="buttons">${found !== null && html`<span>${count(found)} events</span>`}<${Button} onClick=${() => ask(true)}>Count<//>
      <${Button} tone="primary" disabled=${!found} onClick=${() => ask(false)}>Replay<//></p>`;
}

export function Outbox() {
  const asked = useAsked('/outbox', 2);
  const [replayed, open] = useState(null);
  const writes = !session.get().read_only;
  const routes = writes ? [...ROUTES, {head: html`<span class="unseen">Actions</span>`, kind: 'acts', cell: (row) => html`<${Button} label=${`Replay events along ${row.name}`} onClick=${() => open(row.name === replayed ? null : row.name)}>Replay …<//>`}] : ROUTES;
  return html`<${Title}>Outbox<//><${Loading} asked=${asked}>${(data) => html`
    <h2>Routes</h2><${Table} name="Routes" rows=${data.routes} columns=${routes} id=${(row) => row.name} empty="No routes. Declare one with hf.relay(…)." />
    ${replayed && html`<div class="card"><${Replay} key=${replayed} route=${replayed} onClose=${() => { open(null); asked.reload(); }} /></div>`}
    <h2>Webhook endpoints</h2><${Table} name="Webhook endpoints" rows=${data.endpoints} columns=${ENDPOINTS} id=${(row) => row.id} href=${(row) => link(`/outbox/endpoints/${row.id}`)}
      empty="No endpoints. Add one: holdfast endpoint add URL" />
    <h2>Newest events</h2><${Table} name="Newest events" rows=${data.events} columns=${EVENTS} id=${(row) => row.id} href=${(row) => link(`/outbox/events/${row.id}`)} empty="No events." />`}<//>`;
}

export function OneEvent({id}) {
  const asked = useAsked(`/outbox/events/${id}`, 2);
  const writes = !session.get().read_only;
  const columns = [
    {head: 'State', cell: (row) => html`<${Status} of=${row.status} attempts=${row.attempts} />`},
    {head: 'Destination', cell: (row) => html`<a href=${link(`/jobs/${row.id}`)}>${row.destination}</a>${row.replay > 0 && html` <span class="dim">replay ${row.replay}</span>`}`},
    {head: 'Attempts', kind: 'number', cell: (row) => `${row.attempts} / ${row.max_attempts}`},
    {head: 'Ended', kind: 'nowrap wide', cell: (row) => html`<${Time} at=${row.finished_at} />`},
    {head: 'Last error', kind: 'text wide', cell: (row) => row.last_error},
  ];
  const again = async (route) => {
    const done = await act('/outbox/replay', {route, event: id, dry: false}, asked.reload);
    if (done) say(`The event is delivered once more along ${route}.`);
  };
  return html`${asked.data === null && html`<${Title}>Event<//>`}<${Loading} asked=${asked}>${(event) => html`<${Title}>${event.type}<//>
    <${Facts} facts=${[['Id', event.id], ['Version', event.version], ['Source', event.source], ['Key', event.key], ['Tenant', event.tenant], ['Published', moment(event.published_at)]]} />
    <h2>Deliveries</h2><${Table} name="Deliveries" rows=${event.deliveries} columns=${columns} id=${(row) => row.id} href=${(row) => link(`/jobs/${row.id}`)} empty="No route takes it." />
    ${writes && html`<p class="further">${[...new Set(event.deliveries.filter((each) => !each.destination.startsWith('webhooks to ')).map((each) => each.destination))].map((route) => html`
      <${Button} onClick=${() => again(route)}>Deliver once more along ${route}<//>`)}</p>`}
    <h2>Data</h2><${Code} text=${event.data} name="Data" />${event.headers !== null && html`<h2>Headers</h2><${Code} text=${event.headers} name="Headers" />`}`}<//>`;
}

export function Endpoint({id}) {
  const asked = useAsked(`/outbox/endpoints/${id}`, 2);
  const [dialog, open] = useDialog();
  const writes = !session.get().read_only;
  const change = (verb, body = {}) => act(`/outbox/endpoints/${id}/${verb}`, body, asked.reload);
  const buttons = (found) => writes && html`
    ${found.status === 'active' && html`<${Button} onClick=${() => change('pause')}>Pause<//>`}
    ${found.status === 'paused' && html`<${Button} onClick=${() => change('resume')}>Resume<//>`}
    ${found.status === 'disabled' && html`<${Button} onClick=${() => change('enable')}>Enable<//>`}
    <${Button} onClick=${() => open({title: 'Send again what failed?', text: 'Dead letters of the last day, and events that it missed while it was disabled.', yes: 'Recover', tone: 'primary', onYes: () => change('recover', {since: '1d'})})}>Recover …<//>
    ${found.status !== 'disabled' && html`<${Button} tone="bad" onClick=${() => open({title: 'Disable this endpoint?', text: 'Nothing is sent to it, and no deliveries are made for it, until it is enabled.', yes: 'Disable', onYes: () => change('disable')})}>Disable<//>`}`;
  const columns = [
    {head: 'At', kind: 'nowrap', cell: (row) => html`<${Time} at=${row.at} />`},
    {head: 'Answer', cell: (row) => html`<span class=${row.delivered ? 'ok' : 'bad'}>${row.delivered ? '✓' : '✕'} ${row.status ?? 'none'}</span>`},
    {head: 'Took', kind: 'number', cell: (row) => (row.ms === null ? '–' : span(row.ms / 1000))},
    {head: 'Attempt', kind: 'number wide', cell: (row) => row.attempt},
    {head: 'Event', kind: 'wide', cell: (row) => html`<a href=${link(`/outbox/events/${row.event}`)}>${row.event.slice(0, 13)}…</a>`},
    {head: 'Error', kind: 'text', cell: (row) => row.error},
  ];
  return html`${asked.data === null && html`<${Title}>Endpoint<//>`}<${Loading} asked=${asked}>${(found) => html`<${Title} more=${buttons(found)}>${found.url}<//>
    <p><${Status} of=${found.status} /></p>
    <${Facts} facts=${[['Id', found.id], ['Tenant', found.tenant], ['Types', found.types.join(' ')], ['Order', found.ordered ? 'ordered' : 'free'], ['Failing since', found.failing_since && moment(found.failing_since)],
      ['Disabled because', found.disabled_reason], ['Held deliveries', count(found.held)], ['Added', moment(found.created_at)]]} />
    <h2>Attempts of the newest events</h2><${Table} name="Attempts" rows=${found.attempts} columns=${columns} id=${(row) => `${row.delivery} ${row.attempt} ${row.at}`} empty="None." />`}<//>${dialog}`;
}
