// graphile-worker. First argument: `default` or `batched`.
//
// Settings (its page "Performance"): 24 jobs at a time and 25 sessions, as in both of its own measurements; `batched` as
// in the faster one: a local queue of 500, completions written together without delay. Its own measurement starts four
// processes; here one, as Tokimori's node is one: on two cores, which the server needs too, more are no faster.

import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { main } from "./program.mjs";

const BATCHED = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const kind = process.argv[2];
const quiet = new Logger(() => () => {});
let count = 0;

await main({
  async fill(url, runs) {
    await runMigrations({ connectionString: url, logger: quiet });
    const worker = await makeWorkerUtils({ connectionString: url, logger: quiet });
    await worker.withPgClient((db) =>
      db.query("SELECT graphile_worker.add_job('nothing') FROM generate_series(1, $1::int)", [runs]),
    );
    await worker.release();
  },

  async drain(url) {
    const worker = { connectionString: url, concurrentJobs: 24, maxPoolSize: 25, logger: quiet };
    const preset = { worker: kind === "batched" ? { ...worker, ...BATCHED } : worker };
    const nothing = async () => void count++;
    const runner = await run({ preset, taskList: { nothing }, noHandleSignals: true });
    return () => runner.stop();
  },

  called: () => count,
  done: "SELECT NOT EXISTS (SELECT FROM graphile_worker._private_jobs) AS done",
});
