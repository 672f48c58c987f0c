// Looking inside: a text, the maps of all heads, one large; through training as a film; heads taken out; two runs side by side.
// What is drawn is drawn by the code of the pages that `glassformer look` writes (lens/start.js).
import { link } from "/static/app.js";
import { bytes, get, post } from "/static/api.js";
import { drawBlocks } from "/static/blocks.js";
import { chooseRun } from "/static/chooser.js";
import { field, fill, h, loading, number, percent, problem, sendWithCtrlEnter, visible } from "/static/dom.js";
import { filmSlider } from "/static/lens/film.js";
import { start } from "/static/lens/start.js";

// A change of a probability, as it is printed: what rounds to nothing has no direction.
const direction = (by) => by === null || Math.abs(by) < 0.0005 ? "" : by > 0 ? "up" : "down";

export async function show(page, here) {
  const chosen = await chooseRun(page, "look", "Look", here, "What each head attends to in a text. Rows are queries, columns are keys.");
  if (!chosen) return null;
  const beside = here.words.get("beside"), names = beside ? [beside, chosen.run] : [chosen.run];
  const state = { checkpoint: "last", without: [], found: [], drawn: null, turn: 0 };
  const text = h("textarea", { rows: 2 }, here.words.get("text") || (await get("/api/look/text", { run: chosen.run })).text), hide = h("input", { placeholder: "none", inputmode: "numeric" });
  const other = h("select", {}, h("option", { value: "" }, "nothing"), chosen.others.filter((name) => name !== chosen.run).map((name) => h("option", { value: name }, name)));
  const moment = h("div", { class: "moment" }), said = h("div"), actions = h("p", { class: "actions" });
  const home = h("div", { class: "look" }), next = h("div", { class: "next", "aria-live": "polite" }), more = readouts();
  const box = h("div", { class: "look-home" }, loading("Looking"));

  async function look() {
    const mine = ++state.turn;
    try {
      const found = await Promise.all(names.map((name) => one(name, mine)));
      if (mine !== state.turn || found.includes(null)) return;
      state.found = found;
      more.forget(found.at(-1).look);
      await draw(found.map((each) => each.view));
      fill(said);
      drawActions();
      fill(next, found.map((each, at) => nextTable(each, state.without, names.length > 1 ? names[at] : "")));
      const { table } = await get("/api/look/heads", { look: found.at(-1).look });
      if (mine === state.turn) state.drawn.setTable(found.length - 1, table);
    } catch (error) {
      if (mine !== state.turn) return;
      fill(said, problem(error));
      if (!state.drawn) fill(box);
    }
  }
  // One run's view with its maps. Of two runs the first is shown as it is at the end: the slider belongs to the second.
  async function one(name, mine) {
    const hidden = hide.value.split(/[\s,]+/).filter(Boolean).map(Number);
    const found = await post("/api/look", { run: name, text: text.value, checkpoint: name === chosen.run ? state.checkpoint : "last", without: state.without, hide: hidden });
    if (mine !== state.turn) return null;
    if (!found.view.no_maps) found.view.bytes = await bytes("/api/look/maps", { look: found.look });
    if (names.length > 1) found.view.name = name === chosen.run && state.checkpoint !== "last" ? `${name}, ${found.view.name}` : name;
    return found;
  }
  async function draw(views) {
    if (state.drawn) { await state.drawn.show(views); return; }
    fill(box, home);
    state.drawn = await start(home, { kind: views.length > 1 ? "compare" : "one", scale: state.found[0].scale, views }, drawActions);
    home.querySelector(".all").append(actions, next); // beside the heads: what taking one out does is seen at once
  }
  const out = () => state.without.findIndex(([layer, head]) => layer === state.drawn.state.layer && head === state.drawn.state.head);
  function drawActions() {
    const { layer, head } = state.drawn.state;
    if (state.found.at(-1).view.no_maps) { fill(actions); return; }
    fill(actions, h("button", { type: "button", onclick: toggle }, out() >= 0 ? "Put this head back" : "Take this head out"),
      state.without.length > 0 && [h("button", { type: "button", class: "plain", onclick: () => { state.without = []; drawActions(); look(); } }, "Put all back"),
        h("span", { class: "small" }, `without ${state.without.map(([l, k]) => `${l}.${k}`).join(", ")}`)]);
  }
  function toggle() {
    const at = out(), { layer, head } = state.drawn.state;
    if (at >= 0) state.without.splice(at, 1); else state.without.push([layer, head]);
    drawActions(); // the button says what pressing it again does, before the answer is here
    look();
  }
  other.value = beside || "";
  other.addEventListener("change", () => { location.hash = link("look", chosen.run, { text: text.value, ...(other.value ? { beside: other.value } : {}) }); });
  page.append(h("form", { class: "form", onsubmit: (event) => { event.preventDefault(); look(); } }, field("Text", text),
    h("div", { class: "row" }, h("button", {}, "Look"), h("a", { class: "button", href: link("walk", chosen.run), onclick: (event) => { event.target.href = link("walk", chosen.run, { text: text.value }); } }, "Walk through"), field("Side by side with", other), field("Hide positions", hide))),
  moment, said, box, more.element);
  sendWithCtrlEnter(text);
  const abilities = await get("/api/run/abilities", { run: chosen.run });
  const stops = ["untrained", ...new Set([...abilities.film, ...abilities.checkpoints])].sort((a, b) => (a === "untrained" ? -1 : b === "untrained" ? 1 : a - b));
  const slider = filmSlider(stops.map((stop) => (stop === "untrained" ? stop : `step ${number(stop)}`)), stops.length - 1, (at) => {
    state.checkpoint = at === stops.length - 1 ? "last" : stops[at];
    return look();
  });
  fill(moment, h("span", { class: "small" }, abilities.film.length ? "Film of the training" : "Through the training"), slider.box,
    !abilities.film.length && h("span", { class: "small" }, "a run with checkpoint.film keeps more moments"));
  look();
  return () => { state.turn = -1; slider.stop(); state.drawn?.stop(); };
}

