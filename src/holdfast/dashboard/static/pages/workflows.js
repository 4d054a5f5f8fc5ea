import {act, clock, go, html, link, moment, part, session, span, useAsked, useState} from '../lib.js';
import {Button, Code, Errors, Explanation, Facts, Filters, Loading, Status, Table, Time, Title, useDialog} from '../parts.js';

const STATES = ['', 'queued', 'running', 'sleeping', 'waiting', 'retrying', 'undoing', 'paused', 'dead letter', 'needs attention'];

export function Workflows({query}) {
  const {before, ...filter} = query;
  const asked = useAsked(`/workflows?${new URLSearchParams(query)}`, 2);
  const columns = [
    {head: 'State', cell: (row) => html`<${Status} of=${row.state} />`},
    {head: 'Instance', cell: (row) => html`<a href=${link(`/workflows/${part(row.id)}`)}>${row.id}</a>`},
    {head: 'Workflow', kind: 'wide', cell: (row) => html`${row.workflow} <span class="dim">v${row.version}</span>`},
    {head: 'Since', kind: 'nowrap', cell: (row) => html`<${Time} at=${row.since} />`},
    {head: 'Waits for', kind: 'wide', cell: (row) => row.waits.join(', ') || html`<span class="dim">–</span>`},
    {head: 'Wakes', kind: 'nowrap wide', cell: (row) => html`<${Time} at=${row.wake_at} />`},
    {head: 'Last error', kind: 'text wide', cell: (row) => row.last_error},
  ];
  return html`<${Title}>Workflows<//>
    <${Filters} query=${filter} onChange=${(next) => go('/workflows', next)} fields=${[{name: 'state', label: 'State', options: STATES.map((each) => [each, each || 'all live'])}, {name: 'workflow', label: 'Workflow'}]} />
    <${Loading} asked=${asked}>${(data) => html`<${Table} name="Workflow instances" rows=${data.instances} columns=${columns} id=${(row) => row.job_id} href=${(row) => link(`/workflows/${part(row.id)}`)} empty=${data.further ? 'None among the newest. Look further.' : 'No live instance matches.'} />
      <p class="further">${before && html`<a href=${link('/workflows', filter)}>First page</a>`}
        ${data.further && html`<a href=${link('/workflows', {...filter, before: data.further})}>${data.instances.length ? 'Next page' : 'Look further'}</a>`}</p>
      <p class="dim small">Newest first. Ended instances are found by their id, with the search above.</p>`}<//>`;
}

function Timeline({of, onRestart}) {
  const from = new Date(of.created_at).getTime();
  const to = Math.max(new Date(of.finished_at || of.now).getTime(), from + 1);
  const place = (at) => `${Math.min(Math.max(((new Date(at).getTime() - from) / (to - from)) * 100, 0), 100)}%`;
  const long = to - from > 86400000;
  const words = (at) => (long ? moment(at) : clock(at));
  const bar = (step) => {
    // Not every time is known.
    const end = step.ended_at || to;
    const begin = step.started_at || (step.took === null ? of.created_at : new Date(end).getTime() - step.took * 1000);
    const left = place(begin);
    return html`<span class="bar-of ${step.status} ${['sleep', 'wait'].includes(step.kind) ? 'wait' : ''}" title=${`${step.shown}: ${step.status}`}
      style=${{left, width: `${Math.max(parseFloat(place(end)) - parseFloat(left), 0.4)}%`}}></span>`;
  };
  return html`<div class="gantt" role="group" aria-label="Timeline of steps">
    <div class="head">Step</div><div class="head state-of">State</div><div class="head axis"><span>${words(from)}</span><span>${words((from + to) / 2)}</span><span>${words(to)}</span></div>
    ${of.steps.map((step) => html`<div>${step.shown}<div class="dim small">${step.kind}${step.attempts > 1 ? `, ${step.attempts} attempts` : ''}${step.took !== null ? `, ${span(step.took)}` : ''}
      ${step.child_id && html` <a href=${link(`/workflows/${part(step.child_id)}`)}>child</a>`}</div></div>
      <div class="state-of"><${Status} of=${step.status} />${onRestart && html`<div><button type="button" class="plain small" onClick=${() => onRestart(step)}>Restart here<span class="unseen">: ${step.shown}</span></button></div>`}</div>
      <div class="track">${bar(step)}</div>`)}</div>`;
}

