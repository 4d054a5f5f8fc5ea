// The driver's side, for drivers in Node; the same as speech.py.

import { randomInt } from "node:crypto";
import { readFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

// Makes a payload of about 100 bytes, as for ours.
const NOTE = "x".repeat(60);
const WARM = 20;

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

// CLOCK_MONOTONIC in seconds, which all processes of a host share.
export function now() {
  return Number(process.hrtime.bigint()) / 1e9;
}

// peer: { version, settings, batch, install(url), client(url) → { one, many, close }, work(url, handle, ready) }
export async function run(peer) {
  const [name, url, ...numbers] = process.argv.slice(2);
  const [jobs, least, most] = numbers.map(Number);
  if (name === "install") {
    await peer.install(url);
    say("done");
  } else if (name === "bulk") await bulk(peer, url, jobs);
  else if (name === "single") await single(peer, url, jobs);
  else if (name === "pickup") await pickup(peer, url, jobs, least, most);
  else return work(peer, url, jobs, name === "worker-pickup");
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

async function pickup(peer, url, jobs, least, most) {
  const client = await peer.client(url);
  for (let n = 0; n < jobs; n++) {
    await sleep(randomInt(Math.round(least * 1000), Math.round(most * 1000) + 1));
    await client.one({ ...payload(n), sent: now() });
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
    say("waited", { ms: (now() - sent) * 1000 });
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
