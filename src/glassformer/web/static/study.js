// One study: its report's page, verdicts first, and every trial as it runs.
import { link } from "/static/app.js";
import { events, get, post } from "/static/api.js";
import { drawBlocks } from "/static/blocks.js";
import { badge, fill, h, number, problem, sentence } from "/static/dom.js";

export async function show(page, { name }) {
  let study = await get("/api/study", { study: name });
  const trials = h("div"), report = h("div"), head = h("div"), said = h("div");

  async function act(path) {
    try { await post(path, { name }); fill(said); study = await get("/api/study", { study: name }); drawHead(); } catch (error) { fill(said, problem(error)); }
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
  function drawReport() {
    if (study.damaged) { fill(report, h("p", { class: "banner", role: "alert" }, badge("damaged"), " ", sentence(study.damaged))); return; }
    const [blocks, first] = [study.page.blocks, study.page.blocks.findIndex((block) => block.kind === "verdicts")];
    fill(report, study.page.tainted && drawBlocks([study.page.tainted]), drawBlocks(blocks.slice(0, first + 1)), trials, drawBlocks(blocks.slice(first + 1)), h("p", { class: "small" }, study.page.footer));
  }
  drawHead(); drawTrials(study.trials); drawReport();
  fill(page, head, said, report, study.damaged && trials);
  return events("/api/study/events", { study: name }, async (news) => {
    if (news.error) { fill(said, problem(new Error(news.error))); return; }
    if (news.trials) drawTrials(news.trials);
    if (!news.changed && !news.reload) return;
    try { study = await get("/api/study", { study: name }); drawHead(); drawTrials(study.trials); drawReport(); fill(said); } catch (error) { fill(said, problem(error)); }
  });
}
