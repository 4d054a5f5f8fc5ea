// The tuner: what a claim loop can do, and what limits it. Times are whole microseconds; the costs are those that
// `make bench` measured (docs/performance.md), and a test compares the two.
import { generator } from "./random.js";

const JOB_CPU = 27; // server and worker together, per job
const STATEMENTS_CPU = 250; // a claim and a completion, whatever their size
const PROCESS = 17; // of one process, per job: an event loop does one thing at a time
const HAND = 350; // between two jobs of one hand
const ROW = 5; // per row of a claim, until it arrives

export const SETTINGS = {
  rate: { label: "Jobs that come in", unit: "a second", low: 1, high: 100000, start: 300, log: true },
  handler: { label: "A handler waits for", unit: "ms", low: 0, high: 2000, start: 50, log: true },
  processes: { label: "Worker processes", unit: "", low: 1, high: 32, start: 1 },
  hands: { label: "Jobs at a time, per process", unit: "", low: 1, high: 200, start: 20 },
  batch: { label: "Rows per claim", unit: "", low: 1, high: 500, start: 200, log: true },
  trip: { label: "Round trip to the server", unit: "ms", low: 0, high: 50, start: 1 },
  cores: { label: "Cores, for server and workers", unit: "", low: 1, high: 64, start: 2 },
  poll: { label: "Longest poll interval", unit: "ms", low: 10, high: 5000, start: 1000, log: true },
};
const COMMIT = 900;
const BURST = 4;

export const LIMITS = {
  hands: {
    label: "hands",
    words: "all hands are busy with handlers.",
    remedy: "Raise the jobs at a time, or start more processes. A faster handler helps most.",
  },
  claims: {
    label: "claims",
    words: "the workers wait for their claims: each one is a round trip.",
    remedy: "Claim more rows at a time, move the workers closer to the server, or start more processes.",
  },
  process: {
    label: "event loops",
    words: "one event loop cannot go faster.",
    remedy: "Start more worker processes.",
  },
  cpu: {
    label: "CPU",
    words: "the cores are busy with statements.",
    remedy: "More cores help, and so do larger claims. More workers do not.",
  },
};

// Jobs per second that each part could do, the smallest of them, and how soon an idle worker picks up a job.
export function predict({ rate, handler, processes, hands, batch, trip, cores, poll, wake = true, bursts = false }) {
  const claim = trip * 1000 + COMMIT + ROW * batch;
  const capacities = {
    hands: Math.floor((processes * hands * 1000000) / (handler * 1000 + HAND)),
    claims: Math.floor((processes * batch * 1000000) / claim),
    process: Math.floor((processes * 1000000) / PROCESS),
    cpu: Math.floor((cores * 1000000 * batch) / (JOB_CPU * batch + STATEMENTS_CPU)),
  };
  const [limit, capacity] = Object.entries(capacities).reduce((least, each) => (each[1] < least[1] ? each : least));
  // Two commits, two round trips and a notification; without wake-ups, the next poll.
  const pickup = wake ? 2 * COMMIT + 2 * trip * 1000 + 600 : Math.floor((poll * 1000) / 2) + claim;
  const offered = bursts ? Math.floor((rate * (30 + 5 * (BURST - 1))) / 30) : rate; // on average
  return { capacities, limit, capacity, offered, throughput: Math.min(offered, capacity), pickup, enough: offered <= capacity };
}

export class Tuner {
  constructor(seed, settings = {}) {
    this.random = generator(seed);
    this.settings = { ...Object.fromEntries(Object.entries(SETTINGS).map(([name, { start }]) => [name, start])), wake: true, bursts: false, ...settings };
    this.now = 0;
    this.waiting = 0;
    this.done = 0;
    this.came = 0;
    this.history = [];
    this.log = [];
  }

  get over() {
    return false;
  }

  get prediction() {
    return predict(this.settings);
  }

  // Milliseconds that a job which comes in now waits.
  get lag() {
    const { capacity, pickup } = this.prediction;
    return Math.floor((this.waiting * 1000) / capacity) + Math.ceil(pickup / 1000);
  }

  // Jobs that come in within this second, more or less.
  get expected() {
    return this.settings.rate * (this.settings.bursts && this.now % 30 < 5 ? BURST : 1);
  }

  // A second passes.
  step() {
    this.now++;
    const { capacity } = this.prediction;
    this.came = Math.floor((this.expected * this.random.between(80, 120)) / 100);
    this.done = Math.min(this.waiting + this.came, capacity);
    this.waiting += this.came - this.done;
    this.history.push({ at: this.now, came: this.came, done: this.done, waiting: this.waiting, lag: this.lag });
    if (this.history.length > 120) this.history.shift();
    return true;
  }
}
