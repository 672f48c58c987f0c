// Draws one head: as a small picture for the grid, or large with tokens on both axes and the chosen row and column marked.
import { headOf } from "./unpack.js";

const SMALL = 96; // the most pixels a small map has on a side; beyond, the largest weight of a block is shown

export function drawSmall(canvas, view, layer, head, colours) {
  const bytes = headOf(view, layer, head);
  const rows = view.tokens.length, columns = view.keys.length;
  const step = Math.ceil(Math.max(rows, columns) / SMALL);
  const height = Math.ceil(rows / step), width = Math.ceil(columns / step);
  canvas.width = width;
  canvas.height = height;
  const image = new ImageData(width, height);
  const out = new Uint32Array(image.data.buffer);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let most = 0;
      const down = Math.min(rows, (y + 1) * step), across = Math.min(columns, (x + 1) * step);
      for (let row = y * step; row < down; row++)
        for (let column = x * step; column < across; column++) most = Math.max(most, bytes[row * columns + column]);
      out[y * width + x] = colours[most];
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

export const printed = (token) => token.replaceAll("\n", "↵").replaceAll("\t", "⇥").replace(/^ +$/, (spaces) => "␣".repeat(spaces.length));

const short = (token) => (token.length > 10 ? `${token.slice(0, 9)}…` : token);

// Gives {cell(x, y) -> [row, column] or null}, in pixels of the page, for whoever follows the pointer.
export function drawLarge(canvas, view, layer, head, chosen, colours, style) {
  const rows = view.tokens.length, columns = view.keys.length;
  const wide = canvas.clientWidth || 600, ratio = window.devicePixelRatio || 1;
  const pen = canvas.getContext("2d"), most = wide < 480 ? 54 : 84;
  pen.font = `13px ${style.font}`;
  const labels = [...view.tokens, ...view.keys].map((token) => pen.measureText(short(printed(token))).width);
  const crowded = (columns * 12) / (wide - most) > 1;
  const margin = Math.min(most, Math.max(...labels) + (crowded ? 40 : 14));
  const cell = (wide - margin) / columns, tall = margin + cell * rows;
  canvas.width = Math.round(wide * ratio);
  canvas.height = Math.round(tall * ratio);
  canvas.style.height = `${tall}px`;
  pen.scale(ratio, ratio);
  const image = new ImageData(columns, rows), out = new Uint32Array(image.data.buffer);
  headOf(view, layer, head).forEach((byte, at) => (out[at] = colours[byte]));
  const whole = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
  whole.getContext("2d").putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(whole, margin, margin, cell * columns, cell * rows);
  pen.font = `${Math.max(9, Math.min(13, cell * 0.8))}px ${style.font}`;
  const every = Math.max(1, Math.ceil(12 / cell)), upright = every === 1 && view.keys.every((token) => printed(token).length < 2);
  axis(pen, view.tokens, every, chosen.row, style, (at) => ({ x: margin - 5, y: margin + (at + 0.5) * cell, turn: 0 }), "right");
  axis(pen, view.keys, every, chosen.column, style, (at) => ({ x: margin + (at + 0.5) * cell, y: margin - (upright ? 9 : 5), turn: upright ? 0 : -Math.PI / 2 }), upright ? "center" : "left");
  pen.lineWidth = 1.5;
  pen.strokeStyle = style.accent;
  if (chosen.row !== null) pen.strokeRect(margin, margin + chosen.row * cell, cell * columns, Math.max(cell, 2));
  pen.setLineDash([4, 3]); // the row is what was chosen; the column, a key, is marked more quietly
  pen.lineWidth = 1;
  pen.strokeStyle = style.ink;
  if (chosen.column !== null) pen.strokeRect(margin + chosen.column * cell, margin, Math.max(cell, 2), cell * rows);
  return {
    cell(x, y) {
      const row = Math.floor((y - margin) / cell), column = Math.floor((x - margin) / cell);
      return row >= 0 && column >= 0 && row < rows && column < columns ? [row, column] : null;
    },
  };
}

// Every so many tokens, and the chosen one, whatever stands beside it.
function axis(pen, tokens, every, chosen, style, place, align) {
  pen.textBaseline = "middle";
  pen.textAlign = align;
  tokens.forEach((token, at) => {
    const near = chosen !== null && at !== chosen && Math.abs(at - chosen) < every;
    if ((at % every || near) && at !== chosen) return;
    const { x, y, turn } = place(at);
    pen.save();
    pen.translate(x, y);
    pen.rotate(turn);
    pen.fillStyle = at === chosen ? style.accent : style.ink;
    pen.fillText(every > 1 ? `${at} ${short(printed(token))}` : short(printed(token)), 0, 0);
    pen.restore();
  });
}
