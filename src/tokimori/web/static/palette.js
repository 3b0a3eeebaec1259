// The palette: jobs, runs, places and verbs that are typed; and what keys do. It is loaded when it is first wanted.

let searched = 0; // the last search that began

export function palette(address, { ask, parsed, open, tellFault }, typed) {
  const box = document.createElement("div");
  box.innerHTML = `<h2 class="hid">Search or do</h2><input role="combobox" aria-expanded="true" aria-controls="found" aria-label="Job, run, place or verb" placeholder="A job, the id of a run, a place or a verb" autocomplete="off" spellcheck="false">
<div class="opts" id="found" role="listbox" aria-label="Found"></div><p class="keys"><span><kbd>↑</kbd> <kbd>↓</kbd> choose</span><span><kbd>Enter</kbd> open</span><span><kbd>Esc</kbd> close</span></p>`;
  const input = box.querySelector("input");
  const options = () => [...box.querySelectorAll("[role=option]")];
  const choose = (at) => {
    const all = options();
    const one = all[(at + all.length) % all.length];
    for (const each of all) each.ariaSelected = String(each === one);
    input.setAttribute("aria-activedescendant", one?.id ?? "");
    one?.scrollIntoView({ block: "nearest" });
  };
  const search = async () => {
    const mine = ++searched;
    try {
      const fresh = await parsed(await ask(`${address}?${new URLSearchParams({ q: input.value })}`));
      if (mine !== searched || !box.isConnected) return;
      box.querySelector(".opts").replaceWith(document.importNode(fresh.getElementById("found"), true));
      choose(0);
    } catch (fault) {
      tellFault(fault.message);
    }
  };
  box.addEventListener("keydown", (event) => {
    const at = options().findIndex((each) => each.ariaSelected === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") choose(at + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Enter") options()[at]?.click();
    else return;
    event.preventDefault();
  });
  let wait = 0;
  input.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(search, 120);
  });
  input.value = typed;
  open(box);
  search();
}

const HELP = [
  ["Ctrl K", "search, or do"],
  ["g then n j r f p", "now, jobs, runs, failures, plan"], ["/", "filter"], ["j k or arrows", "move in a table"],
  ["f", "follow the output"], ["Enter", "open"], ["x", "choose"], ["r p c t", "run, pause, cancel, retry"], ["Ctrl Enter", "send what is typed"], ["Esc", "close, or back"], ["?", "these keys"],
];

export function help(open) {
  const content = document.createElement("div");
  content.className = "ask";
  content.innerHTML = '<h2>Keys</h2><dl class="facts"></dl><p class="gap"><label><input type="checkbox"> Single keys do something</label></p>';
  for (const [keys, does] of HELP) {
    const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
    for (const word of keys.split(" ")) {
      const key = document.createElement(/^(or|arrows|then)$/.test(word) ? "span" : "kbd");
      key.textContent = word;
      dt.append(key, " ");
    }
    dd.textContent = does;
    content.querySelector("dl").append(dt, dd);
  }
  const box = content.querySelector("input");
  box.checked = localStorage.keys !== "off";
  box.onchange = () => (localStorage.keys = box.checked ? "on" : "off");
  open(content);
}
