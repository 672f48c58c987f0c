// The page of the atlas: draws the table from the data in the page, sorts and filters it, and opens cells. Loads nothing.

const data = JSON.parse(document.getElementById("atlas-data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const LEAST_REACH = 0.06; // nats per byte at the edge of a cell's picture
const byCell = new Map(data.cells.map((cell) => [[cell.row, cell.text, cell.size, cell.base].join("|"), cell]));
const byRow = new Map(data.rows.map((row) => [row.name, row]));

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  return fill(element, attributes, children);
}
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const signed = (value, digits = 3) => {
  const size = Math.abs(value).toFixed(digits);
  return (Number(size) === 0 ? "" : value > 0 ? "+" : "−") + size;
};
const percent = (ratio) => (ratio === null ? "" : Math.abs(ratio - 1) < 0.005 ? "±0 %" : `${signed(100 * (ratio - 1), 0)} %`);
const cellOf = (row, column) => byCell.get([row.name, column.text, column.size, column.base].join("|"));
const isJudged = (cell) => cell !== undefined && cell.word !== "open";
const judgedIn = (column) => data.rows.filter((row) => isJudged(cellOf(row, column))).length;
const shown = data.columns.filter(judgedIn); // where nothing was run yet there is nothing to see
const nameOf = (column) => `${data.texts[column.text].title}, ${data.sizes[column.size].title}${column.base === "modern" ? "" : `, base ${column.base}`}`;
const first = (row) => data.columns.map((column) => cellOf(row, column)).find((cell) => cell && cell.parameters !== null);
const sizeName = (size) => `${size} (${data.sizes[size].title} parameters)`;

// At the edge of all pictures of a column, so that they can be compared: four fifths of its intervals lie inside.
const placeOf = ({ text, size, base }) => [text, size, base].join("|");
const reaches = new Map(data.columns.map((column) => {
  const there = data.cells.filter((cell) => placeOf(cell) === placeOf(column) && Number.isFinite(cell.difference.low));
  const ends = there.map((cell) => Math.max(-cell.difference.low, cell.difference.high)).sort((a, b) => a - b);
  return [placeOf(column), Math.max(LEAST_REACH, ends[Math.floor(0.8 * ends.length)] ?? 0)];
}));

function interval(cell) {
  const reach = reaches.get(placeOf(cell)) ?? LEAST_REACH;
  const at = (value) => 50 + 50 * Math.max(-1, Math.min(1, value / reach));
  const { value, low, high } = cell.difference;
  const picture = draw("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect", { class: "band", x: at(-data.margin), width: at(data.margin) - at(-data.margin), y: 0, height: 12 }),
    draw("line", { class: "axis", x1: 50, x2: 50, y1: 0, y2: 12 }));
  if (value === null) return picture;
  if (low !== null && low !== undefined) picture.append(draw("line", { class: "bar", x1: at(low), x2: at(high), y1: 6, y2: 6 }));
  picture.append(draw("rect", { class: "dot", x: at(value) - 0.7, width: 1.4, y: 0.5, height: 11 }));
  return picture;
}

function button(cell) {
  const value = cell.difference.value;
  const word = make("span", { class: `word ${cell.word.replace(" ", "-")}` }, cell.word);
  const label = `${byRow.get(cell.row).title}, ${cell.text}, ${cell.size}: ${cell.word}`;
  return make("button", { type: "button", class: `cell ${cell.word.replace(" ", "-")}`, "aria-label": label, onclick: () => open(cell) },
    value === null ? null : make("span", { class: "value" }, signed(value)), word, cell.word === "open" ? null : interval(cell));
}

// -- the table --------------------------------------------------------------------------------------------------------------

