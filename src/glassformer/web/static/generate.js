// Text as it is generated; afterwards each token with its probability and what stood beside it.
import { lines } from "/static/api.js";
import { chooseRun } from "/static/chooser.js";
import { field, fill, h, percent, problem, sendWithCtrlEnter, visible } from "/static/dom.js";

export async function show(page, here) {
  const chosen = await chooseRun(page, "generate", "Generate", here, "The model writes on. The same seed gives the same text.", (row) => row.generates, "writes text");
  if (!chosen) return null;
  const input = (type, value, more = {}) => h("input", { type, value, ...more });
  const prompt = h("textarea", { rows: 3 }, "");
  const fields = {
    max_new_tokens: input("number", "120", { min: 0, max: 5000 }), temperature: input("number", "0.8", { min: 0, step: 0.1 }),
    top_k: input("number", "", { min: 1, placeholder: "all" }), top_p: input("number", "", { min: 0, max: 1, step: 0.05, placeholder: "all" }),
    repetition_penalty: input("number", "1", { min: 0.1, step: 0.1 }), seed: input("number", "0"),
  };
  const output = h("div", { class: "output", "aria-live": "polite", tabindex: 0, role: "region", "aria-label": "Generated text" });
  const detail = h("div", { class: "detail" }), said = h("div");
  const go = h("button", {}, "Generate"), end = h("button", { type: "button", class: "plain", disabled: true }, "Stop");
  let stopping = null;

  async function run(event) {
    event.preventDefault();
    const values = { run: chosen.run, prompt: prompt.value };
    for (const [name, control] of Object.entries(fields)) if (control.value !== "") values[name] = Number(control.value);
    stopping = new AbortController();
    go.disabled = true; end.disabled = false;
    const text = document.createTextNode("");
    fill(output, h("span", { class: "prompt" }, prompt.value), text); fill(detail); fill(said);
    try {
      await lines("/api/generate", values, (line) => {
        if (line.error) fill(said, problem(new Error(line.error)));
        else if (line.piece !== undefined) text.data += line.piece;
        else drawTokens(line);
      }, stopping.signal);
    } catch (error) { if (error.name !== "AbortError") fill(said, problem(error)); }
    go.disabled = false; end.disabled = true;
  }

  function drawTokens({ sample, tokens }) {
    if (!tokens.length) return;
    let at = 0;
    const spans = tokens.map((one, place) => h("span", { class: `token p${Math.min(9, Math.floor(one.probability * 10))}`,
      onclick: () => pick(place) }, one.token));
    function pick(place) {
      spans[at].classList.remove("picked"); at = Math.max(0, Math.min(spans.length - 1, place)); spans[at].classList.add("picked");
      const one = tokens[at];
      fill(detail, h("h2", {}, "Token ", h("code", {}, visible(one.token))), h("p", {}, `Probability ${percent(one.probability)}. At this place the model thought of:`),
        h("table", {}, h("tbody", {}, one.alternatives.map((other) => h("tr", { class: other.token === one.token ? "chosen" : null },
          h("td", {}, h("code", {}, visible(other.token))), h("td", { class: "number" }, percent(other.probability)),
          h("td", {}, h("meter", { min: 0, max: 1, value: other.probability, "aria-hidden": true })))))));
    }
    fill(output, h("span", { class: "prompt" }, sample.prompt), spans);
    output.onkeydown = (event) => { const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key]; if (by) { event.preventDefault(); pick(at + by); } };
    fill(said, h("p", { class: "small" }, `${sample.tokens} tokens, ended by ${sample.ended}. Darker: more probable. Choose a token, or use the arrow keys.`));
    pick(0);
  }
  end.addEventListener("click", () => stopping && stopping.abort());
  page.append(h("form", { class: "form", onsubmit: run }, field("Prompt", prompt),
    h("div", { class: "row" }, Object.entries(fields).map(([name, control]) => field(name.replace(/_/g, " "), control))),
    h("p", { class: "actions" }, go, end)), output, said, detail);
  sendWithCtrlEnter(prompt);
  return () => stopping && stopping.abort();
}
