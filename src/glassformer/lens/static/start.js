// The page: reads the document, unpacks the maps, draws the grid of heads, one panel or two, a film's slider; keeps the state.
import { isDark, pixels, ramp } from "./colours.js";
import { unpack } from "./unpack.js";
import { drawSmall } from "./maps.js";
import { headTable } from "./tables.js";
import { panel } from "./view.js";

const element = (kind, className, text = "") => Object.assign(document.createElement(kind), { className, textContent: text });

// Draws ``data`` (the document of lens/document.py) into ``home``. Gives {choose(changes), state} to whoever embeds it.
export async function start(home, data) {
  const film = data.kind === "film", views = data.views;
  const state = { layer: 0, head: 0, row: 0, column: 0, view: film ? views.length - 1 : 0 };
  const ready = async (view) => {
    if (view.maps && !view.bytes) view.bytes = await unpack(view.maps);
    return view;
  };
  await Promise.all(views.map(ready));
  home.replaceChildren();
  views.flatMap((view) => view.faults).forEach((fault) => home.append(element("p", "note warning", fault)));
  let colours = null;
  const palette = () => {
    const shades = data.scale[isDark() ? "dark" : "light"], look = getComputedStyle(document.body);
    const style = { ink: look.color, accent: look.getPropertyValue("--accent").trim() || "#d55e00", font: look.fontFamily };
    colours = { pixels: pixels(shades), table: ramp(shades), style };
  };
  const shown = () => (film ? views[state.view] : views[views.length - 1]); // of two to compare, the one after
  const grid = element("div", "grid"), title = element("h2", ""), thumbs = [];
  const panels = element("div", "panels"), table = element("div", "wide heads");
  const slider = film ? filmSlider(views, state, (view) => choose({ view })) : null;
  let cards = [];

  function choose(changes) {
    if (changes.move) {
      const view = shown(), [down, right] = changes.move;
      changes = { row: Math.max(0, Math.min(view.tokens.length - 1, state.row + down)), column: Math.max(0, Math.min(view.keys.length - 1, state.column + right)) };
    }
    const other = "view" in changes && changes.view !== state.view;
    Object.assign(state, changes);
    if (other) build();
    else refresh();
  }

  function refresh() {
    cards.forEach((card) => card.draw(state, colours));
    thumbs.forEach(({ button, layer, head }) => {
      const chosen = layer === state.layer && head === state.head;
      button.setAttribute("aria-pressed", chosen);
      button.tabIndex = chosen ? 0 : -1;
    });
    table.querySelectorAll("tbody tr").forEach((row) => row.classList.toggle("chosen", Number(row.dataset.layer) === state.layer && Number(row.dataset.head) === state.head));
    slider?.show();
  }

  function build() {
    palette();
    cards = (film ? [shown()] : views).map((view) => panel(view, choose));
    panels.replaceChildren(...cards.map((card) => card.box));
    drawGrid();
    table.replaceChildren(...(shown().table ? [headTable(shown(), (layer, head) => choose({ layer, head }))] : []));
    refresh();
  }

  function drawGrid() {
    const view = shown();
    title.textContent = views.length > 1 ? `All heads: ${view.name}` : "All heads";
    if (view.no_maps) return;
    if (!thumbs.length) makeThumbs(view);
    thumbs.forEach(({ canvas, layer, head }) => drawSmall(canvas, view, layer, head, colours.pixels));
  }

  function makeThumbs(view) {
    grid.style.setProperty("--heads", view.heads);
    grid.classList.toggle("many", view.heads > 8);
    for (let layer = 0; layer < view.layers; layer++) {
      for (let head = 0; head < view.heads; head++) {
        const button = Object.assign(element("button", "thumb"), { type: "button", title: `layer ${layer}, head ${head}` });
        const canvas = element("canvas", "");
        button.setAttribute("aria-label", `layer ${layer}, head ${head}`);
        button.append(canvas, element("span", "", `${layer}.${head}`));
        button.addEventListener("click", () => choose({ layer, head }));
        thumbs.push({ button, canvas, layer, head });
      }
    }
    grid.append(...thumbs.map(({ button }) => button));
    grid.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: view.heads, ArrowUp: -view.heads }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = Math.max(0, Math.min(thumbs.length - 1, state.layer * view.heads + state.head + step));
      choose({ layer: thumbs[next].layer, head: thumbs[next].head });
      thumbs[next].button.focus();
    });
  }

  const aside = element("section", "all");
  aside.append(title, grid);
  const help = "Point at a token or a cell. Keys: Tab to the map or the heads, then the arrows.";
  home.append(...(slider ? [slider.box] : []), aside, panels, table, element("p", "help", help));
  build();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(refresh);
  });
  home.dataset.ready = "yes";
  return { choose, state };
}

// A range of steps and a button that plays them.
function filmSlider(views, state, go) {
  const box = element("div", "film"), name = element("output", "", "");
  const range = Object.assign(element("input", ""), { type: "range", min: 0, max: views.length - 1, value: state.view });
  range.setAttribute("aria-label", "moment of training");
  const play = Object.assign(element("button", "", "Play"), { type: "button" });
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  range.addEventListener("input", () => (stop(), go(Number(range.value))));
  play.addEventListener("click", () => {
    if (timer) return stop();
    play.textContent = "Stop";
    if (state.view === views.length - 1) go(0);
    timer = setInterval(() => (state.view === views.length - 1 ? stop() : go(state.view + 1)), 700);
  });
  box.append(play, range, name);
  return { box, show: () => ((range.value = state.view), (name.textContent = views[state.view].name)) };
}

const own = document.getElementById("look-data");
if (own) start(document.getElementById("look"), JSON.parse(own.textContent));
