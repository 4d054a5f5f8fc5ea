// The driver's side, for drivers in Node; the same as speech.py.

import { readFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

// Makes a payload of about 100 bytes, as for ours.
const NOTE = "x".repeat(60);
const WARM = 20;
// Milliseconds that a job of a burst takes, so that one worker cannot take them all.
const HELD = 50;

// The package and its version, out of the peer's environment, which is not where the driver's own file is.
export async function load(name) {
  const place = process.env.PEER_ENVIRONMENT;
  const found = createRequire(join(place, "package.json")).resolve(name);
  const { version } = JSON.parse(readFileSync(join(place, "node_modules", name, "package.json"), "utf8"));
  return { version, module: await import(pathToFileURL(found)) };
}

export function say(event, words = {}) {
  writeSync(1, JSON.stringify({ event, ...words }) + "\n");
}

// Whether this is a worker of a fleet, which takes as few jobs at a time as the peer can be told to.
export const oneHand = () => process.argv[2] === "worker-hand";

// To be awaited by the handler at its end: one of a fleet keeps its hand busy for a while.
export const rest = async () => oneHand() && sleep(HELD);

// CLOCK_MONOTONIC in seconds, which all processes of a host share.
export function now() {
  return Number(process.hrtime.bigint()) / 1e9;
}

// peer: { version, settings, batch, install(url), client(url) → { one, many, close }, work(url, handle, ready) }
export async function run(peer) {
  const [name, url, ...numbers] = process.argv.slice(2);
  const [jobs, second, third, fourth] = numbers.map(Number);
  if (name === "install") {
    await peer.install(url);
    say("done");
  } else if (name === "bulk") await bulk(peer, url, jobs);
  else if (name === "single") await single(peer, url, jobs);
  else if (name === "pickup") await pickup(peer, url, jobs, second, third);
  else if (name === "burst") await burst(peer, url, jobs, second, third, fourth, numbers[4]);
  else return work(peer, url, jobs, name !== "worker");
  process.exit(0);
}

const payload = (number) => ({ number, note: NOTE });

// The first call does not count: it prepares statements and fills caches.
async function bulk(peer, url, jobs) {
  const client = await peer.client(url);
  let began = 0;
  for (let first = 0; first < jobs; first += peer.batch) {
    const size = Math.min(peer.batch, jobs - first);
    await client.many(Array.from({ length: size }, (_, n) => payload(first + n)));
    began ||= now();
  }
  say("done", { jobs: jobs - peer.batch, seconds: now() - began });
  await client.close();
}

async function single(peer, url, jobs) {
  const client = await peer.client(url);
  for (let n = 0; n < WARM; n++) await client.one(payload(n));
  const began = now();
  for (let n = 0; n < jobs; n++) await client.one(payload(n));
  say("done", { jobs, seconds: now() - began });
  await client.close();
}

const between = (least, most) => least + Math.random() * (most - least);

// One job after the other, so many seconds from one call to the next, however long a call takes. Timers are late by up
// to a millisecond: that is made up for, by one pause at most.
async function pickup(peer, url, jobs, least, most) {
  const client = await peer.client(url);
  let due = now();
  for (let n = 0; n < jobs; n++) {
    due = Math.max(due + between(least, most), now() - most);
    await sleep(Math.max(due - now(), 0) * 1000);
    await client.one({ ...payload(n), sent: now() });
  }
  say("done");
  await client.close();
}

// So many jobs at once, by one call (`many`) or by one call each (`one`), after so many seconds of silence.
async function burst(peer, url, jobs, rounds, least, most, how) {
  const client = await peer.client(url);
  for (let round = 0; round < rounds; round++) {
    await sleep(between(least, most) * 1000);
    const sent = now();
    const payloads = Array.from({ length: jobs }, (_, n) => ({ ...payload(round * jobs + n), sent }));
    await (how === "many" ? client.many(payloads) : Promise.all(payloads.map(client.one)));
  }
  say("done");
  await client.close();
}

async function work(peer, url, jobs, pickup) {
  const seen = new Uint8Array(jobs + 1);
  const quarter = Math.max(Math.floor(jobs / 4), 1);
  let count = 0;

  function called(number) {
    count += 1;
    seen[number] = 1;
    if (count % quarter === 0 || count === 1) say("calls", { calls: count, at: now() });
  }

  function waited(number, sent) {
    say("waited", { number, ms: (now() - sent) * 1000 });
  }

  process.stdin.resume();
  process.stdin.on("end", () => {
    try {
      say("stopped", { calls: count, distinct: seen.reduce((sum, one) => sum + one, 0) });
    } finally {
      // The bench has seen all jobs completed and drops the database next, or is gone: nothing is to be tidied.
      process.exit(0);
    }
  });
  const ready = () => say("ready", { version: peer.version, runtime: `Node ${process.version}`, settings: peer.settings });
  await peer.work(url, pickup ? waited : called, ready);
}
