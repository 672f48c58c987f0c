// One token on its way through the model: a card for each step, with its numbers, its shape and its line of code.
const made = (tag, className = "", text = "") => Object.assign(document.createElement(tag), { className, textContent: text });
const shownToken = (text) => text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";
const short = (value) => (value === null ? "–" : Math.abs(value) >= 1000 || (value !== 0 && Math.abs(value) < 0.001) ? value.toExponential(1) : Number(value.toPrecision(3)).toString());

// A number as a colour: below zero one hue, above zero the other, as strong as it is large beside the largest.
function coloured(cell, value, largest) {
  if (value === null) { cell.classList.add("none"); return; }
  const share = largest ? Math.min(1, Math.abs(value) / largest) : 0;
  cell.style.background = `color-mix(in srgb, var(${value < 0 ? "--below" : "--above"}) ${(100 * Math.sqrt(share)).toFixed(0)}%, transparent)`;
}

// Rows of cells; each tells its number when it is pointed at. ``columns``: what stands above, where that can be read.
function strip(values, rows, columns, said) {
  const box = made("div", "strip-table"), largest = Math.max(1e-12, ...values.flat().map((one) => Math.abs(one ?? 0)));
  const wide = columns !== null;
  if (wide) {
    const line = made("div", "line");
    line.append(made("span", "row-name", ""), ...columns.map((text) => made("span", "cell head", shownToken(text))));
    box.append(line);
  }
  values.forEach((row, at) => {
    const line = made("div", "line");
    if (rows.length > 1 || wide) line.append(made("span", "row-name", rows[at] ?? ""));
    row.forEach((value, place) => {
      const cell = made("span", wide ? "cell wide-cell" : "cell", wide ? short(value) : "");
      coloured(cell, value, largest);
      cell.title = `${rows[at] ? `${rows[at]}, ` : ""}${wide ? shownToken(columns[place]) : place}: ${value === null ? "masked" : value}`;
      line.append(cell);
    });
    box.append(line);
  });
  if (!wide) said.append(made("p", "numbers", `${values[0].slice(0, 6).map(short).join(", ")}${values[0].length > 6 ? ", …" : ""}`));
  return box;
}

function outputs(step) {
  const table = made("table"), head = made("tr"), body = made("tbody");
  head.append(...["output", "logit", "probability", ""].map((text) => made("th", "", text)));
  step.columns.forEach((token, at) => {
    const row = made("tr"), bar = made("meter");
    Object.assign(bar, { min: 0, max: 1, value: step.values[1][at] });
    row.append(made("td", "token-name", shownToken(token)), made("td", "number", short(step.values[0][at])), made("td", "number", `${(100 * step.values[1][at]).toFixed(1)} %`));
    row.append(made("td"));
    row.lastChild.append(bar);
    body.append(row);
  });
  const top = made("thead");
  top.append(head);
  table.append(top, body);
  return table;
}

function card(step, number) {
  const box = made("section", "step");
  box.dataset.step = step.name;
  const title = made("h3", "", `${number}. ${step.title}`), shape = made("span", "shape", `${step.axes.join(" × ")} = ${step.shape.join(" × ")}`);
  title.append(" ", shape);
  const said = made("div");
  box.append(title, made("p", "about", step.text));
  box.append(step.kind === "outputs" ? outputs(step) : strip(step.values, step.rows, step.columns, said), said);
  if (step.length !== undefined) said.append(made("p", "numbers", `length of the vector ${short(step.length)}${step.of > step.values[0].length ? `; ${step.values[0].length} of ${step.of} numbers are drawn` : ""}`));
  if (step.in) {
    box.append(made("p", "about", "What came in:"), strip(step.in, step.rows, step.columns, made("div")));
  }
  if (step.code) {
    const line = made("p", "code");
    line.append(made("code", "", step.code), made("span", "where", ` ${step.where}`));
    box.append(line);
  }
  return box;
}

// Draws the document of lens/walk.py; ``choose(position)`` is called when another token is chosen, where that is possible.
export function drawWalk(home, data, choose = null) {
  home.querySelectorAll(":scope > :not(h1)").forEach((old) => old.remove());
  const text = made("p", "tokens");
  data.tokens.forEach((token, at) => {
    const word = made(choose ? "button" : "span", at === data.position ? "token chosen" : "token", shownToken(token));
    if (choose) { word.type = "button"; word.setAttribute("aria-pressed", at === data.position); word.addEventListener("click", () => choose(at)); }
    text.append(word);
  });
  home.append(text, made("p", "about", `Token ${data.position + 1} of ${data.tokens.length} on its way. Every number is the model's own: blue is below zero, orange above, faint near zero. Point at a cell for its value. Beside a title: the tensor's shape; in the code, the last letters of a name are its axes (B text of the batch, T or S token, D width, H head, E width of a head).`));
  let layer = null, place = home, number = 0;
  data.steps.forEach((step) => {
    if (step.layer !== layer) {
      layer = step.layer;
      place = made("div", "layer");
      if (layer !== null) place.append(made("h2", "", `Layer ${layer}`));
      home.append(place);
    }
    place.append(card(step, ++number));
  });
  home.dataset.ready = "yes";
}
