// Attention by hand: keys, values and queries as arrows in the plane. The server works out weights and outputs as they move.
import { get, post } from "/static/api.js";
import { field, fill, h, loading, number, percent, problem, sentence } from "/static/dom.js";

const SIZE = 420, REACH = 4, COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const at = (value) => SIZE / 2 + (value / REACH) * (SIZE / 2 - 14);
const back = (pixel) => Math.round(((pixel - SIZE / 2) / (SIZE / 2 - 14)) * REACH * 20) / 20;

export async function show(page) {
  const state = { keys: [[2, 0], [0, 2], [-1.5, -1]], values: [[3, 1], [-1, 3], [-3, -2]], queries: [[1, 1]], chosen: ["queries", 0] };
  const plane = h("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "plane", role: "application", tabindex: 0,
    "aria-label": "The plane. Tab and Enter choose an arrow, the arrow keys move it." });
  const table = h("div", { class: "weights", "aria-live": "polite" }, loading("Working it out")), said = h("div"), answer = h("div", { "aria-live": "polite" });
  let asking = false, again = false, result = null, shape = 0, solved = 0;

  async function work() {
    if (asking) { again = true; return; }
    asking = true;
    const mine = shape; // weights of keys that are no longer there say nothing
    try {
      const found = await post("/api/byhand/plane", { keys: state.keys, values: state.values, queries: state.queries });
      if (mine === shape) { result = found; fill(said); }
    } catch (error) { if (mine === shape) fill(said, problem(error)); }
    asking = false;
    draw();
    if (again) { again = false; work(); }
  }
  const name = (kind, place) => `${{ keys: "key", values: "value", queries: state.queries.length > 1 ? "query of head" : "query" }[kind]} ${place + 1}`;

  function arrow(kind, place) {
    const [x, y] = state[kind][place], picked = state.chosen[0] === kind && state.chosen[1] === place;
    const color = kind === "queries" ? "var(--ink)" : COLORS[place % COLORS.length];
    const mark = kind === "values" ? h("rect", { x: at(x) - 7, y: at(-y) - 7, width: 14, height: 14, fill: color }) : h("circle", { cx: at(x), cy: at(-y), r: kind === "queries" ? 9 : 8, fill: color });
    const group = h("g", { class: `arrow ${kind}${picked ? " picked" : ""}`, tabindex: 0, role: "button", "aria-label": `${name(kind, place)} at ${x}, ${y}`, "data-kind": kind, "data-place": place },
      kind !== "values" && h("line", { x1: at(0), y1: at(0), x2: at(x), y2: at(-y), stroke: color, "stroke-width": kind === "queries" ? 3 : 2, "stroke-dasharray": kind === "queries" ? null : "6 4" }),
      mark, h("text", { x: at(x) + 11, y: at(-y) - 8 }, `${{ keys: "k", values: "v", queries: "q" }[kind]}${place + 1}`));
    group.addEventListener("pointerdown", (event) => { state.chosen = [kind, place]; plane.setPointerCapture(event.pointerId); dragging = true; draw(); event.preventDefault(); });
    group.addEventListener("focus", () => { if (!picked) { state.chosen = [kind, place]; draw(); plane.querySelector(".picked").focus(); } });
    return group;
  }
  let dragging = false;
  plane.addEventListener("pointermove", (event) => {
    if (!dragging) return;
    const box = plane.getBoundingClientRect(), [kind, place] = state.chosen;
    state[kind][place] = [back(((event.clientX - box.left) / box.width) * SIZE), -back(((event.clientY - box.top) / box.height) * SIZE)];
    draw(); work();
  });
  plane.addEventListener("pointerup", () => { dragging = false; });
  plane.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
    if (!by) return;
    event.preventDefault();
    const [kind, place] = state.chosen;
    state[kind][place] = state[kind][place].map((one, axis) => Math.round((one + by[axis]) * 100) / 100);
    draw(); work();
  });

  function point([x, y], label, kind) {
    return h("g", { class: `result ${kind}` }, h("path", { d: `M ${at(x) - 8} ${at(-y)} L ${at(x)} ${at(-y) - 8} L ${at(x) + 8} ${at(-y)} L ${at(x)} ${at(-y) + 8} Z` }), h("text", { x: at(x) + 11, y: at(-y) + (kind === "hard" ? 28 : 14) }, label));
  }
  function draw() {
    const focused = plane.contains(document.activeElement) && document.activeElement !== plane;
    fill(plane, h("line", { x1: 0, y1: at(0), x2: SIZE, y2: at(0), class: "axis" }), h("line", { x1: at(0), y1: 0, x2: at(0), y2: SIZE, class: "axis" }),
      ["values", "keys", "queries"].map((kind) => state[kind].map((_, place) => arrow(kind, place))),
      result && [point(result.mean.argmax, "argmax", "hard"), point(result.mean.softmax, "softmax", "soft")]);
    if (focused) plane.querySelector(".picked").focus({ preventScroll: true }); // an answer that comes between two keys must not take the keyboard away
    if (result) fill(table, h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, ["", ...state.keys.map((_, place) => `key ${place + 1}`), "output"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, result.heads.map((head, place) => [
        h("tr", {}, h("th", { scope: "row" }, result.heads.length > 1 ? `head ${place + 1}, softmax` : "softmax"), head.weights.map((one) => h("td", { class: "number" }, percent(one))), h("td", {}, vector(head.output))),
        h("tr", {}, h("th", { scope: "row" }, result.heads.length > 1 ? `head ${place + 1}, argmax` : "argmax"), head.argmax.weights.map((one) => h("td", { class: "number" }, percent(one))), h("td", {}, vector(head.argmax.output)))]),
      result.heads.length > 1 && h("tr", {}, h("th", { scope: "row" }, "mean of the heads"), state.keys.map(() => h("td")), h("td", {}, vector(result.mean.softmax)))))));
  }
  const vector = (row) => `(${row.map((one) => number(Math.round(one * 1000) / 1000)).join(", ")})`;
  const change = (act) => () => { act(); shape++; result = null; draw(); work(); };
  const goal = h("input", { value: "select 1", "aria-label": "Goal" }), bound = h("input", { type: "number", value: "10", min: 0.1, step: 0.1 });

  async function solve(values) {
    const mine = ++solved;
    fill(answer, loading("Working it out"));
    try {
      const found = await post("/api/byhand/solve", values);
      if (mine !== solved) return;
      const query = found.result.query;
      fill(answer, h("h3", {}, found.title), found.text.split("\n\n").map((part) => h("p", {}, sentence(part))),
        Array.isArray(query) && query.length === 2 && h("p", {}, h("button", { type: "button", onclick: () => { state.queries[0] = query.map((one) => Math.max(-REACH, Math.min(REACH, one))); work(); } }, "Put this query into the plane")),
        h("div", { class: "picture" }, h("img", { src: found.picture, alt: found.title })));
    } catch (error) { if (mine === solved) fill(answer, problem(error)); }
  }
  const explore = h("select", {}), begin = h("button", { disabled: true }, "Explore"), settings = h("div", { class: "row" });
  get("/api/byhand").then((all) => {
    fill(explore, all.explorations.map((one) => h("option", { value: one.name }, one.question)));
    const controls = () => fill(settings, Object.entries(all.explorations.find((one) => one.name === explore.value).settings).map(([key, value]) => field(key, h("input", { "data-key": key, value: String(value) }))));
    explore.addEventListener("change", controls); controls();
    begin.disabled = false;
  }, (error) => fill(settings, problem(error)));

  fill(page, h("h1", {}, "By hand"), h("p", { class: "subtitle" }, "Attention on paper: drag keys (circles), values (squares) and the query (black)."),
    h("div", { class: "two" }, h("div", {}, plane, h("p", { class: "actions" },
      h("button", { type: "button", class: "plain", onclick: change(() => { state.keys.push([1, -1]); state.values.push([1, -2]); }) }, "One more key"),
      h("button", { type: "button", class: "plain", onclick: change(() => { if (state.keys.length > 1) { state.keys.pop(); state.values.pop(); state.chosen = ["queries", 0]; } }) }, "One key less"),
      h("button", { type: "button", class: "plain", onclick: change(() => { if (state.queries.length === 1) state.queries.push([-1, 1]); else { state.queries.pop(); state.chosen = ["queries", 0]; } }) }, "One head or two"))),
    h("div", {}, said, table, h("h2", {}, "Can it be reached?"),
      h("form", { class: "form", onsubmit: (event) => { event.preventDefault(); solve({ keys: state.keys, values: state.values, goal: goal.value, bound: Number(bound.value) }); } },
        h("div", { class: "row" }, field("Goal", goal, "select 1 · average 1,2 · weights .5,.25,.25"), field("Longest query", bound)), h("button", {}, "Can it?")))),
    answer, h("h2", {}, "Explorations"), h("form", { class: "form", onsubmit: (event) => {
      event.preventDefault();
      const given = {};
      for (const control of settings.querySelectorAll("[data-key]")) given[control.dataset.key] = control.value === "" || Number.isNaN(Number(control.value)) ? control.value : Number(control.value);
      solve({ explore: explore.value, settings: given });
    } }, field("Question", explore), settings, begin));
  draw(); work();
  return null;
}
