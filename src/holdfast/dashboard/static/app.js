// The frame of the page: who is logged in, the live state, navigation, keys.

import {ask, connection, go, html, link, live, parse, render, say, session, tell, useEffect, useRef, useState, useStore} from './lib.js';
import {Toasts, Wrong} from './parts.js';
import {Dead} from './pages/dead.js';
import {Demo} from './pages/demo.js';
import {Doctor} from './pages/doctor.js';
import {Incidents} from './pages/incidents.js';
import {Job, Jobs} from './pages/jobs.js';
import {Keys} from './pages/keys.js';
import {Endpoint, OneEvent, Outbox} from './pages/outbox.js';
import {Overview} from './pages/overview.js';
import {Queues} from './pages/queues.js';
import {Schedules} from './pages/schedules.js';
import {Simulations} from './pages/simulations.js';
import {Workers} from './pages/workers.js';
import {Workflow, Workflows} from './pages/workflows.js';

const PAGES = [['/', 'Overview', 'o'], ['/queues', 'Queues', 'q'], ['/jobs', 'Jobs', 'j'], ['/dead', 'Dead', 'd'], ['/workers', 'Workers', 'w'],
  ['/workflows', 'Workflows', 'f'], ['/outbox', 'Outbox', 'b'], ['/schedules', 'Schedules', 's'], ['/keys', 'Hot keys', 'k'], ['/incidents', 'Incidents', 'i'], ['/doctor', 'Doctor', 'h'],
  ['/simulations', 'Simulations', 'm']];
const DEMO = ['/demo', 'Demo', 'e']; // only a demo's dashboard has it
const pages = () => (session.get()?.demo ? [DEMO, ...PAGES] : PAGES);

function Page({route: {path, query}}) {
  const [, first, second, ...rest] = path.split('/');
  const deep = second !== undefined && second !== '';
  const id = deep ? decodeURIComponent(second) : null;
  switch (first) {
    case '': return html`<${Overview} />`;
    case 'queues': return html`<${Queues} query=${query} />`;
    case 'jobs': return deep ? html`<${Job} key=${id} id=${id} />` : html`<${Jobs} query=${query} />`;
    case 'demo': return session.get()?.demo ? html`<${Demo} />` : html`<${Nowhere} />`;
    case 'dead': return html`<${Dead} query=${query} />`;
    case 'workers': return html`<${Workers} />`;
    case 'schedules': return html`<${Schedules} />`;
    case 'keys': return html`<${Keys} query=${query} />`;
    case 'workflows': return deep ? html`<${Workflow} key=${id} id=${id} />` : html`<${Workflows} query=${query} />`;
    case 'outbox': return second === 'events' ? html`<${OneEvent} key=${rest[0]} id=${rest[0]} />` : second === 'endpoints' ? html`<${Endpoint} key=${rest[0]} id=${rest[0]} />` : html`<${Outbox} />`;
    case 'simulations': return html`<${Simulations} />`;
    case 'doctor': return html`<${Doctor} />`;
    case 'incidents': return html`<${Incidents} query=${query} />`;
    default: return html`<${Nowhere} />`;
  }
}

const Nowhere = () => html`<h1>There is no such page</h1><p><a href="#/">Overview</a></p>`;

// Theme: as the system says, until somebody chooses.
const THEMES = ['', 'light', 'dark'];
function turn(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  try {
    localStorage.setItem('holdfast theme', theme);
  } catch { /* a browser that keeps nothing */ }
  dispatchEvent(new Event('holdfast-theme'));
}
function remembered() {
  try {
    return localStorage.getItem('holdfast theme') || '';
  } catch {
    return '';
  }
}

function Theme() {
  const [theme, set] = useState(remembered());
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  const press = () => {
    turn(next);
    set(next);
  };
  return html`<button type="button" class="plain" aria-label=${`Theme: ${theme || 'as the system'}; change`} title=${`Theme: ${theme || 'as the system'}`} onClick=${press}>${theme === 'light' ? '☀' : theme === 'dark' ? '☾' : '◐'}</button>`;
}

function Search() {
  const [text, set] = useState('');
  const search = async (event) => {
    event.preventDefault();
    const wanted = text.trim();
    if (!wanted) return;
    try {
      const found = await ask(`/search?q=${encodeURIComponent(wanted)}`);
      if (found.instance) go(`/workflows/${encodeURIComponent(found.instance)}`);
      else if (found.jobs.length === 1) go(`/jobs/${found.jobs[0].id}`);
      else if (found.jobs.length) go('/jobs', {key: wanted});
      else if (found.event) go(`/outbox/events/${found.event}`);
      else go('/jobs', {text: wanted});
      set('');
    } catch (problem) {
      say(problem.message, 'bad');
    }
  };
  return html`<form role="search" aria-label="Everything" onSubmit=${search}><input id="search" type="search" value=${text} aria-label="Search: an id, a key or a text" placeholder="Search  /" onInput=${(event) => set(event.currentTarget.value)} /></form>`;
}

function Light() {
  const state = useStore(connection);
  const [sign, tone] = {live: ['●', 'ok'], connecting: ['○', 'dim']}[state] || ['▲', 'bad'];
  return html`<span class="small ${tone}" role="status" title="Is this page up to date?">${sign} ${state}</span>`;
}

