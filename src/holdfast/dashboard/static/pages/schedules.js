import {act, html, link, moment, session, useAsked} from '../lib.js';
import {Button, Loading, Status, Table, Time, Title} from '../parts.js';

export function Schedules() {
  const asked = useAsked('/schedules', 5);
  const writes = !session.get().read_only;
  const state = (row) => (row.paused_at ? 'paused' : row.error || row.gone_since ? 'late' : 'active');
  const columns = [
    {head: 'State', cell: (row) => html`<${Status} of=${state(row)} />`},
    {head: 'Schedule', cell: (row) => html`${row.name}<div class="dim small">${row.kind}${row.source === 'row' ? ', added at run time' : ''}</div>
      ${row.state !== 'active' && !row.paused_at && html`<div class="warn small">▲ ${row.state}</div>`}`},
    {head: 'When', cell: (row) => html`${row.when}${row.tz !== 'UTC' && html`<div class="dim small">${row.tz}</div>`}`},
    {head: 'Next', kind: 'nowrap', cell: (row) => html`<${Time} at=${row.next_slots[0]} />${row.next_slots.length > 1 && html`<div class="dim small" title=${row.next_slots.map(moment).join('\n')}>then ${moment(row.next_slots[1])}</div>`}`},
    {head: 'Last', kind: 'nowrap wide', cell: (row) => (row.last_job ? html`<a href=${link(`/jobs/${row.last_job}`)}><${Time} at=${row.last_slot} /></a>` : html`<${Time} at=${row.last_slot} />`)},
    {head: 'Missed', kind: 'wide', cell: (row) => html`${row.missed}${row.skipped > 0 && html` <span class="dim">(${row.skipped} skipped)</span>`}`},
  ];
  if (writes) columns.push({head: html`<span class="unseen">Actions</span>`, kind: 'acts', cell: (row) => html`<span class="buttons">
    <${Button} label=${`Trigger ${row.name} now`} onClick=${() => act('/schedules/trigger', {name: row.name}, asked.reload)}>Trigger<//>
    <${Button} label=${`${row.paused_at ? 'Resume' : 'Pause'} ${row.name}`} onClick=${() => act(`/schedules/${row.paused_at ? 'resume' : 'pause'}`, {name: row.name}, asked.reload)}>${row.paused_at ? 'Resume' : 'Pause'}<//></span>`});
  return html`<${Title}>Schedules<//><${Loading} asked=${asked}>${(data) => html`<${Table} name="Schedules" rows=${data.schedules} columns=${columns} id=${(row) => row.name}
    empty="No schedules. Declare one with @hf.every or @hf.cron, or: holdfast schedule add" />`}<//>`;
}
