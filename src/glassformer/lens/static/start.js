// Draws a look: the grid of heads, one panel or two, a film's slider, the table of heads; keeps what is chosen.
import { isDark, pixels, ramp } from "./colours.js";
import { unpack } from "./unpack.js";
import { headTable, headWord, mostTelling } from "./tables.js";
import { panel } from "./view.js";
import { filmSlider } from "./film.js";
import { headGrid } from "./grid.js";

const element = (kind, className, text = "") => Object.assign(document.createElement(kind), { className, textContent: text });
const within = (at, list) => Math.max(0, Math.min(list.length - 1, at));

// Positions correspond when both views have the same tokens.
const sameTokens = (views) => views.every((view) => view.tokens.join("\n") === views[0].tokens.join("\n"));

// Draws ``data`` (the document of lens/page.py) into ``home``; ``chosen(state)`` is told what is chosen.
// Gives {state, show(views), setTable(at, table), stop} to whoever embeds it.
export async function start(home, data, chosen = () => {}) {
  const film = data.kind === "film";
  let views = data.views, cards = [], own = [], colours = null, waiting = 0;
  const state = { layer: 0, head: 0, row: Infinity, column: 0, view: film ? views.length - 1 : 0 }; // the last token
  let picked = false; // whether a head was chosen, by a person or for the first time by its scores
  const title = element("h2", ""), notes = element("div", "notes"), panels = element("div", "panels"), table = element("div", "wide heads");
  const grid = headGrid((changes) => choose(changes)), aside = element("section", "all");
  const slider = film ? filmSlider(views.map((view) => view.name), state.view, (view) => choose({ view })) : null;
  const linked = () => film || sameTokens(views);
  const shown = () => (film ? views[state.view] : views[views.length - 1]); // of two to compare, the one after
  const ready = () => Promise.all(views.map(async (view) => {
    if (view.maps && !view.bytes) view.bytes = await unpack(view.maps);
  }));

  // ``at``: the panel in which something was pointed at. Panels of other tokens keep places of their own.
  function choose(changes, at = null) {
    const here = at === null || linked() ? state : own[at], view = at === null ? shown() : cards[at].view;
    if ("layer" in changes) picked = true;
    if (changes.move) {
      const [down, right] = changes.move;
      changes = { row: within(here.row + down, view.tokens), column: within(here.column + right, view.keys) };
    }
    const other = "view" in changes && changes.view !== state.view;
    Object.assign(here, changes);
    if (other) build();
    else refresh();
    chosen(state);
  }

  function refresh() {
    cards.forEach((card, at) => card.draw(linked() ? state : { ...state, ...own[at] }, colours));
    grid.mark(state);
    table.querySelectorAll("tbody tr").forEach((row) => row.classList.toggle("chosen", Number(row.dataset.layer) === state.layer && Number(row.dataset.head) === state.head));
    slider?.show(state.view);
  }

  function build() {
    const shades = data.scale[isDark() ? "dark" : "light"], look = getComputedStyle(home);
    const style = { ink: look.color, accent: look.getPropertyValue("--mark").trim() || "#d55e00", font: look.fontFamily };
    colours = { pixels: pixels(shades), table: ramp(shades), style };
    const view = shown();
    state.layer = Math.min(state.layer, view.layers - 1);
    state.head = Math.min(state.head, view.heads - 1);
    state.row = within(state.row, view.tokens);
    const faults = views.flatMap((one) => one.faults).map((fault) => element("p", "warning", fault));
    const apart = linked() ? [] : [element("p", "", `The texts are split differently (${views.map((one) => `${one.name}: ${one.tokens.length} tokens`).join(", ")}), so positions do not correspond: each map is pointed at on its own.`)];
    notes.replaceChildren(...faults, ...apart);
    cards = (film ? [view] : views).map((one, at) => panel(one, (changes) => choose(changes, at)));
    own = cards.map(() => ({ row: state.row, column: state.column }));
    panels.replaceChildren(...cards.map((card) => card.box));
    legend.hidden = Boolean(view.no_maps);
    legend.querySelector(".ramp").style.background = `linear-gradient(to right, ${shades.join(", ")})`;
    title.textContent = view.no_maps ? "" : views.length > 1 ? `All heads: ${view.name}` : "All heads";
    grid.draw(view, colours.pixels);
    drawTable();
    refresh();
    home.dataset.drawn = performance.now().toFixed(1);
  }

  function drawTable() {
    const known = shown().table;
    grid.label(known);
    if (known && !picked) { picked = true; Object.assign(state, mostTelling(known)); chosen(state); }
    const word = headWord(known, state.layer, state.head);
    home.dataset.word = word ? word.word : "";
    table.replaceChildren(...(shown().table ? [headTable(shown(), (layer, head) => choose({ layer, head }))] : []));
  }

  const legend = element("p", "legend");
  legend.append("weight 0 ", element("span", "ramp"), " 1");
  await ready();
  aside.append(title, grid.box, legend);
  home.querySelectorAll(":scope > .note").forEach((note) => note.remove());
  home.append(notes, ...(slider ? [slider.box] : []), aside, panels, table,
    element("p", "help", "The framed row is the chosen token: what it reads stands below the map. The dashed column is a key, and “is read by” shows who reads it. Point at a token or a cell to choose others. Keys: Tab to the map or the heads, then the arrows."));
  build();
  const later = () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(refresh);
  };
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", build);
  addEventListener("resize", later);
  home.dataset.ready = "yes";
  return {
    state,
    async show(next) {
      views = next;
      await ready();
      build();
    },
    setTable(at, found) {
      views[at].table = found;
      drawTable();
      refresh();
    },
    stop() {
      scheme.removeEventListener("change", build);
      removeEventListener("resize", later);
      slider?.stop();
    },
  };
}
