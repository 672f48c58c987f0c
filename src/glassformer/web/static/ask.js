// Questions: answers with their confidence, alternatives, or "I don't know".
import { post } from "/static/api.js";
import { chooseRun } from "/static/chooser.js";
import { badge, field, fill, h, loading, number, percent, problem, sendWithCtrlEnter } from "/static/dom.js";

export async function show(page, here) {
  const chosen = await chooseRun(page, "ask", "Ask", here, "The confidence is the probability of the whole answer with its end, or of the label; of several labels, that all are right.", (row) => row.answers, "answers questions, gives texts a label or predicts a number");
  if (!chosen) return null;
  const text = h("textarea", { rows: 3, placeholder: "One per line" });
  const below = h("input", { type: "range", min: 0, max: 1, step: 0.01, value: "0" }), shown = h("output", {}, "always answers");
  below.addEventListener("input", () => { shown.textContent = Number(below.value) ? `"I don't know" below ${percent(Number(below.value))}` : "always answers"; });
  const answers = h("div", { "aria-live": "polite" });
  let turn = 0;
  async function ask(event) {
    event.preventDefault();
    const mine = ++turn; // who asks again wants the answer to that
    fill(answers, loading("Asking"));
    const questions = text.value.split("\n").map((line) => line.trim()).filter(Boolean);
    try {
      const found = await post("/api/ask", { run: chosen.run, questions, abstain_below: Number(below.value) || null });
      if (mine !== turn) return;
      fill(answers, found.answers.map((one) => h("article", { class: "answer" }, h("p", {}, one.question),
        h("p", {}, h("strong", {}, one.answer), " ", one.abstained && badge("not sure"), one.unlike && badge("unlike anything seen"), one.confidence !== null && [` ${one.several ? "all of it right: " : ""}${percent(one.confidence)} `, h("meter", { min: 0, max: 1, value: one.confidence, "aria-label": "confidence" })],
          one.low !== undefined && ` 90 % of such numbers: ${number(one.low)} to ${number(one.high)}`),
        one.alternatives.length > 0 && h("ul", {}, one.alternatives.map((other) => h("li", {}, `${other.answer || "nothing"} (${percent(other.confidence)})`))))));
    } catch (error) { if (mine === turn) fill(answers, problem(error)); }
  }
  const [what, verb] = { labels: ["Texts", "Classify"], multilabel: ["Texts", "Classify"], regression: ["Texts", "Predict"] }[chosen.row?.objective] || ["Questions", "Ask"];
  page.append(h("form", { class: "form", onsubmit: ask }, field(what, text), chosen.row?.abstains && h("div", { class: "field" }, h("label", {}, "Abstain ", below), shown), h("p", {}, h("button", {}, verb))), answers);
  sendWithCtrlEnter(text);
  return null;
}
