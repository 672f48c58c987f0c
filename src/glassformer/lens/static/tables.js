// Tables: what the chosen row reads, what each layer would say, and the scores of all heads.
import { shade } from "./colours.js";
import { headOf, percent, weight } from "./unpack.js";
import { printed } from "./maps.js";

const cell = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });

const rowOf = (kind, texts) => {
  const row = document.createElement("tr");
  row.append(...texts.map((text) => cell(kind, text)));
  return row;
};

// The chosen row in words: the keys with the most weight.
export function readOut(view, state, most = 6) {
  const row = headOf(view, state.layer, state.head).subarray(state.row * view.keys.length, (state.row + 1) * view.keys.length);
  const order = Array.from(row.keys()).sort((a, b) => row[b] - row[a] || a - b).filter((at) => weight(row[at]) > 0.0005).slice(0, most);
  const who = `${state.row} “${printed(view.tokens[state.row])}”`;
  if (!order.length) return `${who} sees nothing.`;
  return `${who} reads ${order.map((at) => `${at} “${printed(view.keys[at])}” ${percent(row[at])}`).join(", ")}.`;
}

// What the network would say after each layer at the chosen position.
export function lensTable(view, position, table) {
  const lens = view.lens, at = Math.min(position, lens.words[0].length - 1);
  const whole = document.createElement("table");
  whole.append(cell("caption", lens.words[0].length === 1 ? "Logit lens: the whole text" : `Logit lens: after ${at} “${printed(view.tokens[at])}”`));
  const body = document.createElement("tbody");
  [...lens.names.keys()].reverse().forEach((layer) => {
    const row = rowOf("th", [lens.names[layer].replace(/^blocks\.(\d+)\.after$/, "layer $1")]);
    lens.words[layer][at].forEach((word, k) => {
      const share = lens.shares[layer][at][k], one = cell("td", `${printed(word)} ${(100 * share).toFixed(0)} %`);
      const { background, ink } = shade(table, Math.round(255 * Math.sqrt(share)));
      one.style.background = background;
      one.style.color = ink;
      row.append(one);
    });
    body.append(row);
  });
  whole.append(body);
  return whole;
}

const ABOUT = {
  entropy: "nats: 0 looks at one token; e to this is over how many tokens a head spreads",
  distance: "positions away, on this text",
  first: "weight on the first token, on this text",
  previous: "weight one position back, on repeated random tokens",
  duplicate: "weight on the same token earlier, on repeated random tokens",
  induction: "weight on the token after the same token earlier, on repeated random tokens",
  copying: "how far it raises the tokens it looks at, in standard deviations",
};

// What a head is, in a word, by its most pronounced score; where none stands out, over how many tokens it spreads. Chance is about one over the visible tokens.
const WORDS = [["induction", 0.3, (value) => `induction ${value.toFixed(2)}`], ["previous", 0.4, () => "previous token"], ["duplicate", 0.3, () => "same token"], ["first", 0.5, () => "first token"]];
export function headWord(table, layer, head) {
  const found = table?.rows.find((row) => row[0] === layer && row[1] === head);
  if (!found) return null;
  const known = WORDS.map(([name, least, word]) => [found[2 + table.columns.indexOf(name)], least, word, table.columns.includes(name)])
    .filter(([value, least, , there]) => there && value !== null && value >= least);
  if (known.length) return { word: known[0][2](known[0][0]) };
  const entropy = found[2 + table.columns.indexOf("entropy")];
  if (entropy === null || !table.columns.includes("entropy")) return null;
  const tokens = Math.max(1, Math.round(Math.exp(entropy)));
  return { word: tokens === 1 ? "on 1 token" : `over ${tokens} tokens` };
}

// The head that says most about what the model has learned: the strongest of the first kind there is.
export function mostTelling(table) {
  for (const [name, least] of WORDS) {
    const column = table.columns.indexOf(name);
    const best = column < 0 ? null : table.rows.filter((row) => row[2 + column] !== null).sort((a, b) => b[2 + column] - a[2 + column])[0];
    if (best && best[2 + column] >= least) return { layer: best[0], head: best[1] };
  }
  const entropy = 2 + table.columns.indexOf("entropy"); // none stands out: the most pointed one
  const [layer, head] = [...table.rows].sort((a, b) => (a[entropy] ?? Infinity) - (b[entropy] ?? Infinity))[0];
  return { layer, head };
}

// All heads; a click on a column sorts, a click on a row (or Enter) chooses the head.
export function headTable(view, choose) {
  const whole = document.createElement("table");
  const columns = ["layer", "head", ...view.table.columns];
  const head = document.createElement("tr"), body = document.createElement("tbody");
  const rows = view.table.rows.map((values) => {
    const row = rowOf("td", values.map((value, at) => (value === null ? "" : at < 2 ? value : value.toFixed(3))));
    row.tabIndex = 0;
    row.dataset.layer = values[0];
    row.dataset.head = values[1];
    row.addEventListener("click", () => choose(values[0], values[1]));
    row.addEventListener("keydown", (event) => event.key === "Enter" && choose(values[0], values[1]));
    return { row, values };
  });
  columns.forEach((name, at) => {
    const title = cell("th", ""), button = Object.assign(cell("button", name), { type: "button", title: ABOUT[name] ?? "" });
    title.scope = "col";
    button.addEventListener("click", () => {
      const down = title.getAttribute("aria-sort") !== "descending";
      head.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      title.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.sort((a, b) => (down ? -1 : 1) * ((a.values[at] ?? -Infinity) - (b.values[at] ?? -Infinity)));
      body.append(...rows.map(({ row }) => row));
    });
    title.append(button);
    head.append(title);
  });
  body.append(...rows.map(({ row }) => row));
  const top = document.createElement("thead");
  top.append(head);
  whole.append(cell("caption", "Heads"), top, body);
  const about = Object.assign(document.createElement("details"), { className: "about-columns" }), list = document.createElement("ul");
  list.append(...view.table.columns.filter((name) => ABOUT[name]).map((name) => cell("li", `${name}: ${ABOUT[name]}`)));
  about.append(cell("summary", "What the columns mean"), list);
  const both = document.createElement("div");
  both.append(whole, about);
  return both;
}
