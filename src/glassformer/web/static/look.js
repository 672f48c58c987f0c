// Looking inside: a text, the maps of all heads, one large; through training as a film; heads taken out; two runs side by side.
import { bytes, get, post } from "/static/api.js";
import { chooseRun } from "/static/chooser.js";
import { field, fill, h, loading, number, percent, problem, visible } from "/static/dom.js";
import { grid, large } from "/static/maps.js";

export async function show(page, here) {
  const chosen = await chooseRun(page, "look", "Look", here, "What each head attends to in a text. Rows are queries, columns are keys.");
  if (!chosen) return null;
  const beside = here.words.get("beside");
  const text = h("textarea", { rows: 2 }, here.words.get("text") || "the cat sat on the mat and the cat ran to the mat");
  const names = beside ? [chosen.run, beside] : [chosen.run];
  const views = names.map((name) => view(name, names.length > 1));
  const other = h("select", {}, h("option", { value: "" }, "nothing"), chosen.others.filter((name) => name !== chosen.run).map((name) => h("option", { value: name }, name)));
  other.value = beside || "";
  other.addEventListener("change", () => { const query = new URLSearchParams({ text: text.value, ...(other.value ? { beside: other.value } : {}) }); location.hash = `${location.hash.split("?")[0].replace(/^#\/look$/, `#/look/${chosen.run}`)}?${query}`; });
  const all = () => Promise.all(views.map((one) => one.look(text.value)));
  page.append(h("form", { class: "form", onsubmit: (event) => { event.preventDefault(); all(); } }, field("Text", text), h("div", { class: "row" }, h("button", {}, "Look"), field("Side by side with", other))),
    h("div", { class: names.length > 1 ? "two" : "" }, views.map((one) => one.element)));
  await Promise.all(views.map((one) => one.ready));
  all();
  return null;
}

function view(name, titled) {
  const state = { checkpoint: "last", without: [], chosen: [0, 0], found: null, maps: null, before: null, text: "" };
  const film = h("div"), said = h("div"), picture = h("div"), details = h("div"), next = h("div", { "aria-live": "polite" });
  const ready = get("/api/run/abilities", { run: name }).then((abilities) => {
    const steps = [...new Set([...abilities.film, ...abilities.checkpoints])].sort((a, b) => a - b);
    const stops = ["untrained", ...steps];
    const shown = h("output", {}, "last"), slide = h("input", { type: "range", min: 0, max: stops.length - 1, step: 1, value: String(stops.length - 1), "aria-label": "Step of the training" });
    slide.addEventListener("input", () => { const stop = stops[Number(slide.value)]; shown.textContent = stop === "untrained" ? stop : `step ${number(stop)}`; state.checkpoint = stop === stops.at(-1) ? "last" : stop; look(state.text); });
    fill(film, h("label", {}, abilities.film.length ? "Film " : "Checkpoint ", slide), " ", shown);
  }, (error) => fill(said, problem(error)));

  let turn = 0;
  async function look(text) {
    const mine = ++turn;
    state.text = text;
    if (!state.found) fill(picture, loading("Looking"));
    try {
      const found = await post("/api/look", { run: name, text, checkpoint: state.checkpoint, without: state.without, scores: !state.found || state.found.tokens.length !== text.length });
      const maps = found.maps ? await bytes("/api/look/maps", { maps: found.maps }) : null;
      if (mine !== turn) return;
      Object.assign(state, { found, maps });
      fill(said); draw();
    } catch (error) { if (mine === turn) fill(said, problem(error)); }
  }
  function pick(layer, head) { state.chosen = [layer, head]; draw(); picture.querySelectorAll(".head")[layer * state.found.shape[1] + head]?.focus(); }
  function toggle() {
    const [layer, head] = state.chosen, at = state.without.findIndex((one) => one[0] === layer && one[1] === head);
    if (at >= 0) state.without.splice(at, 1); else state.without.push([layer, head]);
    look(state.text);
  }
  function draw() {
    const { found, maps } = state;
    if (!maps) { fill(picture, h("p", { class: "banner note", role: "note" }, found.no_attention)); drawNext(); return; }
    const [layers, heads] = found.shape;
    state.chosen = [Math.min(state.chosen[0], layers - 1), Math.min(state.chosen[1], heads - 1)];
    const [layer, head] = state.chosen, out = state.without.some((one) => one[0] === layer && one[1] === head);
    const scores = found.heads.find((one) => one.layer === layer && one.head === head);
    fill(picture, grid(maps, found.shape, pick, state.chosen).element,
      h("h3", {}, `Layer ${layer}, head ${head}`), h("p", { class: "actions" }, h("button", { type: "button", onclick: toggle }, out ? "Put this head back" : "Take this head out"),
        state.without.length > 0 && h("button", { type: "button", class: "plain", onclick: () => { state.without = []; look(state.text); } }, "Put all back")),
      large(maps, found.shape, layer, head, found.tokens, found.keys),
      scores && h("dl", { class: "facts" }, Object.entries(scores).filter(([key]) => !["layer", "head"].includes(key)).map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, number(value))))));
    drawNext();
  }
  function drawNext() {
    const { found } = state;
    fill(next, found.next && [h("h3", {}, state.without.length ? `Next token, without ${state.without.map(([layer, head]) => `${layer}.${head}`).join(", ")}` : "Next token"),
      h("table", {}, h("thead", {}, h("tr", {}, ["token", found.before && "before", found.before ? "now" : "probability", ""].filter((one) => one !== null && one !== false).map((one) => h("th", { scope: "col" }, one)))),
        h("tbody", {}, found.next.map((one) => {
          const was = found.before && found.before.find((other) => other.id === one.id);
          return h("tr", {}, h("td", {}, h("code", {}, visible(one.token))), found.before && h("td", { class: "number" }, was ? percent(was.probability) : "–"), h("td", { class: "number" }, percent(one.probability)), h("td", {}, h("meter", { min: 0, max: 1, value: one.probability, "aria-hidden": true })));
        })))]);
    const losses = found.losses;
    fill(details, losses && [h("h3", {}, "Loss of each token"), h("p", { class: "pieces" }, found.tokens.slice(-losses.length).map((one, place) =>
      h("span", { class: `token l${losses[place] === null ? "x" : Math.min(9, Math.floor(losses[place]))}`, title: losses[place] === null ? "first token" : `${number(losses[place])} nats` }, visible(one))))]);
  }
  return { element: h("section", { "aria-label": name }, titled && h("h2", {}, name), film, said, picture, next, details), look, ready };
}
