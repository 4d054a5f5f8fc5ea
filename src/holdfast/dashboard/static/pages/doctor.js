import {html, useAsked} from '../lib.js';
import {Loading, Table, Title} from '../parts.js';

const LEVELS = {ok: ['✓', 'ok'], warn: ['▲', 'warn'], fail: ['✕', 'bad'], unseen: ['·', 'dim']};
const RANK = ['fail', 'warn', 'unseen', 'ok'];

export function Doctor() {
  const asked = useAsked('/doctor', 30);
  const columns = [
    {head: 'Check', cell: (row) => html`<span class="nowrap ${LEVELS[row.level][1]}"><span aria-hidden="true">${LEVELS[row.level][0]}</span> ${row.name}<span class="unseen"> ${row.level}</span></span>`},
    {head: 'Found', cell: (row) => html`${row.sentence}${row.remedy && html`<div class="small"><code>${row.remedy}</code></div>`}`},
    {head: 'Runbook', kind: 'wide', cell: (row) => row.page && html`<code>holdfast runbook ${row.page}</code>`},
  ];
  return html`<${Title}>Doctor<//><p class="dim">What is wrong with this installation and its server, and what to do. The same as <code>holdfast doctor</code>.</p>
    <${Loading} asked=${asked}>${(data) => html`<${Table} name="Findings" columns=${columns} id=${(row) => row.name} empty="No checks."
      rows=${[...data.findings].sort((a, b) => RANK.indexOf(a.level) - RANK.indexOf(b.level))} />`}<//>`;
}
