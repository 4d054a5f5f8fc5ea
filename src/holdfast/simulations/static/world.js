// What the simulations of rows share: a clock in whole seconds, actions that wait for their time, rows that change only by
// the rules, and a log of what happened.
import { generator } from "./random.js";
import { absent, apply } from "./rules.js";

export const LEASE = 90;

export class World {
  constructor(seed, rows) {
    this.random = generator(seed);
    this.now = 0;
    this.rows = Array.from({ length: rows }, absent);
    this.log = [];
    this.changed = []; // fields of the row that the last step changed
    this.waiting = [];
    this.serial = 0;
  }

  // Do this after so many seconds.
  after(seconds, action) {
    this.waiting.push({ at: this.now + seconds, serial: this.serial++, action });
    this.waiting.sort((a, b) => a.at - b.at || a.serial - b.serial);
  }

  get over() {
    return this.waiting.length === 0;
  }

  // Do what comes next, until something is worth telling. Returns whether there was anything to do.
  step() {
    const told = this.log.length;
    const before = this.rows.map((row) => ({ ...row }));
    while (this.log.length === told && !this.over) {
      const next = this.waiting.shift();
      this.now = next.at;
      next.action();
    }
    this.changed = this.rows.map((row, n) => Object.keys(row).filter((name) => row[name] !== before[n][name]));
    return this.log.length > told;
  }

  // Let an event happen to a row. Returns whether a rule applied.
  happen(n, event, values = {}) {
    const after = apply(this.rows[n], event, { now: this.now, delay: 0, lease: LEASE, max_attempts: 3, ...values });
    if (after !== null) this.rows[n] = after;
    return after !== null;
  }

  // `tone`: plain, good, late or bad.
  say(text, tone = "plain", who = "") {
    this.log.push({ at: this.now, text, tone, who });
  }
}