function nextTable(found, without, name) {
  if (!found.next) return null;
  const title = `Next token${without.length ? `, without ${without.map(([layer, head]) => `${layer}.${head}`).join(", ")}` : ""}${name ? `: ${name}` : ""}`;
  const before = new Map((found.before || []).map((one) => [one.id, one.probability]));
  return h("section", { "aria-label": title }, h("h2", {}, title), h("table", {},
    h("thead", {}, h("tr", {}, ["token", ...(found.before ? ["before", "now", "change"] : ["probability"]), ""].map((one, place) => h("th", { scope: "col", class: place ? "number" : null }, one)))),
    h("tbody", {}, found.next.map((one) => {
      const by = before.has(one.id) ? one.probability - before.get(one.id) : null;
      return h("tr", {}, h("td", {}, h("code", {}, visible(one.token))), found.before && h("td", { class: "number" }, before.has(one.id) ? percent(before.get(one.id)) : "–"),
        h("td", { class: "number" }, percent(one.probability)), found.before && h("td", { class: `number ${direction(by)}` }, by === null ? "–" : `${{ up: "+", down: "−", "": "" }[direction(by)]}${(100 * Math.abs(by)).toFixed(1)}`),
        h("td", {}, h("meter", { min: 0, max: 1, value: one.probability, "aria-hidden": true })));
    }))));
}

// Readouts that take longer, on demand; drawn by the server as reports draw them.
function readouts() {
  const other = h("textarea", { rows: 2 }), shown = h("div", { "aria-live": "polite" });
  let look = null, turn = 0;
  const ask = async (kind) => {
    const mine = ++turn;
    fill(shown, loading("Measuring"));
    try {
      const { blocks } = await post("/api/look/readout", { look, kind, other: other.value });
      if (mine === turn) fill(shown, drawBlocks(blocks));
    } catch (error) { if (mine === turn) fill(shown, problem(error)); }
  };
  const buttons = [["effects", "What each head is worth"], ["rollout", "Rollout"], ["patching", "Patch from the other text"]].map(([kind, words]) =>
    h("button", { type: "button", class: "plain", disabled: true, onclick: () => ask(kind) }, words));
  return {
    element: h("details", {}, h("summary", {}, "More readouts"), field("Another text", other, "for patching: a text with the same number of tokens; for what heads are worth: one text a line, which gives an interval"),
      h("p", { class: "actions" }, buttons), shown),
    // Another look is shown: what was measured, or is being measured, of the one before does not stand under it.
    forget(next) {
      if (next === look) return;
      look = next;
      turn++;
      fill(shown);
      buttons.forEach((one) => { one.disabled = false; });
    },
  };
}
