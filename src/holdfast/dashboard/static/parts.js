// Parts that several pages use.

import {ago, html, moment, toasts, useEffect, useRef, useState, useStore} from './lib.js';

export const SIGNS = {
  processing: ['●', 'ok', 'runs'], running: ['●', 'ok', 'runs'], alive: ['●', 'ok', 'alive'], active: ['●', 'ok', 'active'],
  pending: ['○', '', 'waits'], queued: ['○', '', 'queued'], blocked: ['○', '', 'blocked'], waiting: ['○', '', 'waiting'],
  open: ['○', '', 'open'], scheduled: ['◷', '', 'later'], sleeping: ['◷', '', 'sleeping'], retrying: ['◷', 'warn', 'retrying'],
  draining: ['◷', 'warn', 'draining'], paused: ['❚❚', 'warn', 'paused'], undoing: ['↶', 'warn', 'undoing'],
  late: ['▲', 'warn', 'late'], silent: ['▲', 'warn', 'silent'], 'needs attention': ['▲', 'bad', 'needs attention'],
  dead_letter: ['✕', 'bad', 'dead letter'], 'dead letter': ['✕', 'bad', 'dead letter'], dead: ['✕', 'dim', 'ended'],
  failed: ['✕', 'bad', 'failed'], timed_out: ['▲', 'warn', 'timed out'], disabled: ['✕', 'bad', 'disabled'],
  completed: ['✓', 'ok', 'completed'], done: ['✓', 'ok', 'done'], cancelled: ['✕', 'dim', 'cancelled'],
  expired: ['✕', 'dim', 'expired'], discarded: ['✕', 'dim', 'discarded'], removed: ['✕', 'dim', 'removed'],
};

export function Status({of, later, attempts, said}) {
  const state = of === 'pending' && attempts > 0 && later ? 'retrying' : of === 'pending' && later ? 'scheduled' : of;
  const [sign, tone, words] = SIGNS[state] || ['·', '', state];
  return html`<span class="status ${tone}"><span class="sign" aria-hidden="true">${sign}</span> ${said || words}</span>`;
}

export function Time({at, only}) {
  if (!at) return html`<span class="dim">–</span>`;
  return html`<time datetime=${at} title=${moment(at)}>${only === 'moment' ? moment(at) : ago(at)}</time>`;
}

export function Title({children, more}) {
  const place = useRef(null);
  useEffect(() => {
    place.current?.focus({preventScroll: true});
  }, []);
  return html`<div class="title"><h1 tabindex="-1" ref=${place}>${children}</h1><div class="more">${more}</div></div>`;
}

export const Wrong = ({problem}) => (problem ? html`<p class="wrong" role="alert">▲ ${problem.message}</p>` : null);

export function Loading({asked, children}) {
  if (asked.data === null && asked.problem === null) return html`<p class="dim" role="status">Loading …</p>`;
  return html`<${Wrong} problem=${asked.problem} />${asked.data !== null && children(asked.data)}`;
}

export const Empty = ({children}) => html`<p class="empty">${children}</p>`;

