// One panel: a large map, the row in words, strips of tokens, the logit lens. It follows a state shared with its neighbours.
import { drawLarge } from "./maps.js";
import { paintLosses, paintReaders, paintReads, strip } from "./tokens.js";
import { headWord, lensTable, readOut } from "./tables.js";

const make = (kind, className, text = "") => Object.assign(document.createElement(kind), { className, textContent: text });

// ``choose({row, column})`` tells the page; ``draw(state, colours)`` draws the panel anew.
export function panel(view, choose) {
  const box = make("section", "panel"), title = make("h2", "", view.name), said = make("p", "said");
  const canvas = Object.assign(make("canvas", "large"), { tabIndex: 0 });
  canvas.setAttribute("role", "img");
  said.setAttribute("aria-live", "polite");
  const reads = strip("reads", view.keys, (column) => choose({ column }));
  const readers = strip("is read by", view.tokens, (row) => choose({ row }));
  const losses = view.losses ? strip("loss", view.tokens, (row) => choose({ row })) : null;
  const lens = make("div", "wide lens");
  box.append(title);
  if (view.no_maps) box.append(make("p", "note", view.no_maps));
  else box.append(canvas, said, reads.box, readers.box);
  if (losses) box.append(losses.box);
  box.append(lens);
  let drawn = null;
  const point = (event) => {
    const found = drawn?.cell(event.offsetX, event.offsetY);
    if (found) choose({ row: found[0], column: found[1] });
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("click", point);
  canvas.addEventListener("keydown", (event) => {
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    choose({ move: [down, right] });
  });
  const draw = (state, colours) => {
    const here = { ...state, row: Math.max(0, Math.min(state.row, view.tokens.length - 1)), column: Math.max(0, Math.min(state.column, view.keys.length - 1)) };
    here.layer = Math.min(state.layer, view.layers - 1);
    here.head = Math.min(state.head, view.heads - 1);
    if (!view.no_maps) {
      drawn = drawLarge(canvas, view, here.layer, here.head, here, colours.pixels, colours.style);
      canvas.setAttribute("aria-label", `Layer ${here.layer}, head ${here.head}: queries down, keys across`);
      title.textContent = `${view.name ? `${view.name}: ` : ""}layer ${here.layer}, head ${here.head}${headWord(view.table, here.layer, here.head) ? ` (${headWord(view.table, here.layer, here.head).word})` : ""}`;
      said.textContent = readOut(view, here);
      paintReads(reads.words, view, here, colours.table);
      paintReaders(readers.words, view, here, colours.table);
    }
    if (losses) paintLosses(losses.words, view.losses, colours.table, here.row);
    if (view.lens) lens.replaceChildren(lensTable(view, here.row, colours.table), make("p", "help", "Logit lens: what the model would say if it ended after this layer."));
  };
  return { box, draw, view };
}
