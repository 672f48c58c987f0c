// One study: its report's page, verdicts first, and every trial as it runs.
import { link } from "/static/app.js";
import { events, get, order, post } from "/static/api.js";
import { drawBlocks } from "/static/blocks.js";
import { badge, fill, h, number, problem, sentence } from "/static/dom.js";

export async function show(page, { name }) {
  let study = await get("/api/study", { study: name });
  const trials = h("div"), above = h("div"), below = h("div"), head = h("div"), said = h("div"), ask = order();
  let acting = false, told = 0;

  async function act(path) {
    if (acting) return; // pressed again before the answer
    acting = true;
    try { await post(path, { name }); await again(); } catch (error) { fill(said, problem(error)); }
    acting = false;
  }
  // Asked after every change: an answer that was overtaken must not bring back how the study stood before.
  async function again() {
    const fits = ask(), before = told;
    try {
      const found = await get("/api/study", { study: name });
      if (!fits()) return;
      study = found;
    } catch (error) { if (fits()) fill(said, problem(error)); return; }
    drawHead(); drawReport(); fill(said);
    if (told === before) drawTrials(study.trials); // else the stream has told of them since
  }
  function drawHead() {
    const going = study.started && study.started.alive;
    fill(head, h("h1", {}, study.page ? study.page.title : `Study ${name}`), study.page && h("p", { class: "subtitle" }, study.page.subtitle),
      h("p", { class: "actions" }, going && h("button", { type: "button", onclick: () => act("/api/stop") }, "Stop"),
        study.started && !going && h("button", { type: "button", onclick: () => act("/api/resume") }, "Go on")));
  }
  // Boxes that are there are changed, not replaced: one that is replaced under the pointer cannot be pressed.
  const boxes = new Map(), summary = h("summary"), table = h("tbody"), fold = h("details", {}, summary, h("table", {}, table));
  const variantOf = (one) => one.name.replace(/^(?:.*\/)?trials\//, "").split("/").slice(0, -1).join("/");
  function drawTrials(rows) {
    if (!rows.length) { fill(trials, h("p", { class: "state" }, "No trial has begun yet.")); return; }
    const unfinished = rows.filter((one) => one.status !== "finished").length;
    summary.textContent = `Trials: ${rows.length - unfinished} of ${rows.length} finished`;
    if (!fold.isConnected && !boxes.size) fold.open = unfinished > 0;
    if (rows.length !== boxes.size || rows.some((one) => !boxes.has(one.name))) {
      boxes.clear();
      rows.forEach((one) => boxes.set(one.name, h("a", { href: link("run", one.name) })));
      fill(table, [...new Set(rows.map(variantOf))].map((variant) => h("tr", {}, h("th", { scope: "row" }, variant),
        h("td", {}, rows.filter((one) => variantOf(one) === variant).map((one) => boxes.get(one.name))))));
    }
    rows.forEach((one) => {
      const box = boxes.get(one.name), seed = one.name.split("/").at(-1), share = one.steps ? Math.min(1, one.step / one.steps) : 0;
      box.className = `trial ${one.status}`;
      box.title = `${seed}: ${one.status}, step ${number(one.step)}`;
      box.setAttribute("aria-label", `${variantOf(one)} ${seed}: ${one.status}`);
      box.textContent = one.status === "running" ? `${Math.round(100 * share)} %` : seed.replace("seed-", "");
    });
    if (fold.parentNode !== trials) fill(trials, fold);
  }
  // Around the trials, which stay where they are.
  function drawReport() {
    if (study.damaged) { fill(below); fill(above, h("p", { class: "banner", role: "alert" }, badge("damaged"), " ", sentence(study.damaged))); return; }
    const [blocks, first] = [study.page.blocks, study.page.blocks.findIndex((block) => block.kind === "verdicts")];
    fill(above, study.page.tainted && drawBlocks([study.page.tainted]), drawBlocks(blocks.slice(0, first + 1)));
    fill(below, drawBlocks(blocks.slice(first + 1)), h("p", { class: "small" }, study.page.footer));
  }
  drawHead(); drawTrials(study.trials); drawReport();
  fill(page, head, said, above, trials, below);
  return events("/api/study/events", { study: name }, (news) => {
    if (news.error) { fill(said, problem(new Error(news.error))); return; }
    if (news.trials) { told++; drawTrials(news.trials); }
    if (news.changed || news.reload) again();
  });
}
