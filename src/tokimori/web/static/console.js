// Keeps a screen fresh, shows questions as dialogs, and gives keys. Everything works without it, but slower.

import { keyOf, live, morph, pass } from "./live.js";

const [SOON, RARELY] = [2000, 60000]; // milliseconds between two refreshes, at least and at most
const [SOMETIMES, FOLLOWED, COSTLY] = [10000, 4000, 15000]; // at most, where something runs, where it is followed, and where it costs the node much
const [BYTE, SHARE] = [1.5, 200]; // so many of them for each byte of the last one, and for each one that it took the node
const [TIMEOUT, TOAST] = [10000, 9000];
const root = document.body.dataset.root;
const [main, sign, toasts] = ["main", "live", "toasts"].map((id) => document.getElementById(id));
let [timer, newest] = [0, 0]; // the last refresh that began: older ones that come late are dropped
let seen = { address: location.href.split("#")[0], tag: "" }; // what is shown, where the node gave it a tag
let [fetched, pace, lively] = [-SOON, SOON, 0]; // when it was, how long it is enough, and until when each change is shown soon
let [stale, heard] = [false, 0]; // whether more has changed, and when that was told last
let ahead = document.body.dataset.now - performance.timeOrigin - performance.getEntriesByType("navigation")[0].responseStart; // the node's clock
let [busy, dialog] = [0, null]; // the refresh that is asked for now, and the question that is open

// Fetching

async function ask(address, options = {}) {
  const response = await fetch(address, { signal: AbortSignal.timeout(TIMEOUT), ...options });
  if (response.status === 401) location.reload(); // the page that says how to enter
  return response;
}

const parsed = async (response) => new DOMParser().parseFromString(await response.text(), "text/html");

async function refresh() {
  clearTimeout(timer);
  const mine = (busy = ++newest);
  stale = false;
  try {
    const address = location.href.split("#")[0];
    const last = seen.address === address && main.querySelector("[data-grows]")?.lastElementChild?.id.slice(1);
    const headers = { "tokimori-part": last || "1", ...(seen.tag && seen.address === address ? { "if-none-match": seen.tag } : {}) };
    const response = await ask(address, { headers });
    if (response.status >= 500 && document.body.matches(".wall")) throw new Error("no signal");
    const fresh = response.status === 304 ? null : await parsed(response);
    if (mine !== newest) return;
    fetched = performance.now();
    const [took, age] = response.headers.get("server-timing")?.match(/\d+/g) ?? [0, 0];
    stale ||= heard > fetched - age; // the answer was made for another tab, before that
    pace = Math.max(SOON, BYTE * (response.headers.get("content-length") ?? 0), Math.min(SHARE * took, COSTLY));
    ahead = Date.parse(response.headers.get("date")) + 500 - Date.now();
    if (fresh) {
      show(fresh);
      seen = { address, tag: response.headers.get("etag") ?? "" };
    }
    tellLive(true);
  } catch {
    if (mine !== newest) return;
    [fetched, stale] = [performance.now(), true];
    tellLive(false);
  }
  busy = 0;
  soon(rest());
}

const rest = () => (stale || main.querySelector("[data-grows]") ? 0 : main.querySelector("[data-since]") ? SOMETIMES : RARELY);

function soon(time = 0) {
  clearTimeout(timer);
  const least = performance.now() < lively ? SOON : Math.min(pace, main.querySelector("[data-grows]") ? FOLLOWED : RARELY);
  const wait = Math.max(time, fetched + least - performance.now(), 0);
  if (!document.hidden && !main.querySelector("[data-still]")) timer = setTimeout(refresh, wait); // nobody types there
}

function show(fresh) {
  const log = document.querySelector("[data-follow]");
  const followed = log && atEnd(log);
  document.title = fresh.title;
  for (const part of [".rail > ul", ".top h1", "main"]) {
    const [old, now] = [document.querySelector(part), fresh.querySelector(part)];
    if (old && now) morph(old, now);
  }
  for (const each of fresh.querySelectorAll("[data-toast]")) tell(document.importNode(each, true));
  if (followed && log.isConnected) log.scrollTop = log.scrollHeight;
  tidy();
  tellTail();
  pass(main, ahead);
  want();
  curves();
}

const curves = (holder = main.querySelector("[data-trends]")) => holder && import(holder.dataset.trends).then(({ draw }) => draw(holder));