function Frame() {
  const [route, set] = useState(parse(location.hash));
  const known = useStore(session);
  const state = useStore(live);
  const [help, showHelp] = useState(false);
  useEffect(() => {
    const moved = () => {
      set(parse(location.hash));
      scrollTo(0, 0);
    };
    addEventListener('hashchange', moved);
    set(parse(location.hash)); // it may have moved since the first look
    return () => removeEventListener('hashchange', moved);
  }, []);
  useEffect(() => listen(), []);
  useEffect(() => keys(() => showHelp(true)), []);
  useEffect(() => {
    document.querySelector('nav [aria-current]')?.scrollIntoView({block: 'nearest', inline: 'nearest'});
    const page = pages().find(([path]) => path !== '/' && route.path.startsWith(path));
    document.title = `${page ? page[1] : 'Overview'} – Holdfast`;
  }, [route.path]);
  const leave = async () => {
    await tell('/logout');
    location.reload();
  };
  const dead = state?.dead?.[0];
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector('main').focus(); }}>Skip to the content</a>
    <header><a class="brand" href="#/"><img src="static/icon.svg" alt="" />Holdfast</a>
      <nav aria-label="Pages" class=${pages() === PAGES ? '' : 'long'}>${pages().map(([path, name]) => html`<a href=${link(path)} aria-current=${(path === '/' ? route.path === '/' : route.path.startsWith(path)) ? 'page' : undefined}>${name}${path === '/dead' && dead > 0 && html`<span class="badge">✕<span class="unseen"> some</span></span>`}</a>`)}</nav>
      <div class="tools"><${Light} /><${Search} /><${Theme} />
        <button type="button" class="plain" aria-label="Keys" title="Keys: ?" onClick=${() => showHelp(true)}>?</button>
        ${known.logout && html`<button type="button" class="plain user" onClick=${leave} title=${`Logged in as ${known.user}`}>Log out</button>`}</div></header>
    <main id="main" tabindex="-1">${state?.problem && html`<${Wrong} problem=${{message: state.problem}} />`}${known.read_only && html`<p class="dim small">Read-only: nothing can be changed here.</p>`}<${Page} route=${route} /></main>
    ${help && html`<${Help} onClose=${() => showHelp(false)} />`}<${Toasts} />`;
}

function Help({onClose}) {
  const place = useRef(null);
  useEffect(() => {
    place.current?.showModal();
  }, []);
  const rows = [['/', 'search'], ...pages().map(([, name, key]) => [`g ${key}`, name]), ['j k', 'next row, row before'], ['Enter', 'open the row'], ['x', 'select the row'], ['r', 'revive what is selected, or all that match'], ['?', 'this list']];
  return html`<dialog ref=${place} onClose=${onClose} aria-labelledby="keys"><h2 id="keys">Keys</h2><dl class="keys">${rows.map(([key, words]) => html`<dt>${key.split(' ').map((each) => html`<kbd>${each}</kbd> `)}</dt><dd>${words}</dd>`)}</dl>
    <form method="dialog"><p class="buttons"><button type="submit">Close</button></p></form></dialog>`;
}

// The live state. The browser connects again by itself.
function listen() {
  const source = new EventSource('api/live');
  source.onopen = () => connection.set('live');
  source.onmessage = (event) => {
    connection.set('live');
    live.set(JSON.parse(event.data));
  };
  source.onerror = () => {
    connection.set('no connection');
    if (source.readyState === EventSource.CLOSED) setTimeout(begin, 2000);
  };
  return () => source.close();
}

function keys(help) {
  let after = '';
  const move = (step) => {
    const rows = [...document.querySelectorAll('main tr[data-row]')];
    if (!rows.length) return;
    const at = rows.indexOf(document.activeElement.closest('tr[data-row]'));
    rows[Math.min(Math.max(at + step, 0), rows.length - 1)].focus();
  };
  const pressed = (event) => {
    const on = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    if (on.matches('input:not([type=checkbox]), select, textarea')) {
      if (event.key === 'Escape') on.blur();
      return;
    }
    const row = on.closest?.('tr[data-row]');
    if (after === 'g') {
      after = '';
      const page = pages().find(([, , key]) => key === event.key);
      if (page) go(page[0]);
      return;
    }
    const does = {
      '/': () => document.getElementById('search').focus(), '?': help, j: () => move(1), k: () => move(-1),
      g: () => { after = 'g'; setTimeout(() => { after = ''; }, 1500); },
      Enter: () => row && on === row && row.dataset.href && (location.hash = row.dataset.href),
      x: () => row?.querySelector('input[type=checkbox]')?.click(), r: () => document.querySelector('main [data-key=r]')?.click(),
    }[event.key];
    if (!does) return;
    if (event.key !== 'Enter' || on === row) event.preventDefault();
    does();
  };
  addEventListener('keydown', pressed);
  return () => removeEventListener('keydown', pressed);
}

function Login() {
  const [problem, set] = useState(null);
  const enter = async (event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    try {
      await tell('/login', {token: form.get('token'), name: form.get('name')});
      begin();
    } catch (wrong) {
      set(wrong);
    }
  };
  return html`<main><form class="login" onSubmit=${enter}><h1>Holdfast</h1><${Wrong} problem=${problem} />
    <label>Token <input name="token" type="password" autocomplete="current-password" required /></label>
    <label>Your name, for the journal <input name="name" autocomplete="username" maxlength="80" /></label>
    <button type="submit" class="primary">Log in</button></form></main>`;
}

let shown = null;
async function begin() {
  const root = document.getElementById('app');
  let found;
  try {
    found = await ask('/session');
  } catch (problem) {
    if (shown === 'frame' && problem.status === 0) setTimeout(begin, 2000);
    else render(html`<main><${Wrong} problem=${problem} /></main>`, root);
    return;
  }
  session.set(found);
  const next = found.login ? 'login' : 'frame';
  if (shown !== null) render(null, root);
  shown = next;
  render(found.login ? html`<${Login} />` : html`<${Frame} />`, root);
}

turn(remembered());
connection.watch((state) => {
  if (state === 'logged out' && shown === 'frame') begin();
});
begin();
