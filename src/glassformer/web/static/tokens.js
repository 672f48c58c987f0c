// A text in tokens, and each word merged step by step.
import { get } from "/static/api.js";
import { chooseRun } from "/static/chooser.js";
import { field, fill, h, problem, visible } from "/static/dom.js";

export async function show(page, here) {
  const chosen = await chooseRun(page, "tokens", "Tokens", here, "How the run's tokenizer cuts a text.");
  if (!chosen) return null;
  const text = h("textarea", { rows: 3 }, "the unhappiest transformers"), out = h("div", { "aria-live": "polite" });
  let turn = 0, asking = null, timer = null;
  async function draw() {
    const mine = ++turn;
    if (asking) asking.abort();
    asking = new AbortController();
    try {
      const found = await get("/api/tokens", { run: chosen.run, text: text.value }, asking.signal);
      if (mine === turn) fill(out, picture(found));
    } catch (error) { if (error.name !== "AbortError" && mine === turn) fill(out, problem(error)); }
  }
  // Not at every key; but at every key the answer under way is one to another text.
  text.addEventListener("input", () => { turn++; clearTimeout(timer); timer = setTimeout(draw, 200); });
  page.append(h("form", { class: "form", onsubmit: (event) => event.preventDefault() }, field("Text", text)), out);
  await draw();
  return () => { clearTimeout(timer); if (asking) asking.abort(); };
}

function picture(found) {
  const merged = found.words.filter((word) => word.steps && word.steps.length);
  return [h("p", {}, `${found.tokens.length} tokens (${found.kind}, ${found.size.toLocaleString("en")} in the vocabulary)`),
    h("p", { class: "pieces" }, found.tokens.map((one, place) => h("span", { class: `piece c${place % 4}`, title: `id ${one.id}` }, visible(one.text)))),
    merged.map((word) => h("details", { open: merged.length < 4 }, h("summary", {}, h("code", {}, visible(word.word)), ` ${word.steps.length} merges`),
      h("div", { class: "wide" }, h("table", { class: "merges" }, h("tbody", {},
        h("tr", {}, h("th", { scope: "row" }, "symbols"), word.symbols.map((one) => h("td", {}, visible(one)))),
        word.steps.map((step) => h("tr", {}, h("th", { scope: "row" }, `${step.rank}: ${visible(step.left)} + ${visible(step.right)}`),
          step.tokens.map((one, place) => h("td", { colspan: step.spans[place], class: place === step.place ? "new" : null }, visible(one)))))))))),
    found.note && h("p", { class: "small" }, found.note),
    !merged.length && !found.note && h("p", { class: "small" }, "This kind of tokenizer merges nothing: each symbol is a token.")];
}