const sizesOf = (row) => { // of the text that has most
  const judged = shown.filter((column) => isJudged(cellOf(row, column)));
  return Math.max(0, ...judged.map((one) => judged.filter((other) => other.text === one.text && other.base === one.base).length));
};
const trendOf = (row) => data.columns.map((column) => cellOf(row, column)).find((cell) => cell && cell.trend)?.trend ?? null;
const worthOf = (row) => {
  const found = data.columns.map((column) => cellOf(row, column)).filter((cell) => cell && cell.worth && cell.worth.more_steps.value !== null);
  return found.length ? found[0].worth.more_steps.value : null;
};
const columns = [
  { name: "Change", key: (row) => row.title.toLowerCase() },
  { name: "With size", title: "Does the gain grow with size? It takes two sizes on one text, both at the tuned rate.", key: (row) => trendOf(row)?.gain_per_decade.value ?? null,
    show: (row) => make("span", trendOf(row) ? { title: trendOf(row).sentence } : { class: "open" }, trendOf(row)?.short ?? ["", "one size"][sizesOf(row)] ?? "not known") },
  ...shown.map((column) => ({
    name: nameOf(column),
    title: `${data.texts[column.text].about} ${sizeName(column.size)}, ${data.sizes[column.size].steps} steps. Against ${data.bases[column.base]}.`,
    key: (row) => cellOf(row, column)?.difference.value ?? null,
    show: (row) => (cellOf(row, column) ? button(cellOf(row, column)) : ""),
  })),
  { name: "Other texts", title: "Would it hold on other texts, too? A t test over the texts' means at XS, without skills and texts read many times; with three texts it seldom decides.", key: (row) => row.overall?.difference.value ?? null,
    show: (row) => make("span", { class: row.overall?.verdict.replace(" ", "-") ?? "", title: row.overall?.sentence ?? "" }, row.overall?.verdict ?? "") },
  { name: "Worth in steps", title: "The gain in steps of the baseline, on the first text that has it.", number: true, key: worthOf,
    show: (row) => (worthOf(row) === null ? "" : `${signed(100 * worthOf(row), 0)} %`) },
  { name: "Parameters", number: true, key: (row) => first(row)?.parameters ?? null, show: (row) => percent(first(row)?.parameters ?? null) },
  { name: "FLOPs", number: true, key: (row) => first(row)?.flops ?? null, show: (row) => percent(first(row)?.flops ?? null) },
  { name: "Speed", title: "Tokens per second of this implementation, measured in turns with the baseline.", number: true, key: (row) => first(row)?.speed ?? null, show: (row) => percent(first(row)?.speed ?? null) },
  { name: "Year", number: true, key: (row) => row.year, show: (row) => String(row.year) },
];

const lines = new Map();
for (const row of data.rows) {
  const about = `${row.role === "row" ? `${row.slot.replace("model.", "")} · ${row.kind}` : row.role === "leak" ? "positive control" : row.role}${row.untestable ? " · claim not testable here" : ""}`;
  const name = make("th", { scope: "row" }, row.title, make("span", { class: "about" }, about));
  const cells = columns.slice(1).map((column) => make("td", column.number ? { class: "number" } : {}, column.show(row)));
  lines.set(row.name, make("tr", {}, name, ...cells));
}

const body = make("tbody");
const enough = shown.find((column) => judgedIn(column) >= data.rows.length / 4) ?? shown[0];
const state = { column: enough ? columns.findIndex((column) => column.name === nameOf(enough)) : 0, up: true };
const heads = columns.map((column, number) =>
  make("th", { scope: "col", title: column.title ?? null, class: column.number ? "number" : null },
    make("button", { type: "button", onclick: () => sortBy(number) }, column.name)));

function sortBy(number) {
  state.up = state.column === number ? !state.up : true;
  state.column = number;
  show();
}

function show() {
  const began = performance.now();
  const { column, up } = state;
  const wanted = data.rows.filter(passes).map((row) => [columns[column].key(row), row]);
  const order = (a, b) => (a === null ? 1 : b === null ? -1 : (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1));
  wanted.sort((one, two) => order(one[0], two[0]));
  body.replaceChildren(...wanted.map(([, row]) => lines.get(row.name)));
  heads.forEach((head, at) => (at === column ? head.setAttribute("aria-sort", up ? "ascending" : "descending") : head.removeAttribute("aria-sort")));
  count.textContent = `${wanted.length} of ${data.rows.length} rows`;
  document.documentElement.dataset.sorted = (performance.now() - began).toFixed(1);
}

// -- filters ----------------------------------------------------------------------------------------------------------------

const unique = (values) => [...new Set(values)].sort();
const choice = (title, options) => {
  const element = make("select", { onchange: show }, ...options.map(([value, label]) => make("option", { value }, label)));
  return { element, label: make("label", {}, title, element) };
};
const search = make("input", { type: "search", placeholder: "SwiGLU, Gemma, rotary ...", oninput: show });
const slot = choice("Slot", [["", "all"], ...unique(data.rows.map((row) => row.slot)).map((one) => [one, one])]);
const cost = choice("Cost", [["", "all"], ["same", "FLOPs within 2 %"], ["more", "more FLOPs"], ["less", "fewer FLOPs"], ["parameters", "more parameters"]]);
const years = choice("Year", [["", "all"], ...unique(data.rows.map((row) => row.year)).reverse().map((one) => [String(one), `${one} and later`])]);
const word = choice("Word", [["", "all"], ...["better", "worse", "same", "not decided", "invalid", "not testable", "open"].map((one) => [one, one])]);
const controls = make("input", { type: "checkbox", checked: "", onchange: show });
const count = make("span", { class: "small" });

