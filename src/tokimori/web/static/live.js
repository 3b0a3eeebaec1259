// Hears what changes. One visible tab of a browser holds a stream of notices, and tells the other visible ones.

const SHOWN = 1000; // lines of a log
const EVERY = 2; // seconds between two notices
const BEAT = 40000; // milliseconds after which a stream that says nothing is opened again: the node says something each 15 s
const [SOONEST, LATEST] = [500, 10000]; // milliseconds before it is tried again

const things = (of) => new URLSearchParams(of).getAll("of");
const sleep = (time) => new Promise((done) => setTimeout(done, time));

// Calls `told` when something of what `wants` names has changed, `on` with whether the node answers, and `out` if it wants a login.
export function live({ root, wants, told, on, out }) {
  const me = Math.random().toString(36);
  const channel = new BroadcastChannel(`tokimori ${root}`);
  const others = new Map(); // what other visible tabs show
  let [after, stream, waits, mine] = [sessionStorage.place ?? null, null, null, ""];
  let held_up = false; // a proxy keeps what the node says: then it is asked again and again

  const concerns = (found) =>
    things(mine).some((each) => {
      const [noun, id] = [each.split("/", 1)[0], each.slice(each.indexOf("/") + 1)];
      return found[noun] && (noun === each || found[noun].includes(id));
    });

  function hear({ found, place, up }) {
    if (place) after = sessionStorage.place = place;
    if (up !== undefined) on(up);
    if (found && (found.reload || concerns(found))) told();
  }

  function tell(heard) {
    channel.postMessage(heard);
    hear(heard);
  }

  channel.onmessage = ({ data }) => {
    if (data.ask && !document.hidden) channel.postMessage({ tab: me, of: mine });
    else if (data.tab) join(data);
    else if (!document.hidden) hear(data);
  };

  function join({ tab, of }) {
    if (of === null) return others.delete(tab);
    others.set(tab, of);
    if (stream && things(of).some((each) => !stream.of.has(each))) stream.abort.abort(); // opened again for all
  }

  const query = () => {
    const of = new Set([mine, ...others.values()].flatMap(things));
    return [of, new URLSearchParams([...[...of].map((each) => ["of", each]), ...(after ? [["after", after]] : [])])];
  };

  async function answer(address, options) {
    const response = await fetch(address, options);
    if (response.status === 401) out();
    if (response.status === 400) after = null; // a position that is none
    if (!response.ok && response.status !== 503) throw new Error(response.statusText);
    return response;
  }

  async function listen() {
    const [of, asked] = query();
    const { abort } = (stream = { abort: new AbortController(), of });
    let timer = setTimeout(() => ((held_up = true), abort.abort()), BEAT); // it says something at once
    try {
      const headers = { accept: "text/event-stream" };
      const response = await answer(`${root}/api/v2/notices?every=${EVERY}&${asked}`, { headers, signal: abort.signal });
      if (response.status === 503) return await look(); // it has as many streams as it takes, or it stops
      tell({ up: true, found: after ? null : { reload: true } });
      let text = "";
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), BEAT);
        const blocks = (text + part.value).split("\n\n");
        text = blocks.pop();
        for (const block of blocks) take(block);
      }
    } finally {
      clearTimeout(timer);
      stream = null;
    }
  }

  function take(block) {
    const field = (name) => block.match(new RegExp(`^${name}: (.*)$`, "m"))?.[1];
    const [event, place] = [field("event"), field("id")];
    tell({ place, found: event === "reload" ? { reload: true } : event ? JSON.parse(field("data")) : null });
  }

  async function look() {
    const [, asked] = query();
    const response = await answer(`${root}/api/v2/notices?${asked}`, { signal: AbortSignal.timeout(BEAT) });
    if (!response.ok) throw new Error(response.statusText);
    const found = await response.json();
    const nouns = Object.fromEntries(found.notices.map(({ noun, ids }) => [noun, ids]));
    (navigator.locks ? tell : hear)({ up: true, place: found.after, found: { ...nouns, reload: found.reload || !after } });
    await sleep(1000 * EVERY);
  }

  const lead = (step, signal) => Promise.race([follow(step, signal), new Promise((done) => signal.addEventListener("abort", done))]);

  async function follow(step, signal) {
    let pause = SOONEST;
    channel.postMessage({ ask: true });
    while (!signal.aborted) {
      const [began, asked] = [performance.now(), query()[0]];
      try {
        await (held_up ? look() : step());
        pause = SOONEST;
      } catch {
        const is_cut = signal.aborted || [...query()[0]].some((each) => !asked.has(each)); // for other things, or for good
        if (is_cut) continue;
        if (performance.now() - began > LATEST) pause = SOONEST;
        else tell({ up: false });
      }
      await sleep(pause * (0.5 + Math.random()));
      pause = Math.min(2 * pause, LATEST);
    }
  }

  // Without locks (a plain address of another host) there is nobody to choose: each tab asks by itself, and holds no connection.
  function start() {
    if (document.hidden || waits || !mine) return;
    const { signal } = (waits = new AbortController());
    if (navigator.locks) navigator.locks.request(`tokimori ${root}`, { signal }, () => lead(listen, signal)).catch(() => {});
    else lead(look, signal);
    channel.postMessage({ tab: me, of: mine });
  }

  function stop() {
    waits?.abort();
    stream?.abort.abort();
    waits = null;
    channel.postMessage({ tab: me, of: null });
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  addEventListener("pagehide", stop);
  addEventListener("pageshow", start);
  addEventListener("online", () => stream?.abort.abort());

  // Shows something else now.
  return function want() {
    const before = mine;
    mine = wants();
    if (mine === before) return;
    if (waits) channel.postMessage({ tab: me, of: mine });
    if (stream && things(mine).some((each) => !stream.of.has(each))) stream.abort.abort();
    start();
  };
}

