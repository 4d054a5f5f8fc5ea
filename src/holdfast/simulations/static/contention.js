// Contention: several workers, one table. With the guard, a worker changes a row only under its lock, after looking at it
// again. Without it, it trusts what it has read a moment ago, and writes over what others wrote.
import { LEASE, World } from "./world.js";
import { apply } from "./rules.js";

export const KEYS = ["A", "B", "C", "D", "E", "F"];

export class Contention extends World {
  constructor(seed, { guard = true, order = true, workers = 4, jobs = 36 } = {}) {
    super(seed, jobs);
    this.guard = guard;
    this.order = order;
    this.keys = this.rows.map(() => KEYS[this.random.below(KEYS.length)]);
    this.effects = this.rows.map(() => 0); // how often each job's effect happened
    this.running = this.rows.map(() => 0);
    this.doubles = 0;
    this.disorder = 0;
    this.skipped = 0;
    this.workers = Array.from({ length: workers }, (_, n) => ({ name: `worker ${n + 1}`, job: null, read: null }));
    for (let n = 0; n < jobs; n++) this.happen(n, "enqueue", { max_attempts: 5 });
    this.workers.forEach((_, n) => this.after(this.random.below(3), () => this.look(n)));
  }

  get done() {
    return this.rows.filter((row) => row.state === "completed").length;
  }

  // The first row that may run, as this worker reads it.
  candidate() {
    return this.rows.findIndex((row, n) => row.state === "pending" && !(this.order && this.held(n)));
  }

  // Does an earlier job of the same key still wait or run?
  held(n) {
    return this.rows.some((row, m) => m < n && this.keys[m] === this.keys[n] && row.state !== "completed");
  }

  look(n) {
    const worker = this.workers[n];
    const job = this.candidate();
    if (job < 0) {
      if (this.done < this.rows.length) this.after(1, () => this.look(n));
      return;
    }
    worker.job = job;
    worker.read = { ...this.rows[job] };
    this.say(`Worker ${n + 1} reads row ${job + 1}: pending.`, "plain", worker.name);
    this.after(this.random.between(0, 1), () => this.take(n));
  }

  take(n) {
    const worker = this.workers[n];
    const { job } = worker;
    const values = { now: this.now, worker: n + 1, lease: LEASE };
    // With the guard, what counts is the row as it is now, under its lock. Without it: the row as it was read.
    const after = apply(this.guard ? this.rows[job] : worker.read, "claim", values);
    if (after === null || (this.guard && this.order && this.held(job))) {
      this.skipped++;
      worker.job = null;
      this.say(`Worker ${n + 1} is too late: row ${job + 1} is taken. It skips it, and looks further.`, "good", worker.name);
      this.after(1, () => this.look(n));
      return;
    }
    worker.read = after;
    worker.hold = after.generation;
    const stolen = this.rows[job].state !== "pending";
    this.rows[job] = after;
    this.running[job]++;
    this.note(job);
    const words = stolen ? `Worker ${n + 1} claims row ${job + 1}, which somebody else has claimed. Nobody notices.` : `Worker ${n + 1} claims row ${job + 1}.`;
    this.say(words, stolen ? "bad" : "plain", worker.name);
    this.after(this.random.between(2, 6), () => this.finish(n));
  }

  // Jobs of one key must run one after the other.
  note(job) {
    const early = this.rows.some((_, m) => m !== job && this.keys[m] === this.keys[job] && (this.running[m] > 0 || (m < job && this.effects[m] === 0)));
    if (early) this.disorder++;
  }

  finish(n) {
    const worker = this.workers[n];
    const { job } = worker;
    this.effects[job]++;
    this.running[job]--;
    const values = { now: this.now, worker: n + 1, generation: worker.hold };
    const after = apply(this.guard ? this.rows[job] : worker.read, "complete", values);
    if (after !== null) this.rows[job] = after;
    worker.job = null;
    if (this.effects[job] > 1) {
      this.doubles++;
      this.say(`Worker ${n + 1} finishes row ${job + 1}, which was done already. The customer gets another mail.`, "bad", worker.name);
    } else {
      this.say(`Worker ${n + 1} completes row ${job + 1}.`, "plain", worker.name);
    }
    this.after(1, () => this.look(n));
  }
}
