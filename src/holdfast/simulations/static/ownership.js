// The ring: which worker owns which bucket, while workers come and go; and the same with "bucket modulo workers".
import { BUCKETS, bucket, moduloOwners, moved, owners } from "./ring.js";
import { generator } from "./random.js";

export const HEARTBEAT = 10;
export const SILENCE = 30; // seconds after which a silent worker is no member any more
export const REFRESH = 5; // how often a worker looks at the registry
const NAMES = ["ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal"];
const KEYS = 300;

export class Ownership {
  constructor(seed, { workers = 3 } = {}) {
    this.random = generator(seed);
    this.now = 0;
    this.log = [];
    this.workers = [];
    this.keys = Array.from({ length: KEYS }, () => bucket(`order:${this.random.next()}`));
    this.last = null; // what the last change of the members moved
    this.total = { changes: 0, ring: 0, modulo: 0 };
    for (let n = 0; n < workers; n++) this.join(NAMES[n]);
    this.members = this.live();
    this.ring = owners(this.members);
    this.modulo = moduloOwners(this.members);
    for (const worker of this.workers) this.refresh(worker);
    this.say(`${workers} workers share ${BUCKETS} buckets. Each builds the same ring from the registry; nobody assigns shares.`);
  }

  join(name) {
    const worker = { name, state: "alive", seen: this.now, phase: this.random.below(REFRESH), view: [], mine: 0 };
    this.workers.push(worker);
    return worker;
  }

  // The members, as the registry shows them.
  live() {
    return this.workers.filter((worker) => worker.state !== "drained" && this.now - worker.seen < SILENCE).map((worker) => worker.name).sort();
  }

  refresh(worker) {
    worker.view = owners(this.live());
    worker.mine = worker.view.filter((owner) => owner === worker.name).length;
  }

  get over() {
    return false;
  }

  // What somebody does.

  get canAdd() {
    return NAMES.some((name) => !this.workers.some((worker) => worker.name === name));
  }

  add() {
    const name = NAMES.find((each) => !this.workers.some((worker) => worker.name === each));
    if (name === undefined) return;
    const worker = this.join(name);
    this.say(`${name} starts and registers.`, "plain", name);
    this.settle();
    this.refresh(worker);
  }

  drain(name = this.someone()) {
    const worker = this.workers.find((each) => each.name === name && each.state === "alive");
    if (worker === undefined) return;
    worker.state = "drained";
    worker.view = [];
    worker.mine = 0;
    this.say(`${name} drains: it finishes what runs, and leaves the registry at once.`, "plain", name);
    this.settle();
  }

  kill(name = this.someone()) {
    const worker = this.workers.find((each) => each.name === name && each.state === "alive");
    if (worker === undefined) return;
    worker.state = "dead";
    worker.view = [];
    worker.mine = 0;
    this.say(`${name} is killed. The registry does not know: its last heartbeat is ${this.now - worker.seen} s old, and counts for ${SILENCE}.`, "bad", name);
  }

  someone() {
    const alive = this.workers.filter((worker) => worker.state === "alive");
    return alive.length > 1 ? alive[this.random.below(alive.length)].name : undefined;
  }

  // Has the set of members changed? Then count what moves.
  settle() {
    const members = this.live();
    if (members.join() === this.members.join()) return;
    const [ring, modulo] = [owners(members), moduloOwners(members)];
    this.last = {
      ring: moved(this.ring, ring, this.keys),
      modulo: moved(this.modulo, modulo, this.keys),
      of: this.keys.length,
      ringMoved: this.keys.filter((key) => this.ring[key] !== ring[key]),
      moduloMoved: this.keys.filter((key) => this.modulo[key] !== modulo[key]),
    };
    this.total.changes++;
    this.total.ring += this.last.ring;
    this.total.modulo += this.last.modulo;
    [this.members, this.ring, this.modulo] = [members, ring, modulo];
    this.say(
      `${members.length} members now. Of ${KEYS} open keys, the ring moves ${this.last.ring}; “hash modulo workers” would move ${this.last.modulo}.`,
      "good",
      "registry",
    );
  }

  // A second passes: heartbeats, refreshes, and silent workers that are no members any more.
  step() {
    this.now++;
    for (const worker of this.workers) {
      if (worker.state === "alive" && this.now - worker.seen >= HEARTBEAT) worker.seen = this.now;
    }
    this.settle();
    for (const worker of this.workers) {
      if (worker.state !== "alive" || (this.now + worker.phase) % REFRESH !== 0) continue;
      const before = worker.mine;
      this.refresh(worker);
      if (worker.mine !== before) this.say(`${worker.name} looks at the registry: it owns ${worker.mine} buckets now (before: ${before}).`, "plain", worker.name);
    }
    this.workers = this.workers.filter((worker) => worker.state === "alive" || this.now - worker.seen < SILENCE + HEARTBEAT);
    return true;
  }

  // Keys by how many running workers believe to own them.
  believed() {
    const alive = this.workers.filter((worker) => worker.state === "alive");
    const counts = this.keys.map((key) => alive.filter((worker) => worker.view[key] === worker.name).length);
    return { waiting: counts.filter((count) => count === 0).length, twice: counts.filter((count) => count > 1).length };
  }

  share(name) {
    return this.ring.filter((owner) => owner === name).length;
  }

  say(text, tone = "plain", who = "") {
    this.log.push({ at: this.now, text, tone, who });
  }
}