// `columns`: {head, cell(row), kind: 'number' | 'wide' | 'text'}. Columns of the kind 'wide' are left out on a phone.
export function Table({name, columns, rows, empty, id, href, chosen, choose}) {
  if (!rows.length) return html`<${Empty}>${empty}<//>`;
  const tick = (row) => html`<td class="tick"><input type="checkbox" aria-label=${`Select ${id(row)}`} checked=${chosen.has(id(row))}
    onChange=${() => choose(id(row))} /></td>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${name}><table>
    <caption class="unseen">${name}</caption>
    <thead><tr>${choose && html`<th scope="col" class="tick"><span class="unseen">Select</span></th>`}
      ${columns.map((each) => html`<th scope="col" class=${each.kind || ''}>${each.head}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${id(row)} data-row tabindex="-1" data-href=${href ? href(row) : undefined}
        class=${chosen?.has(id(row)) ? 'chosen' : ''}>
      ${choose && tick(row)}${columns.map((each) => html`<td class=${each.kind || ''}>${each.cell(row)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

export function Button({children, onClick, tone = '', label, name, disabled}) {
  const [busy, set] = useState(false);
  const press = async () => {
    set(true);
    try {
      await onClick();
    } finally {
      set(false);
    }
  };
  return html`<button type="button" class=${tone} disabled=${disabled || busy} aria-label=${label} data-key=${name}
    onClick=${press}>${children}</button>`;
}

// A question that must be answered before something is done. `typed`: what has to be typed first.
export function Dialog({title, children, yes, tone = 'bad', typed, onYes, onClose}) {
  const place = useRef(null);
  const [text, set] = useState('');
  useEffect(() => {
    place.current?.showModal();
  }, []);
  const ready = !typed || text.trim() === typed;
  const submit = async (event) => {
    event.preventDefault();
    if (ready) await onYes();
  };
  return html`<dialog ref=${place} onClose=${onClose} aria-labelledby="asked"><form onSubmit=${submit}>
    <h2 id="asked">${title}</h2>${children}
    ${typed && html`<label><span>Type <b>${typed}</b> to go on</span> <input autocomplete="off" name="typed" value=${text}
      onInput=${(event) => set(event.currentTarget.value)} /></label>`}
    <p class="buttons"><button type="button" onClick=${() => place.current.close()}>Cancel</button>
      <button type="submit" class=${tone} disabled=${!ready}>${yes}</button></p>
  </form></dialog>`;
}

// Returns [dialog, ask]: ask({title, text, yes, onYes}) opens it.
export function useDialog() {
  const [open, set] = useState(null);
  const close = () => set(null);
  const shown = open && html`<${Dialog} ...${open} onClose=${close} onYes=${async () => {
    await open.onYes();
    close();
  }}>${open.text && html`<p>${open.text}</p>`}${open.body}<//>`;
  return [shown, set];
}

export function Toasts() {
  const shown = useStore(toasts);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${shown.map((each) => html`<p key=${each.id} class=${each.level}>${each.level === 'ok' ? '✓' : '▲'} ${each.text}</p>`)}</div>`;
}

export const Code = ({text, name}) => (text === null || text === undefined ? null
  : html`<pre tabindex="0" role="region" aria-label=${name}>${text}</pre>`);

// Pairs of a name and a value; those without a value are left out.
export function Facts({facts}) {
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== '');
  return html`<dl class="facts">${known.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function Explanation({of}) {
  if (!of) return null;
  const [first, ...others] = of.reasons;
  return html`<section class="explanation" aria-label="Why, and what happens next">
    <p class="answer">${first.sentence}</p>
    ${first.remedy && html`<p class="remedy"><span class="dim">What to do</span> <code>${first.remedy}</code></p>`}
    ${others.length > 0 && html`<ul>${others.map((each) => html`<li>${each.sentence}
      ${each.remedy && html` <code>${each.remedy}</code>`}</li>`)}</ul>`}
  </section>`;
}

// A filter's fields, which are in the address. `fields`: {name, label, options?}.
export function Filters({fields, query, onChange}) {
  const change = (name) => (event) => onChange({...query, [name]: event.currentTarget.value.trim()});
  return html`<form class="filters" role="search" aria-label="Filter" onSubmit=${(event) => event.preventDefault()}>
    ${fields.map(({name, label, options}) => html`<label>${label} ${options
      ? html`<select name=${name} value=${query[name] || ''} onChange=${change(name)}>
          ${options.map(([value, words]) => html`<option value=${value} selected=${value === (query[name] || '')}>${words}</option>`)}</select>`
      : html`<input name=${name} value=${query[name] || ''} onChange=${change(name)} autocomplete="off" spellcheck=${false} />`}</label>`)}
    ${Object.values(query).some(Boolean) && html`<button type="button" onClick=${() => onChange({})}>Clear</button>`}
  </form>`;
}

export function Errors({errors}) {
  if (!errors?.length) return null;
  return html`<section><h2>Failed attempts</h2><ol class="errors" reversed>${[...errors].reverse().map((each) => html`<li>
    <p><b>${each.error || 'Error'}</b>: ${each.message || ''}</p>
    <p class="dim">attempt ${each.attempt}${each.worker ? ` on ${each.worker}` : ''}${each.at ? html`, <${Time} at=${each.at} only="moment" />` : ''}</p>
    ${each.trace && html`<details><summary>Trace</summary><${Code} text=${each.trace} name="Trace" /></details>`}</li>`)}</ol></section>`;
}