// Times that pass; `ahead` are the milliseconds by which the node's clock is

const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function distance(away) {
  const size = Math.abs(Math.round(away));
  const [unit, length] = units.find(([, each]) => size >= each) ?? [];
  return unit ? `${away > 0 ? "in " : ""}${Math.floor(size / length)} ${unit}${away > 0 ? "" : " ago"}` : "now";
}

function lasted(seconds) {
  const [all, two] = [Math.round(seconds), (number) => String(number).padStart(2, "0")];
  if (seconds < 59.5) return `${Math.max(0, all)} s`;
  return all < 3600 ? `${Math.floor(all / 60)} min ${two(all % 60)} s` : `${Math.floor(all / 3600)} h ${two(Math.floor(all / 60) % 60)} min`;
}

export function pass(within, ahead) {
  const now = Date.now() + ahead;
  for (const each of within.querySelectorAll("time[data-away], time[data-since]")) {
    const away = (Date.parse(each.dateTime) - now) / 1000;
    const text = "away" in each.dataset ? distance(away) : lasted(-away);
    if (each.firstChild?.data !== text) each.textContent = text;
  }
}

// Makes what stands there like what came, and leaves alone what is the same

export function morph(old, fresh) {
  if (fresh.dataset?.from) graft(old, fresh);
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "tabindex") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const keyed = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]));
  const kept = new Set([...fresh.children].map(keyOf));
  for (const [key, child] of keyed) if (!kept.has(key)) child.remove();
  let next = old.firstChild;
  for (const child of fresh.childNodes) {
    const known = keyOf(child) && keyed.get(keyOf(child));
    if (known && known !== next) old.insertBefore(known, next);
    const match = known || (next && alike(next, child) ? next : null);
    if (!match) {
      old.insertBefore(document.importNode(child, true), next);
    } else {
      if (match === next) next = next.nextSibling;
      if (child.nodeType === Node.ELEMENT_NODE) morph(match, child);
      else if (match.data !== child.data) match.data = child.data;
    }
  }
  while (next) {
    const after = next.nextSibling;
    next.remove();
    next = after;
  }
}

const alike = (old, fresh) => old.nodeName === fresh.nodeName && !keyOf(old) && !keyOf(fresh);
export const keyOf = (node) => node.dataset?.key;

// Of a log that grows only the newest lines have come
function graft(old, fresh) {
  const before = [...old.children].filter((line) => Number(line.id.slice(1)) < Number(fresh.dataset.from));
  fresh.prepend(...before.slice(-Math.max(1, SHOWN - fresh.children.length)).map((line) => line.cloneNode(true)));
  delete fresh.dataset.from;
}

// What is copied: the address of the screen, or a command

const labels = new WeakMap(); // of the buttons: one that is pressed again says "Copied" already

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-copy]");
  if (!button) return;
  const text = document.createElement("textarea");
  text.className = "hid";
  if (!labels.has(button)) labels.set(button, button.textContent);
  text.value = button.dataset.copy || location.href;
  document.body.append(text);
  text.select();
  button.textContent = document.execCommand("copy") ? "Copied" : "Not copied"; // without HTTPS there is no other way
  text.remove();
  button.focus();
  setTimeout(() => (button.textContent = labels.get(button)), 2000);
});
