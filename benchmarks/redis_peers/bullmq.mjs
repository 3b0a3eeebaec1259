// BullMQ. Its verbs are those of benchmarks/peer_worker.py.
//
// Settings (its pages "Concurrency", "Auto-removal of jobs" and "Going to production"): 100 jobs at a time in one process,
// as its page has it; what is completed is removed, so that nothing is kept; no limit of retries for the worker's
// connection. What is due later is a delayed job.

import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue, Worker } from "bullmq";

const LOOK_EVERY = 20;
const CONCURRENCY = 100;
const NAME = "nothing";
const [verb, url, runs, at] = process.argv.slice(2);
const connection = { path: url.split("?")[0].replace("redis+unix://", ""), maxRetriesPerRequest: null };
const queue = new Queue(NAME, { connection, defaultJobOptions: { removeOnComplete: true } });
const called = [];

async function add(delayUntil) {
  const opts = delayUntil ? { delay: Math.max(0, delayUntil - Date.now()) } : {};
  await queue.addBulk(Array.from({ length: Number(runs) }, () => ({ name: NAME, data: {}, opts })));
}

const nothing = async () => void called.push(performance.timeOrigin + performance.now());
const work = () => new Worker(NAME, nothing, { connection, concurrency: CONCURRENCY });

async function untilDone() {
  while (called.length < Number(runs)) await sleep(LOOK_EVERY);
  while ((await queue.count()) + (await queue.getActiveCount())) await sleep(LOOK_EVERY / 4);
  if (called.length !== Number(runs)) throw new Error(`${called.length} no-ops were called for ${runs} runs`);
}

const verbs = {
  fill: () => add(),

  async drain() {
    const began = performance.now();
    const cpu = process.cpuUsage();
    work();
    await untilDone();
    const { user, system } = process.cpuUsage(cpu);
    console.log((performance.now() - began) / 1000, (user + system) / 1_000_000);
  },

  async late() {
    const moment = Number(at) * 1000;
    await add(moment);
    work();
    if (Date.now() > moment) throw new Error("it took too long to get ready");
    await untilDone();
    console.log(called.map((each) => each - moment).join(" "));
  },

  async idle() {
    await add(Number(at) * 1000);
    await work().waitUntilReady();
    console.log("up");
    await new Promise((told) => process.once("SIGTERM", told));
  },
};
await verbs[verb]();
process.exit(0);
