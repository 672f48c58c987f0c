// Curves of several runs in one picture, and the settings in which they differ.
import { link } from "/static/app.js";
import { get } from "/static/api.js";
import { empty, fill, h, number, setting } from "/static/dom.js";
import { curveName, curvePlot } from "/static/plot.js";

export async function show(page, { words }) {
  const names = words.getAll("run"), folder = await get("/api/folder");
  const rows = folder.runs.filter((row) => names.includes(row.name));
  if (rows.length < 1) { fill(page, h("h1", {}, "Together"), empty("Choose runs in the list first.")); return null; }
  const key = `validation_${rows[0].metric}`, differing = folder.differing.filter((one) => new Set(rows.map((row) => JSON.stringify(row.settings[one]))).size > 1);
  const plot = curvePlot(async (low, high) => (await Promise.all(rows.map(async (row, place) => {
    const { curves } = await get("/api/run/curves", { run: row.name, low, high, points: 800, key: ["loss", key] });
    return [["loss", false], [key, true]].filter(([one]) => curves[one]).map(([one, dashed]) => ({ label: `${row.name} ${one}`, name: `${row.name}, ${curveName(one)}`, ...curves[one], dashed, color: place, noisy: !dashed }));
  }))).flat(), { unit: rows[0].metric, label: `Curves of ${names.join(", ")}`, height: 360, levels: () => shared(rows) });
  fill(page, h("h1", {}, "Together"), plot.element, h("div", { class: "wide" }, h("table", {},
    h("thead", {}, h("tr", {}, ["run", key, ...differing].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, h("td", {}, h("a", { href: link("run", row.name) }, row.name)), h("td", {}, number(row[key])),
      differing.map((one) => h("td", {}, setting(row.settings[one])))))))),
  h("p", { class: "small" }, "One run of each is no verdict: a study with several seeds says whether a difference is more than noise."));
  return () => plot.close();
}

// The best baseline, where all runs have the same one: a level of other data says nothing here.
function shared(rows) {
  const [first, ...others] = rows.map((row) => row.baseline);
  return first && others.every((one) => one && one.name === first.name && one.value === first.value) ? { [first.name]: first.value } : {};
}