function tellLive(on) {
  document.body.classList.toggle("silent", !on);
  const text = on ? "live" : "the node does not answer; trying again";
  if (sign.textContent.trim() === text) return; // said only when it changes
  const dot = document.createElement("span");
  dot.className = `t ${on ? "green" : "bad"}`;
  dot.textContent = "●";
  dot.ariaHidden = "true";
  sign.replaceChildren(dot, ` ${text}`);
}

// Toasts

function tell(toast) {
  const close = document.createElement("button");
  close.className = "dot";
  close.textContent = "×";
  close.ariaLabel = "Close";
  close.onclick = () => toast.remove();
  toast.querySelector(".acts").append(close);
  toasts.append(toast);
  while (toasts.children.length > 3) toasts.firstChild.remove();
  if (toast.classList.contains("bad")) return; // a refusal stays until it is closed
  const wait = () => setTimeout(() => (toast.matches(":hover, :focus-within") ? wait() : toast.remove()), TOAST);
  wait();
}

function tellFault(text) {
  const toast = document.createElement("div");
  toast.className = "toast bad";
  toast.role = "alert";
  toast.innerHTML = '<div class="acts"></div><b></b>';
  toast.querySelector("b").textContent = text;
  tell(toast);
}

// Acts and questions

async function send(form, submitter) {
  if (form.getAttribute("aria-busy")) return;
  form.setAttribute("aria-busy", "true");
  try {
    const body = new URLSearchParams(new FormData(form, submitter));
    const response = await ask(form.action, { method: "POST", body });
    if (!response.headers.get("content-type")?.startsWith("text/html")) throw new Error((await response.json()).error.message);
    const fresh = await parsed(response);
    const told = fresh.querySelector("#once, #ask"); // what is seen once, or the form again with its refusal
    if (told) open(document.importNode(told, true));
    if (told) return;
    dialog?.close();
    form.closest(".toast")?.remove(); // what is undone is no longer offered
    document.getElementById("chosen")?.reset();
    if (response.url !== location.href.split("#")[0]) history.pushState(null, "", response.url);
    [newest, seen.tag, lively] = [newest + 1, "", performance.now() + TIMEOUT];
    show(fresh);
  } catch (fault) {
    tellFault(fault.message);
  } finally {
    form.removeAttribute("aria-busy");
    refresh();
  }
}

async function question(address) {
  early = "";
  try {
    const form = (await parsed(await ask(address))).getElementById("ask");
    if (!form) return location.assign(address);
    open(document.importNode(form, true));
    if (document.activeElement.matches("input:not([type=checkbox]), textarea")) document.activeElement.value += early;
  } finally {
    early = null;
  }
}

function open(content) {
  const before = document.activeElement;
  dialog?.close();
  const mine = document.createElement("dialog");
  const title = content.querySelector("h2");
  title.id = "dialog-title";
  mine.setAttribute("aria-labelledby", title.id);
  mine.append(content);
  document.body.append(mine);
  mine.addEventListener("close", () => {
    mine.remove();
    if (dialog === mine) dialog = null;
    if (before.isConnected) before.focus();
  });
  mine.addEventListener("click", (event) => event.target === mine && !mine.querySelector("#once") && mine.close());
  dialog = mine;
  mine.showModal();
  (mine.querySelector("input:not([type=hidden]), textarea, select") ?? mine.querySelector("button, a"))?.focus();
}

async function go(address) {
  history.pushState(null, "", address);
  await refresh();
  arrive();
}

function addressed(form) {
  const action = new URL(form.action, location.href);
  return `${action.origin}${action.pathname}?${new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""))}`;
}

// The log: the line of the address or the end, following, and search as one types

let typed = 0;

