// One token through the model, step by step. What is drawn is drawn by the code of `glassformer look --walk` (lens/walk.js).
import { post, get } from "/static/api.js";
import { chooseRun } from "/static/chooser.js";
import { field, fill, h, loading, problem, sendWithCtrlEnter } from "/static/dom.js";
import { drawWalk } from "/static/lens/walk.js";

export async function show(page, here) {
  const chosen = await chooseRun(page, "walk", "Walk through", here, "The tensors of one token on their way from its embedding to the logits.");
  if (!chosen) return null;
  const text = h("textarea", { rows: 2 }, here.words.get("text") || (await get("/api/look/text", { run: chosen.run })).text);
  const home = h("div", { class: "walk" }, loading("Running the model")), said = h("div");
  let turn = 0;
  async function walk(position = -1) {
    const mine = ++turn;
    try {
      const found = await post("/api/walk", { run: chosen.run, text: text.value, position });
      if (mine !== turn) return;
      fill(said);
      drawWalk(home, found, walk);
    } catch (error) { if (mine === turn) { fill(said, problem(error)); fill(home); } }
  }
  page.append(h("form", { class: "form", onsubmit: (event) => { event.preventDefault(); walk(); } }, field("Text", text), h("button", {}, "Walk through")), said, home);
  sendWithCtrlEnter(text);
  walk();
  return () => { turn = -1; };
}
