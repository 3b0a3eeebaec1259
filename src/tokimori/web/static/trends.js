// Draws the table of trends as curves. It is loaded where there are some.

import uPlot from "./uplot.js";

const HIGH = 150; // pixels
const UNITS = {
  s: (value) => (value === 0 ? "0 s" : value < 1 ? `${+(value * 1000).toPrecision(2)} ms` : value < 120 ? `${+value.toPrecision(3)} s` : value < 7200 ? `${+(value / 60).toPrecision(3)} min` : `${+(value / 3600).toPrecision(3)} h`),
  B: (value) => (value < 2 ** 30 ? `${+(value / 2 ** 20).toPrecision(3)} MiB` : `${+(value / 2 ** 30).toPrecision(3)} GiB`),
  "%": (value) => `${+value.toPrecision(4)} %`,
};
const STEPS = { B: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1024, 2048, 5120, 10240, 102400].map((each) => each * 2 ** 20) };
let drawn = [];

const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);

// A colour that may be `light-dark(…)` as the canvas takes it
function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = tone(name);
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function options(holder, box, unit, colours, alone) {
  const line = (label, stroke, dash) => ({ label, stroke, width: 1.5, dash, points: { size: 4, fill: stroke }, value: (_, value) => (value === null ? "–" : UNITS[unit](value)) });
  const axis = { stroke: colours.quiet, font: "11px system-ui", grid: { stroke: colours.line, width: 1 }, ticks: { show: false } };
  return {
    width: box.clientWidth,
    height: HIGH,
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), holder.dataset.zone),
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      x: { range: [Number(holder.dataset.first), Number(holder.dataset.until)] },
      y: { range: (_, least, most) => (unit === "%" ? [Math.min(90, Math.floor(least / 10) * 10), 100] : [0, most * 1.1 || 1]) },
    },
    axes: [
      { ...axis, size: 28, gap: 8, grid: { show: false }, values: [[86400, "{D} {MMM}", ...Array(6).fill(null), 1], [3600, "{HH}:{mm}", ...Array(6).fill(null), 1]] },
      { ...axis, size: 60, gap: 6, space: 32, incrs: STEPS[unit], values: (_, all) => all.map(UNITS[unit]) },
    ],
    series: [{ label: "Since", value: "{D} {MMM} {HH}:{mm}" }, ...(alone ? [line("Success", colours.ink)] : [line("Median", colours.ink), line("95 %", colours.edge, [4, 3])])],
  };
}

export function draw(holder) {
  for (const each of drawn) each.destroy();
  const rows = [...document.querySelectorAll("#trends tbody tr")].reverse();
  const colours = Object.fromEntries(["ink", "quiet", "line", "edge"].map((name) => [name, colour(`--${name}`)]));
  const values = (column) => rows.map((row) => row.querySelectorAll("[data-value]")[column].dataset.value).map((text) => (text === "" ? null : Number(text)));
  const times = rows.map((row) => Number(row.dataset.at));
  drawn = [...holder.children].map((box) => {
    const [alone, column] = ["alone" in box.dataset, Number(box.dataset.column) + 1];
    const data = alone ? [times, values(0)] : [times, values(column), values(column + 1)];
    const picture = new uPlot(options(holder, box, box.dataset.unit, colours, alone), data, box);
    picture.root.ariaHidden = "true"; // the table says it
    const newest = () => setTimeout(() => picture.setLegend({ idx: times.length - 1 })); // until a pointer chooses another
    picture.over.addEventListener("mouseleave", newest);
    newest();
    return picture;
  });
}

const again = () => document.querySelector("[data-trends]") && draw(document.querySelector("[data-trends]"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
addEventListener("resize", again);
