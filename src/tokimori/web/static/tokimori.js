// Keeps the page fresh: fetches it again and changes only what differs, so that focus, scroll and selection stay.

const REFRESH = 2000; // milliseconds
const TIMEOUT = 10000;

const live = document.getElementById("live");
const notice = document.getElementById("notice");
let timer = 0;
let newest = 0; // the last refresh that began: older ones that come late are dropped
let seen = { address: "", tag: "" }; // what is shown, where the node gave it a tag

async function refresh() {
  clearTimeout(timer);
  const mine = ++newest;
  try {
    const address = location.href;
    const headers = seen.tag && seen.address === address ? { "if-none-match": seen.tag } : {};
    const response = await fetch(address, { headers, signal: AbortSignal.timeout(TIMEOUT) });
    if (response.status === 401) location.reload(); // the page that says how to enter
    const text = response.status === 304 ? null : await response.text();
    if (mine !== newest) return;
    if (text !== null) {
      show(new DOMParser().parseFromString(text, "text/html"));
      seen = { address, tag: response.headers.get("etag") ?? "" };
    }
    tellLive(true);
  } catch {
    if (mine !== newest) return;
    tellLive(false);
  }
  if (!document.hidden) timer = setTimeout(refresh, REFRESH);
}

function show(fresh) {
  const output = document.querySelector(".output");
  const followed = output && output.scrollHeight - output.scrollTop - output.clientHeight < 8;
  document.title = fresh.title;
  morph(document.getElementById("page"), fresh.getElementById("page"));
  if (followed && output.isConnected) output.scrollTop = output.scrollHeight;
}

function tellLive(on) {
  const text = on ? "live" : "the node does not answer; trying again";
  if (live.textContent !== text) live.textContent = text; // said only when it changes
  live.className = on ? "on" : "off";
}

function morph(old, fresh) {
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
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

function alike(old, fresh) {
  return old.nodeName === fresh.nodeName && !keyOf(old) && !keyOf(fresh);
}

function keyOf(node) {
  return node.dataset?.key;
}

async function post(button) {
  notice.hidden = true;
  button.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(button.dataset.post, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
      signal: AbortSignal.timeout(TIMEOUT),
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
  } catch (fault) {
    notice.textContent = fault.message;
    notice.hidden = false;
  }
  await refresh();
  button.removeAttribute("aria-busy");
}

async function go(address) {
  history.pushState(null, "", address);
  const had = document.querySelector("aside")?.dataset.key;
  await refresh();
  const panel = document.querySelector("aside");
  if (panel && panel.dataset.key !== had) panel.querySelector("h2").focus();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-post]");
  if (button && !button.hasAttribute("aria-busy")) post(button);
  const link = event.target.closest("a[data-soft]");
  if (link && event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey) {
    event.preventDefault();
    go(link.href);
  }
});
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-soft]")) return;
  event.preventDefault();
  go(`${event.target.action}?${new URLSearchParams(new FormData(event.target))}`);
});
document.addEventListener("visibilitychange", () => document.hidden || refresh());
addEventListener("popstate", async () => {
  await refresh();
  for (const form of document.forms) form.reset(); // to what the address says, not what was typed since
});
tellLive(true);
timer = setTimeout(refresh, REFRESH);
