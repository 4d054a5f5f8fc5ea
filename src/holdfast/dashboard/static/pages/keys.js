import {count, go, html, link, span, useAsked} from '../lib.js';
import {Filters, Loading, Table, Title} from '../parts.js';

export function Keys({query}) {
  const asked = useAsked(`/keys?${new URLSearchParams(query)}`, 5);
  const columns = [
    {head: 'Key', cell: (row) => html`<a href=${link('/jobs', {key: row.key, queue: row.queue})}>${row.key}</a>`},
    {head: 'Queue', cell: (row) => row.queue},
    {head: 'Live', kind: 'number', cell: (row) => count(row.live, row.share >= 1)},
    {head: 'Runs', kind: 'number wide', cell: (row) => count(row.processing, row.share >= 1)},
    {head: 'Waits', kind: 'number wide', cell: (row) => count(row.pending + row.blocked, row.share >= 1)},
    {head: 'Oldest', kind: 'number', cell: (row) => span(row.age)},
    {head: 'Held by', kind: 'wide', cell: (row) => row.holder || html`<span class="dim">–</span>`},
    {head: 'First job', kind: 'wide', cell: (row) => row.head && html`<a href=${link(`/jobs/${row.head}`)}>${row.head.slice(0, 13)}…</a>`},
    {head: 'Order', kind: 'wide', cell: (row) => (row.ordered ? 'ordered' : html`<span class="dim">free</span>`)},
  ];
  return html`<${Title}>Hot keys<//><p class="dim">The keys with the most live jobs. Of an ordered key, one job runs at a time: a hot one is a queue of its own.</p>
    <${Filters} fields=${[{name: 'queue', label: 'Queue'}]} query=${query} onChange=${(next) => go('/keys', next)} />
    <${Loading} asked=${asked}>${(data) => html`<${Table} name="Hot keys" rows=${data.keys} columns=${columns} id=${(row) => `${row.queue} ${row.key}`} empty="No key has more than one live job." />
      ${data.sampled && html`<p class="dim small">≈: counted in a sample of the table; keys with few jobs are missed.</p>`}`}<//>`;
}
