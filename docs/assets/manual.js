// What is copied from a terminal is what was typed, without the prompt and without what was printed.
document$.subscribe(() => setTimeout(() => {
  for (const block of document.querySelectorAll("pre:has(.gp)")) {
    const lines = block.querySelector("code").innerText.split("\n").filter((line) => /^[$>] /.test(line))
    const button = block.querySelector("[data-clipboard-target]")
    if (button) {
      button.removeAttribute("data-clipboard-target")
      button.setAttribute("data-clipboard-text", lines.map((line) => line.slice(2)).join("\n"))
    }
  }
}, 200))