function Signal({id, waits, onDone}) {
  const first = waits.find((each) => each.startsWith('signal:'))?.slice(7) || '';
  const [name, set] = useState(first);
  const [payload, write] = useState('');
  return html`<section><h2>Send a signal</h2><div class="filters"><label>Name <input name="signal" value=${name} onInput=${(event) => set(event.currentTarget.value)} /></label>
    <label>Payload (JSON) <input name="payload" value=${payload} placeholder="null" onInput=${(event) => write(event.currentTarget.value)} /></label>
    <${Button} disabled=${!name} onClick=${() => act(`/workflows/${part(id)}/signal`, {name, payload}, onDone)}>Send<//></div></section>`;
}

export function Workflow({id}) {
  const asked = useAsked(`/workflows/${part(id)}`, 1);
  const [dialog, open] = useDialog();
  const writes = !session.get().read_only;
  const change = (verb, body = {}) => act(`/workflows/${part(id)}/${verb}`, body, asked.reload);
  const buttons = (of) => writes && !of.finished_at && html`
    ${of.state === 'paused' || of.state === 'dead letter' || of.state === 'needs attention' ? html`<${Button} tone="primary" onClick=${() => change('resume')}>${of.state === 'paused' ? 'Resume' : 'Retry'}<//>` : html`<${Button} onClick=${() => change('pause')}>Pause<//>`}
    <${Button} tone="bad" onClick=${() => open({title: 'Cancel this instance?', text: 'No further step starts, its children are cancelled, and finished steps are undone.', yes: 'Cancel the instance', onYes: () => change('cancel')})}>Cancel<//>`;
  const restart = (step) => open({title: `Run again from ${step.shown}?`, text: 'This step and all later ones are forgotten, and run again. Nothing is undone.', yes: 'Restart', onYes: () => change('restart', {step: step.shown})});
  return html`${asked.data === null && html`<${Title}>Workflow<//>`}<${Loading} asked=${asked}>${(of) => {
    const state = of.finished_at ? of.state : of.state;
    return html`<${Title} more=${buttons(of)}>${of.id}<//>
      <p><${Status} of=${state} /> <span class="dim">${of.workflow} v${of.version}, since <${Time} at=${of.since} /></span> <a href=${link(`/jobs/${of.job_id}`)}>its job</a></p>
      <${Explanation} of=${of.explanation} />
      <h2>Steps</h2>${of.steps.length ? html`<${Timeline} of=${of} onRestart=${writes && !of.finished_at && of.state !== 'running' ? restart : null} />` : html`<p class="empty">No step has begun.</p>`}
      ${writes && !of.finished_at && html`<${Signal} id=${id} waits=${of.waits} onDone=${asked.reload} />`}
      ${of.signals.length > 0 && html`<h2>Signals</h2><ol class="line">${of.signals.map((each) => html`<li><span class="sign" aria-hidden="true">→</span>${each.name} <code>${each.payload}</code>
        <span class="dim">${each.taken_by ? `taken by ${each.taken_by}` : 'not taken yet'}</span><${Time} at=${each.sent_at} only="moment" /></li>`)}</ol>`}
      <div class="split"><div><h2>Arguments</h2><${Code} text=${of.arguments} name="Arguments" />${of.result !== null && html`<h2>Result</h2><${Code} text=${of.result} name="Result" />`}</div>
        <div><h2>Facts</h2><${Facts} facts=${[['Queue', of.queue], ['Runs', of.runs], ['Worker', of.claimed_by], ['Started', moment(of.created_at)], ['Wakes', of.wake_at && moment(of.wake_at)], ['Ended', of.finished_at && moment(of.finished_at)],
          ['Parent', of.parent_id && html`<a href=${link(`/workflows/${part(of.parent_id)}`)}>${of.parent_id}</a>`], ['Last error', of.last_error]]} /></div></div>
      <h2>Results of steps</h2>${of.steps.filter((step) => step.result !== null || step.errors.length).map((step) => html`<details><summary>${step.shown}</summary>
        <${Code} text=${step.result} name=${`Result of ${step.shown}`} />${step.errors.map((error) => html`<p class="bad">✕ ${error.error || ''} ${error.message || ''}</p>`)}</details>`)}
      <${Errors} errors=${of.errors} />`;
  }}<//>${dialog}`;
}