function passes(row) {
  const flops = first(row)?.flops ?? null, parameters = first(row)?.parameters ?? null;
  const kinds = { same: flops !== null && Math.abs(flops - 1) <= 0.02, more: flops > 1.02, less: flops !== null && flops < 0.98, parameters: parameters > 1.02 };
  const text = `${row.name} ${row.title} ${row.source} ${row.claim} ${row.slot}`.toLowerCase();
  return (!slot.element.value || row.slot === slot.element.value)
    && (!cost.element.value || kinds[cost.element.value])
    && (!years.element.value || row.year >= Number(years.element.value))
    && (!word.element.value || shown.some((column) => cellOf(row, column)?.word === word.element.value))
    && (controls.checked || row.role === "row")
    && text.includes(search.value.trim().toLowerCase());
}

// -- a cell, opened ---------------------------------------------------------------------------------------------------------

const dialog = make("dialog", { onclick: (event) => event.target === dialog && dialog.close(), onclose: () => history.replaceState(null, "", location.pathname + location.search) });

function dots(cell) {
  const own = Object.entries(cell.seeds).filter(([, loss]) => loss !== null);
  const every = [...own.map(([, loss]) => loss), ...cell.baseline];
  if (!every.length) return null;
  const low = Math.min(...every), high = Math.max(...every), at = (loss) => 8 + (384 * (loss - low)) / (high - low || 1);
  const line = (label, y, points, kind) => [draw("text", { x: 0, y: y - 9 }, label),
    ...points.map(([seed, loss]) => draw("circle", { cx: at(loss), cy: y, r: 4, class: "dot", opacity: kind }, draw("title", {}, `${seed}: ${loss}`)))];
  return draw("svg", { viewBox: "0 0 400 92", role: "img", "aria-label": "loss of every run" },
    ...line("this change", 22, own.map(([seed, loss]) => [`seed ${seed}`, loss]), 0.9),
    ...line("baseline", 58, cell.baseline.map((loss, number) => [`run ${number + 1}`, loss]), 0.35),
    draw("text", { x: 0, y: 84 }, low.toFixed(4)), draw("text", { x: 362, y: 84 }, high.toFixed(4)));
}

function rateCurve(curve) {
  const points = curve.rates.flatMap((rate, number) => curve.losses[number].filter((loss) => loss !== null).map((loss) => [Math.log2(rate), loss]));
  if (!points.length) return null;
  const xs = points.map((one) => one[0]), ys = points.map((one) => one[1]);
  const x = (value) => 80 + (280 * (value - Math.min(...xs))) / (Math.max(...xs) - Math.min(...xs) || 1);
  const y = (value) => 100 - (85 * (value - Math.min(...ys))) / (Math.max(...ys) - Math.min(...ys) || 1);
  return draw("svg", { viewBox: "0 0 400 130", role: "img", "aria-label": "loss by learning rate" },
    ...points.map(([rate, loss]) => draw("circle", { cx: x(rate), cy: y(loss), r: 4, class: "dot", opacity: 0.6 })),
    ...curve.rates.map((rate) => draw("text", { x: x(Math.log2(rate)), y: 124, "text-anchor": "middle" }, `×${Number(rate.toFixed(2))}`)),
    draw("text", { x: 0, y: y(Math.min(...ys)) + 4 }, Math.min(...ys).toFixed(3)), draw("text", { x: 0, y: y(Math.max(...ys)) + 8 }, Math.max(...ys).toFixed(3)));
}

function part(title, ...content) {
  const there = content.filter(Boolean);
  return there.length ? [make("h3", {}, title), ...there.map((one) => (typeof one === "string" ? make("p", {}, one) : one))] : [];
}

