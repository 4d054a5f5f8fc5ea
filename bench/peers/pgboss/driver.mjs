// pg-boss. A handler gets a whole batch, and the batch is completed by one statement. Two workers of 2,000 jobs a fetch
// were the fastest of 1 × 500, 2 × 1,000, 4 × 1,000 and 2 × 2,000. Full batches are followed by the next at once, and
// NOTIFY wakes idle workers. Nothing here needs supervision (expiry, retention), so it is off. Many jobs: `insert`. In a
// fleet each fetches two jobs at a time: one that fetches a single job looks again only at the next NOTIFY or poll, and
// the last of forty waits for half a minute. So a fleet has half as many workers, and half a second is the longest poll.

import { load, oneHand, rest, run as speak } from "../speech/speech.mjs";

const { version, module } = await load("pg-boss");
const { PgBoss } = module;

const WORK = { batchSize: 2_000, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
const HAND = { ...WORK, batchSize: 2, localConcurrency: 1, notifyPollingIntervalSeconds: 0.5 };
const QUEUE = { notify: true };

async function start(url, options = {}) {
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false, ...options });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

await speak({
  version,
  settings: `work ${JSON.stringify(WORK)}, queue ${JSON.stringify(QUEUE)}, useListenNotify, no supervision; bulk: insert of 1,000; in a fleet: ${JSON.stringify(HAND)}`,
  batch: 1_000,

  async install(url) {
    const boss = await start(url);
    await boss.createQueue("noop", QUEUE);
    await boss.stop();
  },

  async client(url) {
    const boss = await start(url, { migrate: false });
    return {
      one: (payload) => boss.send("noop", payload),
      many: (payloads) => boss.insert("noop", payloads.map((data) => ({ data }))),
      close: () => boss.stop({ graceful: false }),
    };
  },

  async work(url, handle, ready) {
    const boss = await start(url, { migrate: false, useListenNotify: true });
    await boss.work("noop", oneHand() ? HAND : WORK, async (jobs) => {
      for (const { data } of jobs) handle(data.number, data.sent);
      await rest();
    });
    ready();
  },
});
