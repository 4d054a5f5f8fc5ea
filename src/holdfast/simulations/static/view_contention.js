// The view of contention: a line of jobs per key, and who runs them.
import { h, mark, text } from "./dom.js";
import { logView, tile, toggle, workerCard } from "./parts.js";
import { Contention, KEYS } from "./contention.js";

const SIGNS = { pending: "○", processing: "●", completed: "✓" };

export function contentionView() {
  const log = logView();
  const board = h("div", { class: "board" });
  const crew = h("div", { class: "crew" });
  const tiles = {
    done: tile("Completed"),
    doubles: tile("Run twice", "two mails for one order"),
    disorder: tile("Out of order", "beside or before an earlier one"),
    skipped: tile("Skipped", "taken by somebody else"),
  };
  let cells = [];
  let cards = [];
  const view = {
    name: "contention",
    title: "Many workers, one table",
    lead: "Four workers take jobs from the same table, and nobody assigns them. Each looks for a row, then claims it. Between the two, another worker may have claimed it already. Each line is a key, such as a customer, whose jobs must run in order.",
    tries: ["Switch the guard off, and play: workers overwrite each other’s claims, and jobs run twice.", "Switch only the order off: no job runs twice, but a customer’s second job may run before the first has ended."],
    pace: 350,
    guard: true,
    order: true,
    make(seed) {
      view.model = new Contention(seed, { guard: view.guard, order: view.order });
      build();
    },
    options: () => [
      toggle("Guard: look again under the row’s lock, and write under the hold", view.guard, (on) => ((view.guard = on), view.player.reset())),
      toggle("Order: one job of a key at a time", view.order, (on) => ((view.order = on), view.player.reset())),
    ],
    stage: h("div", { class: "stage" }, h("div", { class: "tiles" }, Object.values(tiles).map(({ element }) => element)), crew, h("div", { class: "card" }, board)),
    log: log.element,
    draw(playing) {
      const { model } = view;
      tiles.done.show(`${model.done} of ${model.rows.length}`, model.done === model.rows.length ? "good" : "plain");
      tiles.doubles.show(model.doubles, model.doubles ? "bad" : "good");
      tiles.disorder.show(model.disorder, model.disorder ? "bad" : "good");
      tiles.skipped.show(model.skipped);
      model.workers.forEach(({ job }, n) => cards[n].show(job === null ? "idle" : "running", job === null ? "looks for work" : `row ${job + 1}, key ${model.keys[job]}`));
      model.rows.forEach((row, n) => {
        const again = model.effects[n] > 1;
        cells[n].dataset.state = row.state;
        mark(cells[n], "double", again || model.running[n] > 1);
        text(cells[n].firstElementChild, again ? `×${model.effects[n]}` : SIGNS[row.state]);
        const words = again ? `done ${model.effects[n]} times` : model.running[n] > 1 ? `running ${model.running[n]} times` : row.state;
        const label = `Row ${n + 1}, key ${model.keys[n]}: ${words}`;
        if (cells[n].title !== label) cells[n].title = label;
        text(cells[n].lastElementChild, label);
      });
      log.show(model.log, playing);
    },
  };

  function build() {
    const { model } = view;
    cards = model.workers.map(({ name }) => workerCard(name));
    crew.replaceChildren(...cards.map(({ element }) => element));
    cells = model.rows.map((_, n) => h("li", {}, h("span", { class: "sign", "aria-hidden": "true" }), h("small", { "aria-hidden": "true" }, n + 1), h("span", { class: "said" })));
    const lines = KEYS.map((key) =>
      h("div", { class: "lane" }, h("span", { class: "key" }, `key ${key}`), h("ol", { "aria-label": `Jobs of key ${key}, in order` }, cells.filter((_, n) => model.keys[n] === key))),
    );
    board.replaceChildren(...lines);
  }
  return view;
}