function open(cell) {
  const row = byRow.get(cell.row);
  const cost = [["parameters", cell.parameters], ["FLOPs of a step", cell.flops], ["tokens per second", cell.speed]]
    .filter(([, ratio]) => ratio !== null).map(([name, ratio]) => `${name} ${percent(ratio)}`).join(", ");
  const matched = Object.entries(cell.matched).map(([key, value]) => `${key} = ${value}`).join(", ");
  const content = make("div", { class: cell.word.replace(" ", "-") }, ...[dots(cell)].filter(Boolean));
  dialog.replaceChildren(
    make("button", { type: "button", class: "close", onclick: () => dialog.close(), "aria-label": "Close" }, "×"),
    make("h2", {}, `${row.title}: `, make("span", { class: cell.word.replace(" ", "-") }, cell.word)),
    make("p", { class: "small" }, `${data.texts[cell.text].title}, ${sizeName(cell.size)}, ${data.sizes[cell.size].steps} steps, ${Object.keys(cell.seeds).length} seeds. ${data.texts[cell.text].about}`),
    make("p", {}, cell.headline || cell.sentence || "Not run yet."),
    cell.headline && cell.sentence !== cell.headline ? make("p", { class: "small" }, cell.sentence.replace(cell.headline, "").trim()) : "",
    ...part("Claim", `${row.claim} (${row.source}; about ${row.kind})`, row.equation ? make("p", {}, make("code", {}, row.equation)) : null,
      row.deviations ? `Ours: ${row.deviations}` : null, row.untestable ? `Not testable at this size: ${row.untestable}` : null),
    ...part("Every run: loss in nats per byte", Object.keys(cell.seeds).length ? content : null),
    ...part("Learning rate", cell.files.length ? `Rate ×${cell.rate}: ${cell.rate_note}.` : null, cell.rate_curve ? rateCurve(cell.rate_curve) : null,
      cell.rate_curve ? `Loss by learning rate, as a multiple of the size's own: four seeds each on ${nameOf({ ...data.tuning, base: cell.base })}, whatever the text and size of this cell. The best rate is the vertex of a parabola. Of those tried, rates over ${cell.rate_curve.working_doublings.toFixed(1)} doublings are within 0.05 nats of the best.` : null),
    ...part("Worth", cell.worth ? cell.worth.sentence : null),
    ...part("With size", cell.trend ? cell.trend.sentence : null),
    ...part("Cost, against the baseline", cost ? `${cost}.${matched ? ` To equal parameters: ${matched}.` : ""}` : null),
    ...part("Other results", cell.others.length ? make("ul", {}, ...cell.others.map((one) => make("li", {}, one))) : null),
    ...part("Run it", make("pre", {}, cell.command)),
    ...part("Records", cell.files.length ? `${cell.files.join(", ")}; machine ${cell.machine}: ${Object.entries(data.machines[cell.machine] ?? {}).filter(([, one]) => typeof one === "string").map(([name, one]) => `${name.replace("_", " ")} ${one}`).join(", ")}` : null),
    ...part("Citation", row.bibtex ? make("pre", {}, row.bibtex) : null));
  history.replaceState(null, "", `#${cell.row}/${cell.text}/${cell.size}/${cell.base}`);
  dialog.showModal();
}

// -- the page ---------------------------------------------------------------------------------------------------------------

const s = data.summary;
const planned = data.columns.filter((column) => !judgedIn(column)).map(nameOf);
const says = `${s.rows} published ${s.rows === 1 ? "change" : "changes"} and the controls, ${s.cells} cells judged from ${s.runs} runs, against one baseline (${data.bases.modern}). Bar: the 95 % interval of the loss minus the baseline's, in nats per byte, corrected for the number of changes; left of the line is better. Grey band: ±${data.margin}, too small to matter.`;
const legend = "better, worse: the corrected interval leaves out 0, however small the difference. same: the difference is surely below the margin (by its 90 % interval). not decided: neither. open: not run yet. not testable: at this size the change changes nothing. invalid: it sees later tokens, or learned nothing. An empty cell is not planned. More columns stand to the right: worth in steps, parameters, FLOPs, speed, year.";
const below = [
  `Controls: ${s.placebo_false_words} of ${s.placebo_cells} cells of placebos, which change nothing that matters, were called better, worse or invalid; of the rulers, whose effect is known (fewer or more steps, fewer parameters), ${s.rulers_found} of ${s.ruler_cells} cells show it; ${s.controls_invalid} of ${s.control_cells} cells of positive controls, which see later tokens, are invalid. If no change did anything, chance would call about ${s.expected_false_words} of the ${s.cells} cells better or worse.`,
  "Small models, few steps, little text: a word says whether a change did something here, not whether it is good.",
  ...(planned.length ? [`Planned and not run yet: ${planned.join("; ")}.`] : []),
];
document.getElementById("atlas").replaceChildren(
  make("h1", {}, data.title),
  make("p", {}, says),
  make("div", { class: "controls" }, make("label", {}, "Search", search), slot.label, cost.label, years.label, word.label,
    make("label", { class: "check" }, controls, "controls"), count),
  make("div", { class: "wide", tabindex: "0" }, make("table", { class: "atlas" }, make("thead", {}, make("tr", {}, ...heads)), body)),
  ...[legend, ...below].map((sentence) => make("p", {}, sentence)),
  dialog);
show();
const asked = byCell.get(decodeURIComponent(location.hash.slice(1)).split("/").join("|"));
if (asked) open(asked);