function arrive() {
  const [log, line] = [document.querySelector(".log"), location.hash.match(/^#L(\d+)$/)?.[1]];
  const asked = new URLSearchParams(location.search);
  if (!log) return;
  if (line && asked.get("line") !== line) {
    asked.set("line", line);
    history.replaceState(null, "", `?${asked}${location.hash}`);
    refresh().then(arrive);
  } else if (asked.has("line")) log.querySelector(".hit")?.scrollIntoView({ block: "center" });
  else if ("end" in log.dataset || log.querySelector(".hit")) {
    const hit = log.querySelector(".hit");
    log.scrollTop = hit ? hit.offsetTop - log.offsetTop - log.clientHeight / 2 : log.scrollHeight;
  }
  tellTail();
}

async function look(form) {
  const mine = ++newest;
  const response = await ask(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
  const fresh = (await parsed(response)).getElementById("look");
  if (mine === newest && fresh) morph(document.getElementById("look"), fresh);
}

const atEnd = (log) => "end" in log.dataset && log.scrollHeight - log.scrollTop - log.clientHeight < 8;

function tellTail() {
  const [log, tail] = [document.querySelector(".log"), document.querySelector("[data-tail]")];
  if (log && tail) tail.setAttribute("aria-pressed", atEnd(log));
}

document.addEventListener("scroll", tellTail, { capture: true, passive: true });
document.addEventListener("input", ({ target }) => {
  const form = target.closest("[data-still]");
  if (form) {
    clearTimeout(typed);
    typed = setTimeout(() => look(form).catch(() => tellLive(false)), 300);
  }
  if (!target.matches("[data-live]")) return;
  clearTimeout(typed);
  typed = setTimeout(() => {
    history.replaceState(null, "", addressed(target.form));
    refresh().then(arrive);
  }, 150);
});

const plain = (event) => event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-ask], a[data-close], a[data-soft], a[data-tail], a[data-find]");
  if (!link || !plain(event)) return;
  if (link.matches("[data-close]") && !dialog) return;
  event.preventDefault();
  if (link.matches("[data-soft], [data-tail]")) go(link.getAttribute("href")); // of SVG, too
  else if (link.matches("[data-close]")) dialog.close();
  else if (link.matches("[data-find]")) aid((all) => all.palette(link.href, { ask, parsed, open, tellFault }, early));
  else question(link.href);
});

document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  const action = new URL(submitter?.getAttribute("formaction") || form.action, location.href);
  if (form.method === "post" && !form.matches(".zone, [data-still]") && action.pathname.startsWith(`${root}/do/`)) {
    event.preventDefault();
    send(form, submitter);
  } else if (form.matches("[data-soft], [data-ask]")) {
    event.preventDefault();
    const address = addressed(form);
    if (form.matches("[data-ask]")) question(address);
    else go(address);
  }
});

document.addEventListener("change", (event) => {
  const all = event.target.matches("[data-all]") && (event.target.closest("tbody") ?? event.target.closest("table"));
  if (all) for (const each of all.querySelectorAll("[name=on], [data-all]")) each.checked = event.target.checked;
  if (event.target.matches(".filter select, .zone select, .seek [type=checkbox]")) event.target.form.requestSubmit();
  count();
});
document.addEventListener("reset", () => setTimeout(count));

// Tables: one stop of Tab, arrows within

const STOPS = "a, button, input, select";
const rows = () => [...main.querySelectorAll("tbody tr:has(a, button, input)")];
let current = ""; // the key of the row in which one is
let stop = null; // the line of a log at which Tab stops

function tidy() {
  const all = rows();
  const at = all.find((row) => row.contains(document.activeElement)) ?? all.find((row) => keyOf(row) === current) ?? all[0];
  for (const row of all) {
    const stops = [...row.querySelectorAll(STOPS)];
    const main = row.querySelector(".row") ?? stops.find((each) => each.matches("a")) ?? stops[0];
    const held = stops.find((each) => each === document.activeElement) ?? main;
    for (const each of stops) each.tabIndex = row === firstOf(row, at) && each === held ? 0 : -1;
  }
  const line = document.activeElement?.closest(".log a") ?? main.querySelector(".log .hit a") ?? main.querySelector(".log > :last-child a");
  if (line !== stop) stop?.setAttribute("tabindex", "-1");
  (stop = line)?.setAttribute("tabindex", "0");
  count();
}

const firstOf = (row, at) => (at && row.closest("table") === at.closest("table") ? at : row.closest("table").querySelector("tbody tr:has(a, button, input)"));

function count() {
  const chosen = main.querySelectorAll("tbody [name=on]:checked").length;
  for (const each of main.querySelectorAll("[data-count]")) each.textContent = chosen ? `${chosen} chosen` : "Chosen";
}

function step(by, heads) { // heads of groups are for arrows alone
  const all = rows().filter((row) => heads || !row.querySelector(".grp"));
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const row = all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  if (!row) return;
  current = keyOf(row);
  (row.querySelector(".row") ?? row.querySelector("a") ?? row.querySelector(STOPS)).focus();
  row.scrollIntoView({ block: "nearest" });
}

