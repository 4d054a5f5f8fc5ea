// Graphile Worker, with the settings of its page on performance: 24 jobs at a time, 500 in the local queue, completions in
// batches without a delay, prepared statements. Twice as many of both were no faster. Many jobs: `addJobs`. In a fleet of
// one-hand workers each takes one job at a time, without a local queue, in which others could not reach them.

import { load, oneHand, rest, run as speak } from "../speech/speech.mjs";

const { version, module } = await load("graphile-worker");
const { Logger, makeWorkerUtils, run, runMigrations } = module.default ?? module;

const WORKER = { concurrentJobs: 24, maxPoolSize: 25, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const HAND = { concurrentJobs: 1, maxPoolSize: 4 };
const logger = new Logger(() => () => {});
const preset = (url) => ({ worker: { connectionString: url, logger, ...(oneHand() ? HAND : WORKER) } });

await speak({
  version,
  settings: `${JSON.stringify(WORKER)}, LISTEN, prepared statements; bulk: addJobs of 1,000; in a fleet: ${JSON.stringify(HAND)}`,
  batch: 1_000,

  async install(url) {
    await runMigrations({ preset: preset(url) });
  },

  async client(url) {
    const utils = await makeWorkerUtils({ preset: preset(url) });
    return {
      one: (payload) => utils.addJob("noop", payload),
      many: (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: "noop", payload }))),
      close: () => utils.release(),
    };
  },

  async work(url, handle, ready) {
    const noop = async (payload) => {
      handle(payload.number, payload.sent);
      await rest();
    };
    const runner = await run({ preset: preset(url), taskList: { noop }, noHandleSignals: true });
    ready();
    await runner.promise;
  },
});
