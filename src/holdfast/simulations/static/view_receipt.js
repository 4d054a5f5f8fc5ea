// The view of "one worker, one receipt".
import { h } from "./dom.js";
import { choice, logView, rowTable, states, tile, workerCard } from "./parts.js";
import { Receipt, TROUBLES } from "./receipt.js";
import { LEASE } from "./world.js";

export function receiptView() {
  const [places, table, worker, log] = [states(), rowTable(), workerCard("worker 1"), logView()];
  const mails = tile("Mails sent", "to the customer of order 9182");
  const attempts = tile("Attempts", "of 3");
  const revive = h("button", { type: "button", onclick: () => (view.model.revive(), view.player.step()) }, "Revive it");
  const view = {
    name: "receipt",
    title: "One worker, one receipt",
    lead: "A customer has paid, and must get a receipt. The job is a row in a table. Follow it: each step says what happens, and the marked columns are what the statement changed.",
    tries: ["Let the mail server never work, and see where the row ends. Then revive it.", "Watch lease_generation: it rises with every claim, and every write of the worker names it."],
    pace: 1400,
    trouble: "twice",
    make(seed) {
      view.model = new Receipt(seed, { trouble: view.trouble });
    },
    options: () => [choice("The mail server", TROUBLES, view.trouble, (value) => ((view.trouble = value), view.player.reset())), revive],
    stage: h("div", { class: "stage" }, places.element, h("div", { class: "pair" }, table.element, h("div", { class: "side" }, worker.element, mails.element, attempts.element))),
    log: log.element,
    draw(playing) {
      const { row, now, changed, mails: sent } = view.model;
      places.show(row.state);
      table.show(row, now, changed[0] ?? [], LEASE);
      worker.show(view.model.worker);
      mails.show(sent, sent ? "good" : "plain");
      attempts.show(row.attempts, row.state === "dead_letter" ? "bad" : "plain");
      revive.disabled = row.state !== "dead_letter";
      log.show(view.model.log, playing);
    },
  };
  return view;
}
