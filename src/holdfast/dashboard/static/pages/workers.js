import {act, count, html, link, session, span, useAsked, useState} from '../lib.js';
import {Button, Loading, Status, Table, Time, Title, useDialog} from '../parts.js';

const COLOURS = ['#2f7ed8', '#e08a1e', '#2f9e6e', '#b04fc0', '#d0473e', '#5a6fd6', '#8a8f1f', '#1aa3b8', '#c2567f', '#7a5c3e'];

function arc(from, to, inner, outer) {
  const turn = (bucket) => (bucket / 1024) * 2 * Math.PI - Math.PI / 2;
  const at = (bucket, radius) => `${(100 + radius * Math.cos(turn(bucket))).toFixed(2)} ${(100 + radius * Math.sin(turn(bucket))).toFixed(2)}`;
  const large = to - from > 512 ? 1 : 0;
  return `M${at(from, outer)} A${outer} ${outer} 0 ${large} 1 ${at(to, outer)} L${at(to, inner)} A${inner} ${inner} 0 ${large} 0 ${at(from, inner)} Z`;
}

// Neighbours with the same owner become one arc; all arcs of an owner are one path.
function paths(owners) {
  const found = new Map();
  for (let start = 0; start < owners.length;) {
    let end = start + 1;
    while (end < owners.length && owners[end] === owners[start] && end - start < 1023) end++;
    found.set(owners[start], (found.get(owners[start]) || '') + arc(start, end, 62, 96));
    start = end;
  }
  return [...found];
}

function Ring({ring}) {
  const [pointed, point] = useState(null);
  const tint = (place) => (place < 0 ? 'var(--line)' : COLOURS[place % COLOURS.length]);
  return html`<figure class="ring"><svg viewBox="0 0 200 200" role="img" aria-label=${`The ring of queue ${ring.queue}: 1024 buckets, ${ring.members.length} owners`}>
    ${paths(ring.owners).map(([place, d]) => html`<path d=${d} fill=${tint(place)} class=${pointed !== null && pointed !== place ? 'faded' : ''}><title>${ring.members[place] || 'nobody'}</title></path>`)}
    <text x="100" y="98">${ring.queue}</text><text x="100" y="114" class="sub">${ring.members.length} owners</text></svg>
    <div><h3>Who owns the buckets of ${ring.queue}</h3><ul class="legend">${ring.members.map((member, place) => html`<li onMouseEnter=${() => point(place)} onMouseLeave=${() => point(null)}>
      <svg viewBox="0 0 12 12" aria-hidden="true"><rect width="12" height="12" rx="3" fill=${tint(place)} /></svg><span>${member}</span>
      <span class="share">${ring.shares[member]} of 1024</span></li>`)}</ul>
      ${!ring.members.length && html`<p class="bad">▲ no live worker serves this queue: nobody owns its buckets</p>`}</div></figure>`;
}

export function Workers() {
  const asked = useAsked('/workers', 1);
  const [dialog, open] = useDialog();
  const writes = !session.get().read_only;
  const columns = [
    {head: 'State', cell: (row) => html`<${Status} of=${row.status === 'alive' && !row.live ? 'silent' : row.status} />`},
    {head: 'Worker', cell: (row) => html`<a href=${link('/jobs', {worker: row.id, status: 'processing'})}>${row.id}</a>${row.isolation && html` <span class="dim">(isolation)</span>`}`},
    {head: 'Queues', kind: 'wide', cell: (row) => row.queues.join(', ')},
    {head: 'Busy', kind: 'number', cell: (row) => `${row.running ?? '–'} / ${row.hands ?? '–'}`},
    {head: 'Completed', kind: 'number wide', cell: (row) => count(row.completed)},
    {head: 'Lost leases', kind: 'number wide', cell: (row) => html`<span class=${row.lease_lost ? 'warn' : 'dim'}>${count(row.lease_lost)}</span>`},
    {head: 'Last seen', kind: 'number', cell: (row) => `${span(row.silent)} ago`},
    {head: 'Started', kind: 'nowrap wide', cell: (row) => html`<${Time} at=${row.started_at} />`},
  ];
  const drain = (row) => open({title: 'Drain this worker?', text: `${row.id} finishes its running jobs, hands back the rest, and stops. Nothing starts another one.`,
    yes: 'Drain', onYes: () => act('/workers/drain', {worker: row.id}, asked.reload)});
  if (writes) columns.push({head: html`<span class="unseen">Actions</span>`, kind: 'acts', cell: (row) => row.status === 'alive' && html`<${Button} label=${`Drain ${row.id}`} onClick=${() => drain(row)}>Drain<//>`});
  return html`<${Title}>Workers<//><${Loading} asked=${asked}>${(data) => html`
    <${Table} name="Workers" rows=${data.workers} columns=${columns} id=${(row) => row.id} empty="No worker yet. Start one: holdfast worker module:attribute" />
    ${data.more > 0 && html`<p class="dim">and ${data.more} that were seen earlier</p>`}
    ${data.rings.length > 0 && html`<h2>The ring</h2>${data.rings.map((ring) => html`<${Ring} key=${ring.queue} ring=${ring} />`)}`}`}<//>${dialog}`;
}
