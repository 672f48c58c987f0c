// Which run: a list to choose from, for the parts that work on one.
import { link } from "/static/app.js";
import { get } from "/static/api.js";
import { empty, fill, h } from "/static/dom.js";

// The run that the address names, or the newest that fits; draws the list above the part. Gives null when there is none.
// ``fits(row)``: which runs can do what the part does; ``does``: what that is, where there is none.
export async function chooseRun(page, part, title, { name, words }, subtitle, fits = () => true, does = "can do that") {
  const folder = await get("/api/folder");
  const usable = folder.runs.filter((row) => row.status !== "damaged" && (fits(row) || row.name === name));
  const own = usable.filter((row) => !row.study);
  fill(page, h("h1", {}, title), h("p", { class: "subtitle" }, subtitle));
  if (!usable.length) {
    page.append(empty(h("p", {}, folder.runs.some((row) => row.status !== "damaged") ? `No run of this folder ${does}.` : "No run to work with in this folder yet."), h("p", {}, h("a", { class: "button", href: link("new") }, "Start one"))));
    return null;
  }
  const run = name || (own.length ? own : usable).reduce((newest, row) => (row.changed > newest.changed ? row : newest)).name;
  const list = h("select", { id: "run", onchange: () => { location.hash = link(part, list.value, Object.fromEntries(words)); } },
    usable.map((row) => h("option", { value: row.name }, row.name)));
  list.value = run;
  page.append(h("div", { class: "tools" }, h("label", { for: "run" }, "Run"), list, h("a", { href: link("run", run) }, "its page")));
  return { run, row: usable.find((row) => row.name === run), others: usable.map((row) => row.name) };
}
