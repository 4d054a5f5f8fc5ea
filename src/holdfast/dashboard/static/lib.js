// What all parts of the page share: elements, routes, requests, and how values are written.

import {h, render} from './vendor/preact.mjs';
import {useCallback, useEffect, useMemo, useRef, useState} from './vendor/hooks.mjs';
import htm from './vendor/htm.mjs';

export const html = htm.bind(h);
export {h, render, useCallback, useEffect, useMemo, useRef, useState};

// A value that parts of the page watch.

export function store(value) {
  const watchers = new Set();
  return {
    get: () => value,
    set(next) {
      value = next;
      for (const watcher of [...watchers]) watcher(next);
    },
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

export function useStore(source) {
  const [value, set] = useState(source.get());
  useEffect(() => {
    set(source.get());
    return source.watch(set);
  }, [source]);
  return value;
}

export const session = store(null);
export const live = store(null);          // the newest state
export const connection = store('connecting');
export const toasts = store([]);

// Routes are in the fragment, so that the page works under any prefix.

export function parse(hash) {
  const [path, query] = (hash.replace(/^#/, '') || '/').split('?');
  return {path: path || '/', query: Object.fromEntries(new URLSearchParams(query || ''))};
}

export function link(path, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return '#' + path + (kept.length ? '?' + new URLSearchParams(kept) : '');
}

export function go(path, query) {
  location.hash = link(path, query);
}

export const part = (text) => encodeURIComponent(text);

// Requests

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function answered(response) {
  let found = {};
  try {
    found = await response.json();
  } catch {
    found = {problem: `The answer was not JSON (status ${response.status}).`};
  }
  if (response.ok) return found;
  if (response.status === 401) connection.set('logged out');
  throw new Problem(response.status, found.problem || `The server answered with status ${response.status}.`);
}

async function sent(path, options) {
  let response;
  try {
    response = await fetch(path, {credentials: 'same-origin', ...options});
  } catch {
    throw new Problem(0, 'The dashboard does not answer. Is it running?');
  }
  return answered(response);
}

export const ask = (path, signal) => sent('api' + path, {signal});

export function tell(path, body = {}) {
  const headers = {'content-type': 'application/json', 'x-holdfast-csrf': session.get()?.csrf || ''};
  return sent('api' + path, {method: 'POST', headers, body: JSON.stringify(body)});
}

let numbered = 0;

export function say(text, level = 'ok') {
  const id = ++numbered;
  toasts.set([...toasts.get(), {id, text, level}]);
  setTimeout(() => toasts.set(toasts.get().filter((each) => each.id !== id)), level === 'ok' ? 6000 : 15000);
}

// Do something, say what became of it, then look again.
export async function act(path, body, after) {
  try {
    const found = await tell(path, body);
    if (found.done !== undefined) say(String(found.done));
    if (after) after(found);
    return found;
  } catch (problem) {
    say(problem.message, 'bad');
    return null;
  }
}

// Ask now, and again while the page is seen: `every` seconds at the most, when the live state has changed.
export function useAsked(path, every = 2) {
  const [found, set] = useState({data: null, problem: null, path: null});
  const last = useRef(0);
  const busy = useRef(false);
  const reload = useCallback(async () => {
    if (path === null || busy.current) return;
    busy.current = true;
    last.current = Date.now();
    try {
      const data = await ask(path);
      set({data, problem: null, path});
    } catch (problem) {
      set((old) => ({data: old.path === path ? old.data : null, problem, path}));
    } finally {
      busy.current = false;
    }
  }, [path]);
  useEffect(() => {
    busy.current = false;
    reload();
    if (!every) return undefined;
    return live.watch(() => {
      if (!document.hidden && Date.now() - last.current >= every * 1000) reload();
    });
  }, [path, every]);
  return {data: found.path === path ? found.data : null, problem: found.path === path ? found.problem : null, reload};
}

// Values as people read them. All times are UTC.

export function count(value, exact = true) {
  if (value === null || value === undefined) return '–';
  const text = Math.round(value).toLocaleString('en-US');
  return exact ? text : `≈ ${text}`;
}

export const pair = (given) => (given ? count(given[0], given[1]) : count(0));

export function span(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return '–';
  const size = Math.abs(seconds);
  if (size === 0) return '0 s';
  if (size < 0.0005) return '< 1 ms';
  if (size < 1) return `${Math.round(seconds * 1000)} ms`;
  if (size < 10) return `${seconds.toFixed(1)} s`;
  if (size < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(size);
  for (const [unit, name, smaller, inner] of [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'min'], [60, 'min', 1, 's']]) {
    if (whole >= unit) {
      const rest = Math.floor((whole % unit) / smaller);
      return `${Math.floor(whole / unit)} ${name}${rest ? ` ${rest} ${inner}` : ''}`;
    }
  }
  return `${whole} s`;
}

export const percent = (share) => (share === null || share === undefined ? '–' : `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`);

export function rate(value) {
  if (value === null || value === undefined) return '–';
  return `${value === 0 ? '0' : value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString('en-US')} /s`;
}

const twoDigits = (number) => String(number).padStart(2, '0');

export function clock(at) {
  const time = new Date(at);
  return `${twoDigits(time.getUTCHours())}:${twoDigits(time.getUTCMinutes())}:${twoDigits(time.getUTCSeconds())}`;
}

export function day(at) {
  const time = new Date(at);
  return `${time.getUTCFullYear()}-${twoDigits(time.getUTCMonth() + 1)}-${twoDigits(time.getUTCDate())}`;
}

export const moment = (at) => (at ? `${day(at)} ${clock(at)}Z` : '–');

// The clock of the database, as far as this page knows it.
let ahead = 0;
live.watch((state) => {
  if (state?.now) ahead = new Date(state.now).getTime() - Date.now();
});
export const now = () => Date.now() + ahead;

export function ago(at) {
  const seconds = (now() - new Date(at).getTime()) / 1000;
  return seconds >= 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
}
