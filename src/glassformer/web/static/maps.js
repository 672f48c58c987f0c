// Attention maps on canvases: a byte of weight for each query and key, painted from paper to ink.
import { h, percent, visible } from "/static/dom.js";

function rgb(name) {
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#000000";
  const hex = probe.fillStyle;
  return [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
}

export function palette() {
  const [paper, ink] = [rgb("--paper"), rgb("--map")], colors = new Uint32Array(256);
  for (let weight = 0; weight < 256; weight++) {
    const share = (weight / 255) ** 0.6; // small weights stay visible
    const [r, g, b] = paper.map((one, place) => Math.round(one + (ink[place] - one) * share));
    colors[weight] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return colors;
}

export function paint(canvas, weights, rows, columns, colors) {
  canvas.width = columns; canvas.height = rows;
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows), pixels = new Uint32Array(image.data.buffer);
  for (let place = 0; place < weights.length; place++) pixels[place] = colors[weights[place]];
  context.putImageData(image, 0, 0);
}

// All heads: one small map each; choosing one calls pick(layer, head).
export function grid(maps, [layers, heads, rows, columns], pick, chosen) {
  const colors = palette(), size = rows * columns, boxes = [];
  const table = h("div", { class: "heads", role: "group", "aria-label": "All heads, a map each" });
  table.style.gridTemplateColumns = `auto repeat(${heads}, minmax(1.6rem, 9rem))`;
  for (let layer = 0; layer < layers; layer++) {
    table.append(h("span", { class: "small" }, `layer ${layer}`));
    for (let head = 0; head < heads; head++) {
      const canvas = h("canvas", { class: "map" }), place = layer * heads + head;
      paint(canvas, maps.subarray(place * size, (place + 1) * size), rows, columns, colors);
      const button = h("button", { type: "button", class: "head", "aria-label": `Layer ${layer}, head ${head}`, "aria-pressed": String(chosen[0] === layer && chosen[1] === head), onclick: () => pick(layer, head) }, canvas);
      boxes.push(button); table.append(button);
    }
  }
  return { element: table, mark(layer, head) { boxes.forEach((box, place) => box.setAttribute("aria-pressed", String(place === layer * heads + head))); } };
}

// One large map with tokens along its sides; the pair under the pointer is said below.
export function large(maps, [, heads, rows, columns], layer, head, tokens, keys) {
  const size = rows * columns, own = maps.subarray((layer * heads + head) * size, (layer * heads + head + 1) * size);
  const canvas = h("canvas", { class: "map large", tabindex: 0, role: "img", "aria-label": `Attention of layer ${layer}, head ${head}: ${rows} queries by ${columns} keys. The arrow keys move the place that is read.` });
  paint(canvas, own, rows, columns, palette());
  const said = h("p", { class: "small", "aria-live": "polite" }, " ");
  let place = [rows - 1, 0];
  const tell = () => { const [query, key] = place; said.textContent = `${visible(tokens[query])} (${query}) looks at ${visible(keys[key])} (${key}): ${percent(own[query * columns + key] / 255)}`; };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    place = [Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)), Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns))];
    tell();
  });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    place = [Math.max(0, Math.min(rows - 1, place[0] + by[0])), Math.max(0, Math.min(columns - 1, place[1] + by[1]))];
    tell();
  });
  const few = rows <= 40;
  const side = few && h("div", { class: "side" }, tokens.map((one) => h("span", {}, visible(one))));
  const foot = few && h("div", { class: "foot" }, keys.map((one) => h("span", {}, visible(one))));
  return h("figure", { class: "large-map" }, h("div", { class: "map-frame" }, side, h("div", { class: "map-box" }, canvas, foot)), said);
}
