// Crash and dedupe: a worker is lost in the middle of a job, the lease runs out, another worker runs the job again.
import { LEASE, World } from "./world.js";

export const FATES = {
  after: "killed after the mail, before it completes",
  before: "killed before the mail",
  between: "killed between the mail and the marker",
  frozen: "frozen, and wakes up too late",
};
const SWEEP = 10;

export class Crash extends World {
  constructor(seed, { fate = "after", marker = true } = {}) {
    super(seed, 1);
    this.fate = fate;
    this.withMarker = marker;
    this.marker = false;
    this.mails = 0;
    this.refused = 0;
    this.workers = [
      { name: "worker 1", state: "idle", hold: 0 },
      { name: "worker 2", state: "idle", hold: 0 },
    ];
    this.after(0, () => this.enqueue());
  }

  get row() {
    return this.rows[0];
  }

  enqueue() {
    this.happen(0, "enqueue");
    this.say("The shop commits the paid order and the job that sends its receipt.", "plain", "shop");
    this.after(1, () => this.claim(0));
  }

  claim(n) {
    const worker = this.workers[n];
    if (worker.state === "dead" || !this.happen(0, "claim", { worker: n + 1 })) return;
    worker.state = "running";
    worker.hold = this.row.generation;
    this.say(`Worker ${n + 1} claims the row. Its hold is (worker ${n + 1}, generation ${worker.hold}).`, "plain", worker.name);
    this.after(this.random.between(2, 5), () => (n === 0 && this.fate === "before" ? this.lose() : this.look(n)));
  }

  look(n) {
    const { name } = this.workers[n];
    if (!this.withMarker) {
      this.say(`Worker ${n + 1} runs the handler. It has no marker to look at, so it cannot know of an earlier run.`, "plain", name);
    } else if (this.marker) {
      this.say(`Worker ${n + 1} runs the handler. The marker “receipt:9182” is there: the mail was sent, so it sends none.`, "good", name);
      this.after(1, () => this.complete(n));
      return;
    } else {
      this.say(`Worker ${n + 1} runs the handler. There is no marker “receipt:9182”, so this is the first time.`, "plain", name);
    }
    this.after(2, () => this.send(n));
  }

  send(n) {
    this.mails++;
    const again = this.mails > 1;
    this.say(
      again ? `Worker ${n + 1} sends the mail again. The customer has ${this.mails} receipts.` : "The mail goes out. Nobody can call it back.",
      again ? "bad" : "plain",
      this.workers[n].name,
    );
    if (n === 0 && this.fate === "between") this.after(1, () => this.lose());
    else if (this.withMarker) this.after(1, () => this.mark(n));
    else this.after(1, () => (n === 0 ? this.lose() : this.complete(n)));
  }

  mark(n) {
    this.marker = true;
    this.say("The handler stores the marker “receipt:9182” in the database.", "plain", this.workers[n].name);
    this.after(1, () => (n === 0 ? this.lose() : this.complete(n)));
  }

  lose() {
    const [worker] = this.workers;
    worker.state = this.fate === "frozen" ? "frozen" : "dead";
    const words = this.fate === "frozen" ? "The machine of worker 1 freezes" : "Worker 1 is killed, and its machine with it";
    this.say(`${words}. The row still says “processing”: nobody can tell yet. The lease runs out in ${this.row.lease - this.now} s.`, "bad", worker.name);
    this.sweepLater();
  }

  sweepLater() {
    this.after(this.row.lease - this.now + this.random.between(1, SWEEP), () => this.sweep());
  }

  sweep() {
    const delay = 2;
    if (!this.happen(0, "sweep", { delay })) return;
    this.say(`The lease ran out, and nobody renewed it. The sweep makes the row pending again, due in ${delay} s. The attempt stays counted.`, "late", "sweep");
    this.after(delay, () => this.claim(1));
  }

  complete(n) {
    const worker = this.workers[n];
    worker.state = "idle";
    if (this.happen(0, "complete", { worker: n + 1, generation: worker.hold })) {
      this.say(`Worker ${n + 1} completes the job under its hold.`, "good", worker.name);
      if (this.fate === "frozen" && n === 1) this.after(20, () => this.wake());
      return;
    }
    this.refused++;
    this.say(
      `Worker 1 completes the job, too – under generation ${worker.hold}. No row has this hold any more: 0 rows changed. It learns that it lost the job, and nothing is overwritten.`,
      "good",
      worker.name,
    );
  }

  wake() {
    const [worker] = this.workers;
    worker.state = "running";
    this.say(`Worker 1 wakes up. For its program, no time has passed; it still believes in its lease of ${LEASE} s.`, "late", worker.name);
    this.after(1, () => this.complete(0));
  }
}
