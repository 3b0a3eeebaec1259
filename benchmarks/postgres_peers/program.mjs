// What the Node peers have in common: their command line, and when a drain has ended.

import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

// Milliseconds between two looks at whether the work is done.
const LOOK_EVERY = 20;

// `fill URL RUNS` stores due no-ops; `drain URL RUNS` prints the seconds in which a worker ends
// them, and the seconds of CPU that its process spends on it.
// `enqueue URL RUNS AT_ONCE` prints the seconds in which so many callers ask for the runs, each by a call of its own.
// `drain` gets a function that answers when so many no-ops have been called and its tables say that all have ended.
export async function main({ fill, drain, called, done, enqueuer }) {
  const from = process.argv.findIndex((word) => ["fill", "drain", "enqueue"].includes(word));
  const [verb, url, runs, atOnce] = process.argv.slice(from);
  if (verb === "fill") {
    await fill(url, Number(runs));
  } else if (verb === "enqueue") {
    const enqueue = await enqueuer(url);
    await ask(enqueue, 100, Number(atOnce));
    const began = performance.now();
    await ask(enqueue, Number(runs), Number(atOnce));
    console.log((performance.now() - began) / 1000);
  } else {
    const began = performance.now();
    const cpu = process.cpuUsage();
    const stop = await drain(url);
    await untilDone(url, Number(runs), called, done);
    const { user, system } = process.cpuUsage(cpu);
    console.log((performance.now() - began) / 1000, (user + system) / 1_000_000);
    await stop();
  }
  process.exit(0);
}

async function ask(enqueue, runs, callers) {
  let next = 0;
  const call = async () => {
    while (next < runs) await enqueue(next++);
  };
  await Promise.all(Array.from({ length: callers }, call));
}

// While no-ops are still called nobody is disturbed by a query.
async function untilDone(url, runs, called, done) {
  while (called() < runs) await sleep(LOOK_EVERY);
  const db = new pg.Client(url);
  await db.connect();
  while (!(await db.query(done)).rows[0].done) await sleep(LOOK_EVERY / 4);
  await db.end();
  if (called() !== runs) throw new Error(`${called()} no-ops were called for ${runs} runs`);
}
