// A worker in Node (18 or newer, nothing to install): it takes runs of jobs with `function = "add"`, whose payload is
// JSON such as [1, 2], and answers the sum. What is no list of numbers fails.
//
//   tokimori serve &
//   tokimori job add add --function add
//   tokimori node address --header > header      # the line that lets you in; keep it to yourself (umask 077)
//   node worker.mjs http://127.0.0.1:8000 header
//
// It works on up to five runs at a time. TERM lets it finish them.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const [address, headerFile] = process.argv.slice(2);
const [name, value] = readFileSync(headerFile, "utf8").trim().split(/:\s*/, 2);
const ALIVE_TIME = 30;
let stopping = false;
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => { stopping = true; });

async function ask(path, body) {
  const answer = await fetch(`${address}/api/v2/claims${path}`, {
    method: "POST",
    headers: { [name]: value, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const said = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.error.message), { code: said.error.code });
  return said;
}

function work(payload) {
  const numbers = JSON.parse(payload);
  if (!Array.isArray(numbers) || numbers.some((each) => typeof each !== "number")) throw new Error("not a list of numbers");
  return numbers.reduce((sum, each) => sum + each, 0);
}

async function carryOut({ run_id: run, token, payload }) {
  const beats = setInterval(() => ask(`/${run}/heartbeat`, { token }).catch((fault) => console.error(fault.message)), ALIVE_TIME * 333);
  try {
    let [said, body] = ["finish", {}];
    try {
      body = { result: await work(payload) };
    } catch (fault) {
      [said, body] = ["fail", { error: String(fault) }];
    }
    console.log(await ask(`/${run}/${said}`, { token, ...body }));
  } catch (fault) {
    console.error(`run ${run}: ${fault.message}`); // claim_lost: somebody else has it
  } finally {
    clearInterval(beats);
  }
}

while (!stopping) {
  try {
    const runs = await ask("", { types: ["add"], limit: 5, wait: 5, alive_time: ALIVE_TIME, worker: "worker.mjs" });
    await Promise.all(runs.map(carryOut));
  } catch (fault) {
    console.error(fault.message);
    await sleep(2000);
  }
}
