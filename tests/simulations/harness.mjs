// Runs parts of the simulations in Node, for the tests: a question as JSON on standard input, an answer on standard output.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const folder = new URL("../../src/holdfast/simulations/static/", import.meta.url);
const load = (name) => import(new URL(name, folder));
const { generator } = await load("random.js");
const { absent, apply, events, fields, ruleFor } = await load("rules.js");

const line = (row) => [row.state, ...fields.map((name) => row[name])].join(" ");

// The same walk as in test_rules.py.
function walk({ seed, steps }) {
  const { below } = generator(seed);
  const digest = createHash("sha256");
  const rows = Array.from({ length: 6 }, absent);
  const used = new Set();
  let now = 0;
  for (let n = 0; n < steps; n++) {
    now += below(4);
    const which = below(rows.length);
    const event = events[below(events.length)];
    const row = rows[which];
    const values = { now, worker: 1 + below(3), generation: row.generation - (below(4) === 0 ? 1 : 0), lease: 5 + below(10), delay: below(8), max_attempts: 1 + below(4) };
    if (below(2) === 0) values.worker = row.owner;
    const rule = ruleFor(row, event, values);
    const after = apply(row, event, values);
    if (rule !== null) used.add(`${event} ${rule.from} ${rule.to}`);
    digest.update(`${n} ${which} ${event} ${after === null ? "-" : line(after)}\n`);
    rows[which] = after ?? row;
    if (below(40) === 0) rows[which] = absent();
  }
  return { digest: digest.digest("hex"), used: [...used].sort() };
}

// What each event of a trace makes of its row; null: nothing.
function replay({ trace }) {
  const rows = new Map();
  return trace.map(({ row, event, values }) => {
    const after = apply(rows.get(row) ?? absent(), event, values);
    if (after !== null) rows.set(row, after);
    return after;
  });
}

async function ring({ sets, keys }) {
  const { bucket, owners } = await load("ring.js");
  return { owners: sets.map((members) => owners(members)), buckets: keys.map(bucket) };
}

async function run({ module, name, seed, options, most = 5000 }) {
  const made = new (await load(module))[name](seed, options);
  const lines = [];
  for (let n = 0; n < most && !made.over; n++) if (!made.step()) break;
  for (const { at, text } of made.log) lines.push(`${at} ${text}`);
  const { rows, mails, refused, marker, doubles, disorder, done, effects } = made;
  return { rows, mails, refused, marker, doubles, disorder, done, effects, log: lines };
}

async function members({ seed, actions }) {
  const made = new (await load("ownership.js")).Ownership(seed);
  const seen = [];
  for (const action of actions) {
    if (typeof action === "number") for (let n = 0; n < action; n++) made.step();
    else made[action]();
    seen.push({ members: made.members, last: made.last && { ring: made.last.ring, modulo: made.last.modulo, of: made.last.of }, ...made.believed() });
  }
  return seen;
}

async function predict({ cases }) {
  const tuner = await load("tuner.js");
  const start = Object.fromEntries(Object.entries(tuner.SETTINGS).map(([name, setting]) => [name, setting.start]));
  return cases.map((settings) => tuner.predict({ ...start, ...settings }));
}

const asked = JSON.parse(readFileSync(0, "utf8"));
const answer = await { walk, replay, ring, run, members, predict }[asked.what](asked);
process.stdout.write(JSON.stringify(answer));
