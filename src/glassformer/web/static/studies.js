// The studies of the folder.
import { link } from "/static/app.js";
import { get } from "/static/api.js";
import { empty, fill, h } from "/static/dom.js";

export async function show(page) {
  const folder = await get("/api/folder");
  const going = (name) => folder.started.some((one) => one.name === name && one.alive);
  fill(page, h("h1", {}, "Studies"), h("p", { class: "subtitle" }, "A base recipe, single changes, seeds: a verdict for each change."),
    folder.studies.length ? h("ul", { class: "cards" }, folder.studies.map((name) => h("li", {}, h("a", { href: link("study", name) }, name),
      h("span", { class: "small" }, going(name) ? " running" : ` ${folder.runs.filter((run) => run.study === name).length} runs`))))
      : empty(h("p", {}, "No studies in this folder yet."), h("p", {}, h("a", { class: "button", href: link("new", "", { study: "yes" }) }, "Start one"))));
}
