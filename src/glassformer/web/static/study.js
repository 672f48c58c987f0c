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
  function drawTrials(rows) {
    if (!rows.length) { fill(trials, h("p", { class: "state" }, "No trial has begun yet.")); return; }
    const groups = new Map();
    for (const one of rows) {
      const variant = one.name.replace(/^(?:.*\/)?trials\//, "").split("/").slice(0, -1).join("/");
      groups.set(variant, [...(groups.get(variant) || []), one]);
    }
    const unfinished = rows.filter((one) => one.status !== "finished").length;
    const summary = `Trials: ${rows.length - unfinished} of ${rows.length} finished`;
    const open = trials.querySelector("details")?.open ?? unfinished > 0;
    fill(trials, h("details", { open }, h("summary", {}, summary), h("table", {}, h("tbody", {}, [...groups].map(([variant, list]) =>
      h("tr", {}, h("th", { scope: "row" }, variant), h("td", {}, list.map((one) => {
        const seed = one.name.split("/").at(-1), share = one.steps ? Math.min(1, one.step / one.steps) : 0;
        return h("a", { class: `trial ${one.status}`, href: link("run", one.name), title: `${seed}: ${one.status}, step ${number(one.step)}`,
          "aria-label": `${variant} ${seed}: ${one.status}` }, one.status === "running" ? `${Math.round(100 * share)} %` : seed.replace("seed-", ""));
      }))))))));
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
