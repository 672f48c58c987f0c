// The list of runs: what differs, how each stands, search and sort; and the studies of the folder.
import { link } from "/static/app.js";
import { events, get, order } from "/static/api.js";
import { badge, empty, fill, h, number, problem, setting, spark } from "/static/dom.js";

export async function show(page) {
  let folder = await get("/api/folder"), sort = ["name", 1], chosen = new Set(), differing = [], drawn = "";
  const search = h("input", { type: "search", placeholder: "name, status or setting", "aria-label": "Search runs", oninput: () => draw() });
  const trials = h("input", { type: "checkbox", onchange: () => draw() }), more = h("input", { type: "checkbox", onchange: () => draw() });
  const body = h("div"), beside = h("p", { class: "actions" });
  fill(page, h("h1", {}, "Runs"), h("p", { class: "subtitle" }, folder.folder),
    h("div", { class: "tools" }, search, h("label", {}, trials, " trials of studies too"), h("label", {}, more, " every setting that differs"), beside), body);

  const inStudy = (row) => row.study;
  const value = (row, key) => (key === "value" ? row[`validation_${row.metric}`] : key in row ? row[key] : row.settings[key]);

  function rows() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = folder.runs.filter((row) => (trials.checked || words.length || !inStudy(row)) &&
      words.every((word) => `${row.name} ${row.status} ${Object.entries(row.settings).map(([key, one]) => `${key}=${one}`).join(" ")}`.toLowerCase().includes(word)));
    const [key, way] = sort;
    return found.sort((a, b) => {
      const one = value(a, key), two = value(b, key);
      if (one === two) return 0;
      if (one === null || one === undefined) return 1;
      if (two === null || two === undefined) return -1;
      return way * (typeof one === "number" && typeof two === "number" ? one - two : String(one).localeCompare(String(two), "en", { numeric: true }));
    });
  }

  function heading(key, text, numeric) {
    const on = sort[0] === key;
    return h("th", { scope: "col", class: numeric ? `number ${key}` : key, "aria-sort": on ? (sort[1] > 0 ? "ascending" : "descending") : "none" },
      h("button", { type: "button", class: "sort", onclick: () => { sort = [key, on ? -sort[1] : 1]; draw(); } }, text, on ? (sort[1] > 0 ? " ▲" : " ▼") : ""));
  }

  function row(one) {
    const tick = h("input", { type: "checkbox", checked: chosen.has(one.name), "aria-label": `Choose ${one.name}`,
      onchange: (event) => { if (event.target.checked) chosen.add(one.name); else chosen.delete(one.name); drawBeside(); } });
    return h("tr", { "data-run": one.name }, h("td", { class: "tick" }, tick), h("td", { class: "name" }, h("a", { href: link("run", one.name) }, one.name),
      one.ancestry.length > 0 && h("span", { class: "interval" }, `from ${one.ancestry.map((path) => path.split("/").at(-1)).join(" ← ")}`)),
    h("td", { class: "status" }), h("td", { class: "number step" }), h("td", { class: "number value" }), h("td", { class: "data" }, one.data || ""), h("td", { class: "curve" }), differing.map((key) => h("td", {}, setting(one.settings[key]))));
  }
  // What changes while a run trains.
  function drawProgress(line, one) {
    const at = one.steps && one.status === "running" ? `${number(one.step)} of ${number(one.steps)}` : number(one.step);
    fill(line.querySelector(".status"), badge(one.status), one.tainted && badge("tainted"));
    line.querySelector(".step").textContent = at;
    fill(line.querySelector(".value"), number(value(one, "value")), value(one, "value") !== null && folder.runs.some((other) => other.metric !== one.metric) && ` ${one.metric}`,
      one.baseline && h("span", { class: "interval" }, `${one.baseline.name} ${number(one.baseline.value)}`));
    fill(line.querySelector(".curve"), spark(one.curve, `Training loss of ${one.name}`));
  }

  function drawBeside() {
    const names = [...chosen];
    fill(beside, names.length > 1 && h("a", { class: "button", href: link("compare", "", names.map((name) => ["run", name])) }, `Curves of ${names.length} together`),
      names.length === 2 && h("a", { class: "button", href: link("look", names[0], { beside: names[1] }) }, "Look side by side"));
  }

  function draw() {
    const found = rows();
    differing = !more.checked ? [] : folder.differing.filter((key) => new Set(found.map((one) => JSON.stringify(one.settings[key]))).size > 1);
    const metrics = [...new Set(folder.runs.map((one) => one.metric))];
    const hidden = folder.runs.filter(inStudy).length;
    const started = folder.started.filter((one) => !folder.runs.some((run) => run.name === one.name))
      .map((one) => ({ name: one.name, kind: one.kind, alive: one.alive, state: one.state, said: one.said.trim().split("\n").at(-1) }));
    // Rows that are there are changed, not replaced: a link or a box that is replaced under the pointer cannot be pressed.
    const frame = JSON.stringify([found.map((one) => [one.name, one.ancestry, differing.map((key) => one.settings[key] ?? null)]), differing, metrics, hidden, sort,
      search.value, trials.checked, more.checked, folder.studies, folder.runs.length, started]);
    if (frame !== drawn) drawFrame(found, metrics, hidden, started);
    drawn = frame;
    body.querySelectorAll("[data-run]").forEach((line, place) => drawProgress(line, found[place]));
  }
  function drawFrame(found, metrics, hidden, started) {
    fill(body,
      folder.studies.length > 0 && h("section", { "aria-label": "Studies" }, h("h2", {}, "Studies"),
        h("ul", { class: "plain-list" }, folder.studies.map((name) => h("li", {}, h("a", { href: link("study", name) }, name))))),
      started.filter((one) => one.alive).map((one) => h("p", { class: "banner note", role: "note" }, badge(one.state === "waiting" ? "waiting" : "starting"), ` ${one.name}: ${one.said}`)),
      started.filter((one) => !one.alive && one.kind === "run").map((one) => h("p", { class: "banner", role: "alert" }, badge("not started"), ` ${one.name}: ${one.said}`)),
      found.length > 0 && [h("h2", {}, `${found.length} ${found.length === 1 ? "run" : "runs"}`),
        h("div", { class: "wide runs", tabindex: 0, role: "region", "aria-label": "Table of runs" }, h("table", {},
          h("thead", {}, h("tr", {}, h("th", { class: "tick" }, h("span", { class: "unseen" }, "Choose")), heading("name", "run"), heading("status", "status"), heading("step", "step", true),
            heading("value", `validation ${metrics.length === 1 ? metrics[0] : ""}`, true), heading("data", "data"), h("th", { scope: "col" }, "training loss"), differing.map((key) => heading(key, key)))),
          h("tbody", {}, found.map(row))))],
      !folder.runs.length && !folder.studies.length && empty(h("p", {}, "No runs in this folder yet."), h("p", {}, h("a", { class: "button", href: link("new") }, "Start one"))),
      folder.runs.length > 0 && !found.length && search.value && empty(h("p", {}, "No run matches the search.")),
      !trials.checked && !search.value && hidden > 0 && h("p", { class: "small" }, `${hidden} trials of studies are not listed.`));
    drawBeside();
  }
  draw();
  const ask = order();
  return events("/api/folder/events", {}, async (news) => {
    if (!news.changed && !news.reload) return;
    const fits = ask();
    try {
      const now = await get("/api/folder");
      if (!fits()) return;
      folder = now;
      draw();
    } catch (error) { if (fits()) { drawn = ""; fill(body, problem(error)); } }
  });
}
