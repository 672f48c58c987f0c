// Curves of one or several runs. The server thins; a zoomed or moved picture asks for the points it can show.
import { h, number } from "/static/dom.js";

// Told apart with any common colour-vision deficiency; brighter ones where the page is dark.
const ON_LIGHT = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B27A00", "#56B4E9"];
const ON_DARK = ["#56B4E9", "#F0935C", "#3CC79B", "#E29BC4", "#E6C84A", "#9AA8FF"];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// What a recorded key is called beside its curve.
export const curveName = (key) => (key === "loss" ? "loss of each batch" : key.replace(/^train_/, "training ").replace(/^validation_/, "validation "));

// Ticks at whole parts of ``unit`` (1: steps, or the steps of an epoch), at most ten.
export function ticks(low, high, unit) {
  const sizes = [...(unit === 1 ? [] : [0.1, 0.2, 0.5]), ...[0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((power) => [1, 2, 5].map((one) => one * 10 ** power))];
  const by = unit * (sizes.find((size) => (high - low) / (size * unit) <= 10) ?? 1e9), found = [];
  for (let at = Math.ceil(low / by); at * by <= high; at++) found.push(at * by);
  return found;
}

// ask(low, high) -> [{label, name, step, value, dashed, noisy, faint, color}]; the same series each time, in the same order.
// ``levels()``: baselines by name, as level lines; ``noisy`` series can be smoothed, ``faint`` ones stay in the background;
// ``unit``: what the values are; ``perEpoch``: steps of an epoch, for the axis.
export function curvePlot(ask, { label, unit = "", height = 300, levels = () => ({}), perEpoch = null }) {
  const box = h("div", { class: "plot", role: "img", "aria-label": label });
  const said = h("p", { class: "small", "aria-live": "polite" });
  let plot = null, view = null, series = [], turn = 0, frame = 0, late = null;

  const smooth = h("input", { type: "checkbox", onchange: () => renew() }), log = h("input", { type: "checkbox", onchange: () => renew() });
  const lines = () => Object.entries(levels()).filter(([, value]) => Number.isFinite(value)).sort((a, b) => a[1] - b[1]);
  // The mean over the values around each, in a fiftieth of the curve.
  function smoothed(values) {
    const half = Math.max(1, Math.floor(values.length / 100));
    return values.map((_, at) => {
      const near = values.slice(Math.max(0, at - half), at + half + 1).filter((one) => one !== null);
      return near.length ? near.reduce((sum, one) => sum + one, 0) / near.length : null;
    });
  }
  const shownValues = (one) => (one.noisy && smooth.checked && one.value.length > 8 ? smoothed(one.value) : one.value);
  function joined() {
    if (!series.length) return [[0]];
    return uPlot.join(series.map((one) => [one.step, shownValues(one)]));
  }
  // The curves fill the picture; a baseline belongs to it when it is near them.
  function heights(_, least, most) {
    if (least === null || !Number.isFinite(least)) return [0, 1];
    const span = most - least || Math.abs(most) || 1, near = lines().map(([, value]) => value).filter((value) => value > least - 0.5 * span && value < most + 0.15 * span);
    const [low, high] = [Math.min(least, ...near), Math.max(most, ...near)], room = 0.08 * (high - low || span);
    return [least >= 0 ? Math.max(0, low - room) : low - room, high + room];
  }
  // Names of lines that are too close to be read apart stand together: [[names, place]], in pixels.
  function lineNames(self, apart) {
    const found = [];
    for (const [name, value] of lines()) {
      const place = self.valToPos(value, "y", true), last = found.at(-1);
      if (!(place > self.bbox.top && place < self.bbox.top + self.bbox.height)) continue;
      self.ctx.moveTo(self.bbox.left, place);
      self.ctx.lineTo(self.bbox.left + self.bbox.width, place);
      if (last && last[1] - place < apart) found[found.length - 1] = [`${last[0]}, ${name}`, place]; else found.push([name, place]);
    }
    return found;
  }
  function renew() { if (plot) { plot.destroy(); plot = null; } soon(); }

  function options(width) {
    const colors = matchMedia("(prefers-color-scheme: dark)").matches ? ON_DARK : ON_LIGHT;
    return {
      width, height, cursor: { drag: { x: true, y: false } }, legend: { live: true },
      scales: { x: { time: false }, y: log.checked ? { distr: 3 } : { range: heights } },
      axes: [{ stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, label: perEpoch ? "epoch" : "step", size: 30, labelSize: 20, labelGap: 0,
        splits: (_, axis, low, high) => ticks(low, high, perEpoch || 1), values: (_, places) => places.map((at) => number(at / (perEpoch || 1), 3)) },
        { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, size: 50, label: unit, labelSize: 20 }],
      series: [{ label: "step" }, ...series.map((one, place) => ({
        label: one.name || one.label, stroke: `${colors[(one.color ?? place) % colors.length]}${one.faint ? "66" : ""}`, width: one.faint ? 1 : 1.8, dash: one.dashed ? [7, 4] : undefined,
        spanGaps: true, points: { show: (_, at) => series[at - 1].step.length < 60, size: 5 }, value: (_, value) => number(value),
      }))],
      // Each baseline as a level line with its name at the right end.
      hooks: { draw: [(self) => {
        if (!series.length) return;
        const pen = self.ctx, ratio = devicePixelRatio || 1;
        pen.save();
        pen.fillStyle = pen.strokeStyle = css("--soft");
        pen.setLineDash([2 * ratio, 4 * ratio]);
        pen.font = `${12 * ratio}px ${css("font-family") || "sans-serif"}`;
        pen.textAlign = "right";
        pen.textBaseline = "bottom";
        pen.beginPath();
        const names = lineNames(self, 15 * ratio);
        pen.stroke();
        for (const [name, place] of names) pen.fillText(name, self.bbox.left + self.bbox.width - 4 * ratio, place - 2 * ratio);
        pen.restore();
      }], setSelect: [(self) => {
        if (self.select.width < 4) return;
        move(self.posToVal(self.select.left, "x"), self.posToVal(self.select.left + self.select.width, "x"));
        self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      }] },
    };
  }

  function draw() {
    if (!box.isConnected) return;
    const data = joined();
    if (plot && plot.series.length === 1 + series.length) {
      plot.setData(data, false);
      plot.setScale("x", { min: view ? view[0] : data[0][0], max: view ? view[1] : data[0].at(-1) || 1 });
    } else {
      if (plot) plot.destroy();
      plot = new uPlot(options(Math.max(280, box.clientWidth)), data, box);
    }
    said.textContent = series.filter((one) => one.step.length).map((one) => `${one.name || one.label}: ${number(one.value.at(-1))} at step ${number(one.step.at(-1))}`).join(" · ");
    box.dataset.points = series.reduce((sum, one) => sum + one.step.length, 0);
    box.dataset.drawn = performance.now().toFixed(1);
  }
  const soon = () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(draw); };

  async function load() {
    const mine = ++turn;
    late ||= [];
    try {
      const found = await ask(view ? view[0] : null, view ? view[1] : null);
      if (mine !== turn) return;
      const missed = late;
      series = found; late = null;
      // Points that came after the answer was written and before it was here.
      if (missed.map((one) => append(...one)).includes(false)) load();
      soon();
    } catch (error) { if (mine === turn) { late = null; said.textContent = error.message; } }
  }
  // New points of a run that trains; false when only a load can show them. Those that are there already are told again after a load.
  function append(label, step, value) {
    if (late) late.push([label, step, value]);
    if (view) return true; // the part that is looked at was loaded as it is
    const one = series.find((each) => each.label === label);
    if (!one) return late !== null;
    const last = one.step.length ? one.step.at(-1) : -Infinity, from = step.findIndex((at) => at > last);
    if (from >= 0) { one.step.push(...step.slice(from)); one.value.push(...value.slice(from)); }
    soon();
    return one.step.length < 6000;
  }
  function move(low, high) { view = [Math.max(0, low), high]; return load(); }
  function shift(by, grow = 1) {
    const all = joined()[0];
    const [low, high] = view || [all[0] || 0, all.at(-1) || 1];
    const middle = (low + high) / 2 + by * (high - low), half = ((high - low) / 2) * grow;
    return move(middle - half, middle + half);
  }
  const button = (text, title, act) => h("button", { type: "button", class: "plain", title, "aria-label": title, onclick: act }, text);
  const tools = h("div", { class: "tools" },
    button("◀", "Earlier", () => shift(-0.5)), button("▶", "Later", () => shift(0.5)), button("+", "Closer", () => shift(0, 0.5)),
    button("−", "Farther", () => shift(0, 2)), button("Whole", "The whole curve", () => { view = null; load(); }),
    h("label", {}, smooth, " smooth"), h("label", {}, log, " log scale"));
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", renew);
  const watch = new ResizeObserver(() => { if (plot) plot.setSize({ width: Math.max(280, box.clientWidth), height }); else soon(); });
  watch.observe(box);
  load();

  return {
    element: h("figure", { class: "curves" }, box, tools, said), load, append,
    close() { turn++; cancelAnimationFrame(frame); watch.disconnect(); scheme.removeEventListener("change", renew); if (plot) plot.destroy(); },
  };
}
