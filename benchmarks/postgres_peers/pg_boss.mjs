// pg-boss.
//
// Settings (its page "Workers"): batches of 500 and `burstWhenBatchFull`, with which a worker fetches again at once for
// as long as batches are full; two workers (`localConcurrency`), so that one fetches while the other completes. A batch is
// handed to one call of the handler and completed as one.

import { PgBoss } from "pg-boss";
import { main } from "./program.mjs";

const BATCH = 500;
const QUEUE = "nothing";
let count = 0;

async function started(url) {
  const boss = new PgBoss({ connectionString: url, schedule: false });
  boss.on("error", (fault) => {
    throw fault;
  });
  return boss.start();
}

await main({
  async fill(url, runs) {
    const boss = await started(url);
    await boss.createQueue(QUEUE);
    await boss.insert(QUEUE, Array.from({ length: runs }, () => ({ data: {} })));
    await boss.stop();
  },

  async drain(url) {
    const boss = await started(url);
    await boss.work(QUEUE, { batchSize: BATCH, burstWhenBatchFull: true, localConcurrency: 2 }, async (jobs) => {
      count += jobs.length;
    });
    return () => boss.stop();
  },

  async enqueuer(url) {
    const boss = await started(url);
    await boss.createQueue(QUEUE);
    return (number) => boss.send(QUEUE, { number });
  },

  called: () => count,
  done: "SELECT NOT EXISTS (SELECT FROM pgboss.job WHERE state <> 'completed') AS done",
});
