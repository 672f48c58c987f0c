// All heads as small maps, layers down and heads across; one is chosen, by a click or by the arrow keys.
import { drawSmall } from "./maps.js";
import { headWord } from "./tables.js";

const smallMap = (layer, head) => {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "thumb", title: `layer ${layer}, head ${head}` });
  const canvas = document.createElement("canvas");
  button.setAttribute("aria-label", button.title);
  const name = Object.assign(document.createElement("span"), { textContent: `${layer}.${head}` });
  button.append(canvas, name);
  return { button, canvas, name, layer, head };
};

export function headGrid(choose) {
  const box = Object.assign(document.createElement("div"), { className: "grid" });
  let thumbs = [], heads = 0;

  function make(view) {
    heads = view.heads;
    box.style.setProperty("--heads", heads);
    box.classList.toggle("many", heads > 8);
    thumbs = Array.from({ length: view.layers * heads }, (_, at) => smallMap(Math.floor(at / heads), at % heads));
    thumbs.forEach(({ button, layer, head }) => button.addEventListener("click", () => choose({ layer, head })));
    box.replaceChildren(...thumbs.map(({ button }) => button));
  }
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: heads, ArrowUp: -heads }[event.key];
    if (!step) return;
    event.preventDefault();
    const now = thumbs.findIndex(({ button }) => button.tabIndex === 0);
    const { layer, head, button } = thumbs[Math.max(0, Math.min(thumbs.length - 1, now + step))];
    choose({ layer, head });
    button.focus();
  });
  return {
    box,
    draw(view, pixels) {
      if (view.no_maps) return box.replaceChildren();
      if (thumbs.length !== view.layers * view.heads || heads !== view.heads || !box.firstChild) make(view);
      thumbs.forEach(({ canvas, layer, head }) => drawSmall(canvas, view, layer, head, pixels));
    },
    // What each head is in a word, once its scores are known.
    label(table) {
      thumbs.forEach(({ button, name, layer, head }) => {
        const known = headWord(table, layer, head);
        name.textContent = `${layer}.${head}${known ? ` ${known.word}` : ""}`;
        button.setAttribute("aria-description", known ? known.word : "");
      });
    },
    mark(state) {
      thumbs.forEach(({ button, layer, head }) => {
        const chosen = layer === state.layer && head === state.head;
        button.setAttribute("aria-pressed", chosen);
        button.tabIndex = chosen ? 0 : -1;
      });
    },
  };
}