function alongLog(event) { // from the number of a line to that of its neighbour
  const line = event.target.closest(".log a")?.parentElement;
  const to = { ArrowDown: line?.nextElementSibling, j: line?.nextElementSibling, ArrowUp: line?.previousElementSibling, k: line?.previousElementSibling }[event.key];
  to?.querySelector("a")?.focus();
  return to;
}

function aside(by) {
  const row = document.activeElement.closest?.("tbody tr");
  if (!row) return false;
  const stops = [...row.querySelectorAll(STOPS)];
  stops[Math.min(stops.length - 1, Math.max(0, stops.indexOf(document.activeElement) + by))]?.focus();
  return true;
}

document.addEventListener("focusin", (event) => {
  const row = event.target.closest("tbody tr");
  if (row) current = keyOf(row);
  if (row || event.target.matches(".log a")) tidy();
});

// Keys

const PLACES = { n: "now", j: "jobs", r: "runs", f: "failures", p: "plan" };
const ACTS = { r: "jobs.trigger", p: "jobs.pause", c: "runs.cancel", t: "runs.retry" };
let went = 0; // when `g` was pressed
let early = null; // what is typed while the palette or a question is fetched
const aid = (use) => early ?? ((early = ""), import(document.querySelector("[data-find]").dataset.find).then(use).finally(() => (early = null)));

function press(key) {
  if (Date.now() - went < 1500 && PLACES[key]) return document.querySelector(`.rail a[data-key="${PLACES[key]}"]`)?.click();
  went = key === "g" ? Date.now() : 0;
  if (key === "j" || key === "ArrowDown") step(1, key !== "j");
  else if (key === "k" || key === "ArrowUp") step(-1, key !== "k");
  else if (key === "ArrowLeft" || key === "ArrowRight") return aside(key === "ArrowLeft" ? -1 : 1);
  else if (key === "/") main.querySelector("[data-filter]")?.focus();
  else if (key === "f") main.querySelector("[data-tail]")?.click();
  else if (key === "x") document.activeElement.closest("tr")?.querySelector("[type=checkbox]")?.click();
  else if (key === "?") aid((all) => all.help(open));
  else if (ACTS[key]) main.querySelector(`[data-act="${ACTS[key]}"]`)?.click();
  else if (key === "Escape") document.getElementById("chosen")?.reset();
  else return false;
  return true;
}

document.addEventListener("keydown", (event) => {
  if (early !== null && event.key.length === 1 && !event.ctrlKey && !event.metaKey) return (early += event.key), event.preventDefault();
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    return document.querySelector("[data-find]")?.click();
  }
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea")) {
    event.preventDefault();
    return event.target.form?.querySelector("button.go, button:not([type=button])")?.click();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || dialog || event.defaultPrevented) return;
  const types = event.target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (types && event.key === "Escape") return event.target.blur();
  const scrolls = event.target.matches("pre") && event.key.startsWith("Arrow");
  if (types || scrolls || (localStorage.keys === "off" && event.key !== "?" && event.key.length === 1)) return;
  if (alongLog(event)) return event.preventDefault();
  if (event.key.startsWith("Arrow") && !event.target.closest("tbody tr")) return;
  if (press(event.key)) event.preventDefault();
});

document.addEventListener("visibilitychange", () => document.hidden || main.querySelector("[data-still]") || refresh());
const want = live({
  root,
  wants: () => (main.querySelector("[data-still]") ? "" : main.dataset.of),
  told: () => (([stale, heard] = [true, performance.now()]), busy || soon()),
  on: tellLive,
  out: () => location.reload(),
});
setInterval(() => document.hidden || pass(main, ahead), 1000);
addEventListener("popstate", async () => {
  await refresh();
  for (const form of document.forms) form.reset(); // to what the address says, not what was typed since
});
for (const each of [...toasts.children]) tell(each);
const offer = (zones, own) => zones && own && ![...zones.options].some((each) => [each.value, each.textContent].includes(own)) && zones.add(new Option(`${own} (yours)`, own), 1);
setTimeout(() => offer(document.querySelector(".zone select"), Intl.DateTimeFormat().resolvedOptions().timeZone), 500); // to find it takes as long as all else here
main.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
tellLive(true);
for (const begin of [tidy, want, arrive, curves]) begin();
soon(rest());
