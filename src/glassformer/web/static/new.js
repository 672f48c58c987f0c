// A new run or study from a recipe: a form from its schema, checked as one types, its cost before it starts.
import { link } from "/static/app.js";
import { get, post, upload } from "/static/api.js";
import { recipeForm } from "/static/form.js";
import { field, fill, h, loading, number, problem, sendWithCtrlEnter } from "/static/dom.js";

export async function show(page, { words }) {
  const [all, folder] = await Promise.all([get("/api/recipes"), get("/api/folder")]);
  const list = h("select", {}, h("optgroup", { label: "Recipes" }, all.recipes.map((one) => h("option", { value: one.name }, one.name))),
    h("optgroup", { label: "Recipes of runs here" }, folder.runs.filter((run) => run.status !== "damaged").map((run) => h("option", { value: `run:${run.name}` }, run.name))));
  list.value = words.get("base") || "docstrings-char";
  // A text of one's own is one more entry of the list: the recipe that `glassformer train FILE` would choose.
  const own = h("optgroup", { label: "My text" }), said = h("div", { "aria-live": "polite" });
  const file = h("input", { type: "file", accept: ".txt,.text,.md,.rst,.tex,.log,.gz,.csv,.tsv,.jsonl,.ndjson,.parquet", onchange: () => file.files.length && take(file.files[0]) });
  const path = h("input", { placeholder: "/home/me/notes.txt", onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); take(path.value.trim()); } } });
  async function take(text) {
    if (!text) return;
    fill(said, loading("Reading the text"));
    try {
      const place = typeof text === "string" ? text : (await upload(text)).path, base = `text:${place}`;
      await get("/api/recipe/schema", { base }); // refused here, with a sentence, if it is no text
      list.prepend(own); own.append(h("option", { value: base }, place.split("/").at(-1)));
      list.value = base;
      fill(said);
      await load();
    } catch (error) { fill(said, problem(error)); }
  }
  const about = h("p", { class: "small" }), box = h("div", {}, loading("Reading the recipe")), verdict = h("div", { "aria-live": "polite", class: "verdict-line" }), cost = h("div", { "aria-live": "polite" });
  const name = h("input", { required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*" }), vary = h("textarea", { rows: 2, placeholder: "model.positions=alibi,sinusoidal" }), seeds = h("input", { type: "number", min: 2, value: "4" });
  const study = h("input", { type: "checkbox", checked: words.has("study"), onchange: () => { more.hidden = !study.checked; check(); } });
  const more = h("div", { class: "row" }, field("What is varied, one key per line", vary), field("Seeds", seeds));
  more.hidden = !study.checked;
  const go = h("button", { disabled: true }, "Start"), price = h("button", { type: "button", class: "plain", onclick: () => count(true) }, "What would it cost?");
  let form = null, turn = 0, loads = 0, timer = 0, accepted = false, starting = false;

  const free = (base) => { const used = new Set([...folder.runs.map((run) => run.name), ...folder.studies, ...folder.started.map((one) => one.name)]); let at = base, next = 2; while (used.has(at)) at = `${base}-${next++}`; return at; };
  const asked = () => ({ base: list.value, set: form ? form.changes() : {}, name: name.value.trim(),
    ...(study.checked ? { vary: vary.value.split("\n").map((line) => line.trim()).filter(Boolean), seeds: Number(seeds.value) } : {}) });

  // Start begins what was accepted, and once.
  const allow = () => { go.disabled = starting || !accepted; };
  async function load() {
    const mine = ++loads; // another recipe may be chosen before this one is here
    form = null;
    hold();
    fill(box, loading("Reading the recipe")); fill(verdict); fill(cost);
    about.textContent = (all.recipes.find((one) => one.name === list.value) || { about: list.value.startsWith("run:") ? "The recipe of a run in this folder." : "" }).about;
    name.value = free(list.value.replace(/^run:/, "").replace(/^text:(.*\/)?/, "").replace(/^([^.]+)\..*$/, list.value.startsWith("text:") ? "$1" : "$&").replace(/[^A-Za-z0-9._-]+/g, "-"));
    try {
      const found = await get("/api/recipe/schema", { base: list.value });
      if (mine !== loads) return;
      form = recipeForm(found.schema, found.recipe, check);
      fill(box, form.element);
      if (list.value.startsWith("text:")) about.textContent = found.recipe.about;
      await now();
    } catch (error) { if (mine === loads) fill(box, problem(error)); }
  }
  // What was accepted before the change says nothing about what stands there now: answers under way are stale, and nothing starts unchecked.
  function hold() { turn++; clearTimeout(timer); accepted = false; allow(); }
  function check() { hold(); timer = setTimeout(now, 150); }
  async function now() {
    if (!form) return; // it is checked once it is here
    const mine = ++turn;
    fill(cost);
    try {
      const found = await post("/api/recipe/check", asked());
      if (mine !== turn) return;
      accepted = !study.checked || found.changes.length > 0;
      allow();
      fill(verdict, h("p", { class: "banner note", role: "note" }, study.checked ? `The plan is accepted: ${found.changes.length} ${found.changes.length === 1 ? "change" : "changes"} and the base recipe, ${number(asked().seeds * (found.changes.length + 1))} runs in all.` : "The recipe is accepted."));
      count();
    } catch (error) { if (mine === turn) fill(verdict, problem(error)); }
  }
  async function count(timed = false) {
    const mine = turn;
    fill(cost, loading(timed ? "Timing a few steps" : "Reading the data and counting"));
    try {
      const found = await post("/api/recipe/cost", { ...asked(), timed });
      if (mine !== turn) return;
      fill(cost, h("p", {}, `${number(found.runs)} ${found.runs === 1 ? "run" : "runs"}${found.time ? `, about ${found.time} of computing on this machine` : ""}, ${found.flops.toExponential(2)} FLOPs in all.`),
        h("dl", { class: "facts" }, found.facts.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value)))));
    } catch (error) { if (mine === turn) fill(cost, problem(error)); }
  }
  async function start(event) {
    event.preventDefault();
    starting = true; // a change that is accepted meanwhile does not make it startable twice
    allow();
    try {
      const values = asked();
      await post("/api/start", values);
      fill(verdict, h("p", { class: "banner note", role: "status" }, `${values.name} is starting …`));
      await waitFor(values.name, study.checked);
    } catch (error) { starting = false; allow(); fill(verdict, problem(error)); }
  }
  // The folder appears once the data are ready; until then the log says what happens.
  async function waitFor(wanted, isStudy) {
    for (;;) {
      const now_ = await get("/api/folder"), one = now_.started.find((each) => each.name === wanted);
      if (!page.isConnected) return; // who has gone elsewhere stays there
      if (isStudy ? now_.studies.includes(wanted) : now_.runs.some((run) => run.name === wanted)) { location.hash = link(isStudy ? "study" : "run", wanted); return; }
      const last = one ? one.said.trim().split("\n").at(-1) : "";
      if (one && !one.alive) throw new Error(last || "It ended before it began.");
      fill(verdict, h("p", { class: "banner note", role: "status" }, `${wanted} is ${one && one.state === "waiting" ? "waiting" : "starting"} … ${last}`));
      await new Promise((done) => setTimeout(done, 500));
    }
  }
  list.addEventListener("change", load);
  vary.addEventListener("input", check); seeds.addEventListener("input", check);
  fill(page, h("h1", {}, "New"), h("p", { class: "subtitle" }, "A run, or a study of changes. It goes on when this page is closed."),
    h("form", { class: "form", onsubmit: start }, h("fieldset", {}, h("legend", {}, "Train on my text"), h("div", { class: "row" }, field("Upload a text or a table", file), field("or its path on this machine", path),
      h("button", { type: "button", class: "plain", onclick: () => take(path.value.trim()) }, "Use it")), said),
      h("div", { class: "row" }, field("Begin with", list), field("Name of its folder", name)), about,
      h("label", {}, study, " a study: several changes, several seeds, a verdict each"), more, verdict, h("p", { class: "actions" }, go, price), cost, h("h2", {}, "The recipe"), box));
  sendWithCtrlEnter(page.querySelector("form"));
  load();
  return () => { clearTimeout(timer); turn++; loads++; };
}
