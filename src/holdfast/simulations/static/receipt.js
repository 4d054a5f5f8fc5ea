// One worker, one receipt: a row from its enqueue to its end, with a handler that may fail.
import { World } from "./world.js";

export const TROUBLES = {
  none: "works",
  twice: "fails twice, then works",
  always: "never works",
};
const RENEW = 30; // a third of the lease

export class Receipt extends World {
  constructor(seed, { trouble = "twice" } = {}) {
    super(seed, 1);
    this.trouble = trouble;
    this.mails = 0;
    this.worker = "idle";
    this.after(0, () => this.enqueue());
  }

  get row() {
    return this.rows[0];
  }

  enqueue() {
    this.happen(0, "enqueue");
    this.say("The shop commits the paid order and this row together. From here on, the receipt cannot be forgotten.", "plain", "shop");
    this.after(1, () => this.claim());
  }

  claim() {
    if (!this.happen(0, "claim", { worker: 1 })) return;
    this.worker = "claimed";
    const { attempts, generation } = this.row;
    this.hold = generation;
    this.say(
      `The worker claims the row: attempt ${attempts}, generation ${generation}. The lease says until when the row is its own.`,
      "plain",
      "worker",
    );
    this.after(1, () => this.start());
  }

  start() {
    this.worker = "running";
    const seconds = this.random.between(35, 55);
    this.say("The handler runs: it connects to the mail server, which takes its time.", "plain", "worker");
    this.after(RENEW, () => this.renew());
    this.after(seconds, () => this.end());
  }

  renew() {
    if (this.worker !== "running" || !this.happen(0, "renew", { worker: 1, generation: this.hold })) return;
    this.say("The handler still runs, so the supervisor renews the lease. A slow job is not a lost job.", "plain", "supervisor");
  }

  end() {
    const fails = this.trouble === "always" || (this.trouble === "twice" && this.row.attempts <= 2);
    if (fails) this.fail();
    else this.complete();
  }

  complete() {
    this.mails++;
    this.worker = "idle";
    this.happen(0, "complete", { worker: 1, generation: this.hold });
    this.say("The mail is sent. The worker completes the job under its hold, and the row moves to the archive.", "good", "worker");
  }

  fail() {
    this.worker = "idle";
    const delay = 2 ** this.row.attempts;
    this.happen(0, "fail", { worker: 1, generation: this.hold, delay });
    if (this.row.state === "dead_letter") {
      this.say("The mail server refuses again, and no attempt is left: the row is a dead letter. It keeps every error, and waits for you to revive it.", "bad", "worker");
      return;
    }
    this.say(`The mail server refuses. The attempt failed: the row is pending again, and due in ${delay} s.`, "late", "worker");
    this.after(delay, () => this.claim());
  }

  // What a person can do in the end.
  revive() {
    this.after(1, () => {
      this.trouble = "none";
      this.happen(0, "revive");
      this.say("You repaired the mail server and revive the job: pending again, with all its attempts.", "plain", "you");
      this.after(1, () => this.claim());
    });
  }
}
