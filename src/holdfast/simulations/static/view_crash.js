// The view of "crash and dedupe".
import { h } from "./dom.js";
import { choice, logView, rowTable, states, tile, toggle, workerCard } from "./parts.js";
import { Crash, FATES } from "./crash.js";
import { LEASE } from "./world.js";

export function crashView() {
  const [places, table, log] = [states(), rowTable(), logView()];
  const workers = [workerCard("worker 1"), workerCard("worker 2")];
  const mails = tile("Mails sent", "one is right");
  const marker = tile("Marker", "“receipt:9182”");
  const refused = tile("Stale writes refused", "0 rows changed");
  const view = {
    name: "crash",
    title: "Crash and dedupe",
    lead: "A worker is lost in the middle of a job. Its row waits until the lease runs out; then another worker runs the job again. The job is never lost, but its handler runs twice. A marker keeps the customer from getting two mails.",
    tries: [
      "Switch the marker off: the second run cannot know about the first, and the customer gets two mails.",
      "Let worker 1 freeze: it wakes up after its lease, and tries to complete the job.",
      "Kill it between the mail and the marker. No database can help here; pass the job’s idempotency key to the mail service.",
    ],
    pace: 1400,
    fate: "after",
    marker: true,
    make(seed) {
      view.model = new Crash(seed, { fate: view.fate, marker: view.marker });
    },
    options: () => [
      choice("Worker 1 is", FATES, view.fate, (value) => ((view.fate = value), view.player.reset())),
      toggle("The handler keeps a marker", view.marker, (on) => ((view.marker = on), view.player.reset())),
    ],
    stage: h(
      "div",
      { class: "stage" },
      places.element,
      h("div", { class: "pair" }, table.element, h("div", { class: "side" }, workers.map(({ element }) => element), mails.element, marker.element, refused.element)),
    ),
    log: log.element,
    draw(playing) {
      const { model } = view;
      places.show(model.row.state);
      table.show(model.row, model.now, model.changed[0] ?? [], LEASE);
      model.workers.forEach(({ state, hold }, n) => workers[n].show(state, state === "running" ? `runs the handler, under generation ${hold}` : ""));
      mails.show(model.mails, model.mails > 1 ? "bad" : model.mails ? "good" : "plain");
      marker.show(!model.withMarker ? "off" : model.marker ? "stored" : "none", model.marker ? "good" : "plain");
      refused.show(model.refused, model.refused ? "good" : "plain");
      log.show(model.log, playing);
    },
  };
  return view;
}
