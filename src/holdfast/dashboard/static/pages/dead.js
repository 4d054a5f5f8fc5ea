import {act, count, go, html, link, moment, say, session, tell, ask, useAsked, useRef, useState} from '../lib.js';
import {Button, Dialog, Filters, Loading, Table, Time, Title} from '../parts.js';

const FIELDS = [{name: 'queue', label: 'Queue'}, {name: 'kind', label: 'Kind'}, {name: 'text', label: 'Text in the error'}];
const COLUMNS = [
  {head: 'Job', cell: (row) => html`<a href=${link(`/jobs/${row.id}`)}>${row.kind || '(no type)'}</a><div class="dim small">${row.id.slice(0, 18)}…</div>`},
  {head: 'Queue', kind: 'wide', cell: (row) => row.queue},
  {head: 'Key', kind: 'wide', cell: (row) => (row.key === row.id ? html`<span class="dim">–</span>` : html`<span class="key" title=${row.key}>${row.key}</span>`)},
  {head: 'Attempts', kind: 'number', cell: (row) => `${row.attempts} / ${row.max_attempts}`},
  {head: 'Died', kind: 'nowrap', cell: (row) => html`<${Time} at=${row.dead_at} />`},
  {head: 'Last error', kind: 'text', cell: (row) => html`<span title=${row.last_error || ''}>${row.last_error || ''}</span>`},
];

const WORDS = {revive: ['Revive', 'revived'], discard: ['Discard', 'discarded']};

// The preview of a bulk action, then its progress.
function Bulk({verb, filter, preview, onClose}) {
  const [done, set] = useState(null);
  const stopped = useRef(false);
  const [name, past] = WORDS[verb];
  const about = preview.more ? `more than ${count(preview.jobs)}` : count(preview.jobs);
  const start = async () => {
    let total = 0;
    let further;
    set(0);
    try {
      do {
        const expected = preview.more ? preview.jobs + 1 : preview.jobs;
        const part = await tell('/dead/bulk', {verb, ...filter, until: preview.until, expected, typed: preview.typed, further});
        total += part.done;
        further = part.further;
        set(total);
      } while (further && !stopped.current);
      say(`${count(total)} ${past}${stopped.current ? '; stopped' : ''}.`);
    } catch (problem) {
      say(`${problem.message} ${count(total)} were ${past} before.`, 'bad');
    }
    onClose();
  };
  if (done !== null) return html`<${Dialog} title=${`${name} …`} yes="Stop" onYes=${() => { stopped.current = true; }} onClose=${() => { stopped.current = true; }}>
    <p role="status">${count(done)} of ${about} ${past}.</p><progress max=${preview.jobs} value=${done} aria-label="Progress"></progress><//>`;
  return html`<${Dialog} title=${`${name} ${about} dead letters?`} yes=${name} tone=${verb === 'revive' ? 'primary' : 'bad'} typed=${preview.typed} onYes=${start} onClose=${onClose}>
    <p>All that match the filter and died until ${moment(preview.until)}; the oldest at ${moment(preview.oldest)}.
      ${verb === 'revive' ? ' They run again, each with a full set of attempts.' : ' They go to the archive, and do not run again.'}</p>
    <ul class="samples" aria-label="Some of them">${preview.samples.map((each) => html`<li>${each.kind} <span class="dim">${each.last_error}</span></li>`)}</ul><//>`;
}

function Groups({groups, query}) {
  const named = (groups || []).filter((each) => each.group);
  if (!named.length) return null;
  return html`<ul class="groups" aria-label="Groups of alike errors">${named.map((each) => {
    const chosen = each.group === query.group;
    return html`<li><a href=${link('/dead', chosen ? {} : {group: each.group})} aria-current=${chosen ? 'true' : undefined}>
      <span class="many bad">${count(each.jobs)}${each.more && '+'}</span>
      <span class="what"><b>${each.error}</b> in ${each.kind || each.queue}${each.message && html`<br /><span class="dim">${each.message.slice(0, 300)}</span>`}${each.place && html`<br /><code class="dim">${each.place}</code>`}</span>
      <span class="last dim small">last <${Time} at=${each.newest} /></span></a></li>`;
  })}</ul>`;
}

export function Dead({query}) {
  const {before, before_at, ...filter} = query;
  const asked = useAsked(`/dead?${new URLSearchParams(query)}`, before ? 0 : 2);
  const groups = useAsked('/dead/groups', 10);
  const [chosen, set] = useState(new Set());
  const [bulk, open] = useState(null);
  const writes = !session.get().read_only;
  const choose = (id) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    set(next);
  };
  const some = (verb) => act('/dead/some', {verb, ids: [...chosen]}, () => {
    set(new Set());
    asked.reload();
    groups.reload();
  });
  const all = async (verb) => {
    try {
      open({verb, filter, preview: await ask(`/dead/preview?${new URLSearchParams(filter)}`)});
    } catch (problem) {
      say(problem.message, 'bad');
    }
  };
  const closed = () => {
    open(null);
    asked.reload();
    groups.reload();
  };
  const filtered = Object.values(filter).some(Boolean);
  const buttons = writes && html`<${Button} name="r" onClick=${() => (chosen.size ? some('revive') : all('revive'))}>Revive ${chosen.size ? chosen.size : filtered ? 'all that match …' : 'all …'}<//>
    <${Button} tone="bad" onClick=${() => (chosen.size ? some('discard') : all('discard'))}>Discard ${chosen.size ? chosen.size : filtered ? 'all that match …' : 'all …'}<//>`;
  return html`<${Title} more=${buttons}>Dead letters<//>
    <${Groups} groups=${groups.data?.groups} query=${query} />
    <${Filters} fields=${FIELDS} query=${filter} onChange=${(next) => go('/dead', next)} />
    <${Loading} asked=${asked}>${(data) => html`
      <${Table} name="Dead letters" rows=${data.jobs} columns=${COLUMNS} id=${(row) => row.id} href=${(row) => link(`/jobs/${row.id}`)}
        chosen=${chosen} choose=${writes ? choose : null} empty=${data.further ? 'None among the latest 20,000. Look further.' : filtered ? 'No dead letter matches.' : 'No dead letters.'} />
      <p class="further">${before && html`<a href=${link('/dead', filter)}>First page</a>`}
        ${data.further && html`<a href=${link('/dead', {...filter, ...data.further})}>${data.jobs.length ? 'Next page' : 'Look further'}</a>`}</p>`}<//>
    ${bulk && html`<${Bulk} ...${bulk} onClose=${closed} />`}`;
}
