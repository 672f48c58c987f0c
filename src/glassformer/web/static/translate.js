// A source text in, its translation out; the other beams below it, and the way to the map of which word reads which.
import { link } from "/static/app.js";
import { post } from "/static/api.js";
import { chooseRun } from "/static/chooser.js";
import { field, fill, h, loading, problem, sendWithCtrlEnter } from "/static/dom.js";

export async function show(page, here) {
  const chosen = await chooseRun(page, "translate", "Translate", here, "One text per line. More beams search longer and also show what came second.", (row) => row.translates, "translates");
  if (!chosen) return null;
  const text = h("textarea", { rows: 3, placeholder: "One text per line" }, here.words.get("text") || "");
  const beams = h("input", { type: "number", min: 1, max: 100, value: "4" });
  const found = h("div", { "aria-live": "polite" });
  let turn = 0;
  async function translate(event) {
    event.preventDefault();
    const mine = ++turn; // who asks again wants that one
    fill(found, loading("Translating"));
    const texts = text.value.split("\n").map((line) => line.trim()).filter(Boolean);
    try {
      const { translations } = await post("/api/translate", { run: chosen.run, texts, beams: Number(beams.value) });
      if (mine !== turn) return;
      fill(found, translations.map((one) => h("article", { class: "answer" }, h("p", {}, one.source),
        h("p", {}, h("strong", {}, one.translation), " ", h("a", { href: link("look", chosen.run, { text: one.source }) }, "which word reads which")),
        one.alternatives.length > 0 && h("ul", {}, one.alternatives.map((other) => h("li", {}, other))))));
    } catch (error) { if (mine === turn) fill(found, problem(error)); }
  }
  page.append(h("form", { class: "form", onsubmit: translate }, field("Texts", text), field("Beams", beams), h("p", {}, h("button", {}, "Translate"))), found);
  sendWithCtrlEnter(text);
  return null;
}
