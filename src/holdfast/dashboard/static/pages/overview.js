import {count, html, link, live, now, pair, percent, rate, span, useAsked, useStore, useState} from '../lib.js';
import {Graph, Twin} from '../graphs.js';
import {Loading, Table, Title} from '../parts.js';

const RANGES = [[60, '1 h'], [360, '6 h'], [1440, '24 h'], [10080, '7 d']];

function Card({name, figure, about, level}) {
  return html`<div class="card ${level ? `is-${level}` : ''}"><p class="name">${level && html`<span class=${level} aria-hidden="true">▲ </span>`}${name}</p>
    <p class="figure">${figure}</p><p class="about">${about}</p></div>`;
}

function First({state}) {
  const paused = state.queues.filter((each) => each[5]).length;
  const late = state.claim_age > 300 ? 'bad' : state.claim_age > 60 ? 'warn' : '';
  const failing = state.retry_rate > 0.5 ? 'bad' : state.retry_rate > 0.1 ? 'warn' : '';
  return html`<section aria-label="The three numbers" class="first">
    <${Card} name="Depth" figure=${pair(state.depth)} about=${`${pair(state.processing)} running${paused ? `, ${paused} ${paused > 1 ? 'queues' : 'queue'} paused` : ''}`} />
    <${Card} name="Claim age" figure=${span(state.claim_age)} level=${late} about=${state.claim_queue ? `oldest due job: ${state.claim_queue}` : 'nothing due waits'} />
    <${Card} name="Retry rate" figure=${percent(state.retry_rate)} level=${failing} about=${`of ${count(state.started)} attempts in ${span(state.within)}`} />
  </section>`;
}

function Second({state}) {
  const workers = state.workers || {};
  const facts = [
    ['Throughput', rate(state.throughput)], ['Run time, p95', span(state.run_p95)], ['Pick-up, p95', span(state.pickup_p95)],
    ['Dead letters', html`<a href=${link('/dead')}>${pair(state.dead)}</a>`],
    ['Workers', html`<a href=${link('/workers')}>${count(workers.alive || 0)} alive${workers.draining ? `, ${workers.draining} draining` : ''}${workers.silent ? `, ${workers.silent} silent` : ''}</a>`],
    ['Lease losses', count(state.lease_losses)], ['Fenced writes', count(state.fenced)],
    ['Outbox lag', state.outbox_lag === null || state.outbox_lag === undefined ? '–' : span(state.outbox_lag)],
  ];
  return html`<dl class="second">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function Over({minutes, set}) {
  const asked = useAsked(`/history?minutes=${minutes}`, 10);
  const [, tick] = useState(0);
  const to = Math.floor(now() / 10000) * 10;
  return html`<section aria-label="Over time"><div class="heading"><h2>Over time</h2><div class="segments" role="group" aria-label="Range">
    ${RANGES.map(([each, words]) => html`<button type="button" aria-pressed=${each === minutes} onClick=${() => set(each)}>${words}</button>`)}</div></div>
    <${Loading} asked=${asked}>${(data) => {
      const shared = {at: data.at, marks: data.marks, from: to - minutes * 60, to};
      const lines = (label, tone) => [{label, tone, values: data[label]}];
      return html`<div class="graphs">
        <${Graph} name="Depth" ...${shared} written=${count} lines=${lines('depth', 'accent')} />
        <${Graph} name="Claim age" ...${shared} written=${span} lines=${lines('claim_age', 'warn')} />
        <${Graph} name="Retry rate" ...${shared} written=${percent} lines=${lines('retry_rate', 'bad')} />
        <${Graph} name="Throughput" ...${shared} written=${rate} lines=${lines('throughput', 'ok')} />
        <${Graph} name="Run time, p95" ...${shared} written=${span} lines=${lines('run_p95', 'accent')} />
        <${Graph} name="Pick-up, p95" ...${shared} written=${span} lines=${lines('pickup_p95', 'accent')} />
      </div>
      ${data.marks.length > 0 && html`<div class="heading"><h2>What happened</h2><a href=${link('/incidents', {within: minutes > 1440 ? '7d' : minutes > 360 ? '1d' : minutes > 60 ? '6h' : ''})}>All incidents</a></div><ul class="marks">${data.marks.slice(-6).reverse().map((mark) => html`<li>
        <time>${mark.time}</time><span class=${mark.level} aria-hidden="true">${mark.level === 'bad' ? '✕' : mark.level === 'warn' ? '▲' : '·'}</span><span>${mark.text}</span></li>`)}</ul>`}
      <${Twin} at=${data.at} columns=${[
        {name: 'Depth', values: data.depth, written: count}, {name: 'Claim age', values: data.claim_age, written: span},
        {name: 'Retry rate', values: data.retry_rate, written: percent}, {name: 'Throughput', values: data.throughput, written: rate},
        {name: 'Run time, p95', values: data.run_p95, written: span}, {name: 'Pick-up, p95', values: data.pickup_p95, written: span}]} />`;
    }}<//></section>`;
}

function Needs({needs}) {
  if (!needs.length) return html`<p class="well">✓ Nothing needs you.</p>`;
  return html`<ul class="needs">${needs.map((each) => html`<li><span class="sign ${each.level}" aria-hidden="true">${each.level === 'bad' ? '✕' : '▲'}</span>
    <a href=${`#${each.link}`}>${each.text}</a></li>`)}</ul>`;
}

export function Overview() {
  const state = useStore(live);
  const [minutes, set] = useState(60);
  if (!state || state.problem) return html`<${Title}>Overview<//><p class="dim" role="status">${state?.problem ? '' : 'Loading …'}</p>`;
  return html`<${Title}>Overview<//>
    <${First} state=${state} /><${Second} state=${state} />
    <${Over} minutes=${minutes} set=${set} />
    <div class="columns"><div><h2>Queues</h2>
      <${Table} name="Queues" id=${(row) => row[0]} rows=${state.queues} empty="No queue has a job yet." href=${(row) => link('/queues', {queue: row[0]})} columns=${[
        {head: 'Queue', cell: (row) => html`<a href=${link('/jobs', {queue: row[0]})}>${row[0]}</a>${row[5] && html`<div class="warn small">❚❚ paused</div>`}`},
        {head: 'Waits', kind: 'number', cell: (row) => count(row[1])}, {head: 'Runs', kind: 'number', cell: (row) => count(row[2])},
        {head: 'Dead', kind: 'number', cell: (row) => html`<span class=${row[3] ? 'bad' : 'dim'}>${count(row[3])}</span>`},
        {head: 'Claim age', kind: 'number', cell: (row) => span(row[4])}]} />
      ${state.more > 0 && html`<p class="dim">and ${state.more} more</p>`}</div>
    <section aria-label="Needs you"><h2>Needs you</h2><${Needs} needs=${state.needs} /></section></div>
    <p class="dim small">Counts were taken ${span(state.age)} ago; ≈ marks an estimate. All times are UTC.</p>`;
}
