// The palette: jobs, runs, places and verbs that are typed. It is loaded when it is first wanted.

let searched = 0; // the last search that began

export function palette(address, { ask, parsed, open, tellFault }) {
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
  open(box);
  search();
}
