// One run: how it stands, its curves as they grow, what it reached and cost, its recipe and checks.
import { link } from "/static/app.js";
import { address, events, get, order, post } from "/static/api.js";
import { drawBlocks } from "/static/blocks.js";
import { badge, fill, h, loading, number, problem, sentence } from "/static/dom.js";
import { curveName, curvePlot } from "/static/plot.js";
import { explained } from "/static/words.js";

const duration = (seconds) => seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
const ENDED = ["finished", "stopped", "diverged", "failed"];
const facts = (pairs) => h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) =>
  h("div", {}, h("dt", {}, name), h("dd", {}, typeof value === "number" ? number(value) : String(value)))));

export async function show(page, { name }) {
  let run = await get("/api/run", { run: name });
  const head = h("div"), further = h("div"), at = h("span"), said = h("div"), health = h("div"), measured = h("div"), cost = h("div", {}, loading("Counting")), open = {};
  const acting = new Set(), ask = order(), askSamples = order();

  async function act(path, values) {
    if (acting.has(path)) return; // pressed again before the answer: it is asked for already
    acting.add(path);
    fill(said, loading("Asking"));
    let wrong = null;
    try { await post(path, values); await again(); } catch (error) { wrong = error; }
    acting.delete(path);
    if (wrong) fill(said, problem(wrong)); else if (!acting.size) fill(said);
  }
  // Asked after every change: an answer that was overtaken must not bring back how the run stood before.
  async function again() {
    const fits = ask(), found = await get("/api/run", { run: name });
    if (!fits()) return;
    run = found;
    drawHead(); drawHealth(); drawMeasured();
  }
  function goOn() {
    const steps = h("input", { type: "number", min: 1, value: "", placeholder: run.steps ? String(run.steps) : "", "aria-label": "Train until step" });
    return h("form", { class: "inline", onsubmit: (event) => { event.preventDefault(); act("/api/resume", { name, ...(steps.value ? { steps: Number(steps.value) } : {}) }); } },
      h("label", {}, "train until step ", steps), h("button", { class: "plain" }, "Resume"));
  }
  // While it trains only this text changes: a button that is replaced under the pointer or the keyboard cannot be pressed.
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Progress" }), left = h("span", { class: "small" });
  let seenAt = null;
  function drawStep() {
    at.textContent = ` step ${number(run.step)}${run.steps ? ` of ${number(run.steps)}` : ""}`;
    if (!run.steps) return;
    bar.value = Math.min(1, run.step / run.steps);
    const now = Date.now();
    if (!seenAt || run.step < seenAt.step) seenAt = { step: run.step, time: now };
    const rate = (run.step - seenAt.step) / (now - seenAt.time);
    left.textContent = rate > 0 ? ` about ${duration((run.steps - run.step) / rate / 1000)} left` : "";
  }
  function drawHead() {
    const running = run.status === "running", alive = run.started && run.started.alive;
    drawStep();
    fill(head, h("h1", {}, name), h("p", { class: "subtitle", "aria-live": "polite" }, badge(run.status), run.tainted && badge("tainted"), at, run.about && ` · ${run.about}`),
    running && run.steps && h("p", { class: "actions" }, bar, left),
    h("p", { class: "actions" },
      parts().map(([part, title], place) => h("a", { class: place < 2 ? "button first" : "button", href: link(part, name) }, title)),
      h("a", { class: "button", href: link("new", "", { base: `run:${name}` }) }, "New from this"),
      run.report && h("a", { class: "button", href: address("/api/run/report", { run: name }), target: "_blank", rel: "noopener" }, "Report"),
      run.study && h("a", { class: "button", href: link("study", run.study) }, `Study ${run.study}`)),
    !run.study && run.status !== "damaged" && going(running, alive)
      && h("p", { class: "actions" }, h("button", { type: "button", onclick: () => act("/api/stop", { name }) }, "Stop"), h("span", { class: "small" }, " finishes its step and saves; it can be resumed")));
    fill(further, !run.study && run.status !== "damaged" && !going(running, alive) && [h("h2", {}, "Train longer"), goOn()]);
  }
  const going = (running, alive) => running || (alive && !ENDED.includes(run.status));
  // What the run can do, what is most often wanted first.
  function parts() {
    const can = run.abilities || {};
    if (!run.checkpoints.length) return []; // nothing to look into yet
    return [["look", "Look", true], ["generate", "Generate", can.generates], ["ask", { labels: "Classify", multilabel: "Classify", regression: "Predict" }[can.objective] || "Ask", can.answers], ["translate", "Translate", can.translates], ["walk", "Walk through", true], ["tokens", "Tokens", true]].filter(([, , fits]) => fits);
  }
  function verdict() {
    const value = run[`validation_${run.metric}`];
    if (value === null || value === undefined || running()) return null;
    const than = run.baseline ? ` The best baseline, ${run.baseline.name}, has ${number(run.baseline.value)}.` : "";
    return h("p", { class: "verdict-line" }, h("strong", {}, `Validation ${run.metric} ${number(value)}`), ` at step ${number(run.step)}.`, explained(than));
  }
  const running = () => run.status === "running";
  function drawHealth() {
    fill(health, verdict(), (run.health || []).map((one) => h("p", { class: `banner ${one.tone}`, role: one.tone === "note" ? "note" : "alert" }, explained(one.text))));
  }
  function drawMeasured() {
    if (run.status === "damaged") { fill(measured); return; }
    fill(measured, h("h2", {}, "What it reached"), run.evaluation ? drawBlocks(run.evaluation)
      : h("p", { class: "actions" }, "Not measured yet. ", run.checkpoints.length > 0 && h("button", { type: "button", onclick: () => act("/api/run/evaluate", { run: name }) }, "Measure")));
  }
  drawHead(); drawHealth(); drawMeasured();
  if (run.status === "damaged") { fill(page, head, said, health); return null; }

  // One picture for the loss, and one for what the run is judged by: they have different units.
  const plots = [...new Set(["loss", run.metric || "loss"])].map((metric) => {
    const keys = [metric, `train_${metric}`, `validation_${metric}`];
    const plot = curvePlot(async (low, high) => {
      const { curves } = await get("/api/run/curves", { run: name, low, high, points: 1200 });
      const measured = key => key === "loss" && Boolean(curves.train_loss); // then single batches are the background
      return keys.filter((key) => curves[key]).map((key) => ({ label: key, name: curveName(key), ...curves[key], color: key === keys[2] ? 1 : 0, dashed: key === keys[2], noisy: key === "loss", faint: measured(key) }));
    }, { unit: metric, label: `${metric} of ${name} against steps`, levels: () => (metric === (run.metric || "loss") && run.baselines) || {}, perEpoch: run.epoch_steps });
    return { ...plot, shows: (key) => keys.includes(key) };
  });

  const samples = h("div", { class: "samples", "aria-live": "polite" }, h("p", { class: "small" }, "It writes as soon as you scroll here."));
  async function drawSamples() {
    if (!run.checkpoints.length) { fill(samples, h("p", { class: "small" }, "Once it has a checkpoint, what it writes is shown here.")); return; }
    if (!samples.querySelector("pre")) fill(samples, loading("Writing"));
    const fits = askSamples();
    try {
      const found = await get("/api/run/sample", { run: name });
      if (!fits()) return;
      fill(samples, found.blocks.length ? [drawBlocks(found.blocks), h("p", { class: "small" }, `at step ${number(found.step)}`)] : h("p", { class: "small" }, "A model of this kind does not write."));
    } catch (error) { if (fits()) fill(samples, h("p", { class: "small" }, sentence(error.message))); }
  }
  get("/api/run/cost", { run: name }).then((found) => fill(cost, costTable(found)), (error) => fill(cost, problem(error)));
  fill(page, head, said, health, h("h2", {}, "How it gets there"), plots.map((plot) => plot.element), measured, h("h2", {}, run.abilities.says), samples, h("h2", {}, "What it costs"), cost,
    h("h2", {}, "Checks"), checks(run.checks),
    run.ancestry.length > 0 && [h("h2", {}, "Where its weights come from"), h("ol", {}, run.ancestry.map((one) => h("li", {}, one.name ? h("a", { href: link("run", one.name) }, one.name) : one.run, `, step ${number(one.step)}`)))],
    h("h2", {}, "How to run it again"), facts(Object.entries(run.environment)),
    facts([["checkpoints", run.checkpoints.join(", ") || "none"], ["test split opened", run.openings ? `${run.openings} times` : "never"]]),
    h("details", {}, h("summary", {}, "The recipe, resolved"), h("pre", { tabindex: 0 }, run.recipe)), further);

  // Writing takes the machine a moment: only for somebody who has come to read it.
  const seen = new IntersectionObserver((entries) => { if (entries.some((one) => one.isIntersecting)) { seen.disconnect(); open.samples = true; drawSamples(); } });
  seen.observe(samples);
  const stop = events("/api/run/events", { run: name }, (news) => {
    if (news.error) { fill(said, problem(new Error(news.error))); return; }
    for (const plot of plots) {
      let whole = !news.reload; // what was recorded before the stream was open
      for (const [key, one] of Object.entries(news.curves || {})) if (plot.shows(key)) whole = plot.append(key, one.step, one.value) && whole;
      if (!whole) plot.load();
    }
    const status = news.progress && news.progress.status;
    const last = news.curves && news.curves.loss ? news.curves.loss.step.at(-1) : null;
    const other = Boolean(status) && status !== open.status;
    if (other || news.reload) {
      const known = open.status;
      open.status = status || known;
      again().then(() => other && known && open.samples && drawSamples(), () => {});
    } else if (Object.keys(news.curves || {}).some((key) => key.startsWith("validation_"))) {
      again().catch(() => {}); // an evaluation: the verdict, and what a first checkpoint makes possible
    } else if (last !== null) { run.step = last; drawStep(); }
  });
  return () => { stop(); seen.disconnect(); plots.forEach((plot) => plot.close()); };
}

function costTable(cost) {
  const parts = cost.parts || [];
  return [h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, ["part", "copies", "parameters", "FLOPs forward, one step"].map((text, place) => h("th", { scope: "col", class: place ? "number" : null }, text)))),
    h("tbody", {}, parts.map((part) => h("tr", {}, h("td", {}, part.name), ...["copies", "parameters", "forward_flops"].map((key) => h("td", { class: "number" }, number(part[key])))))))),
  facts(Object.entries(cost).filter(([, value]) => typeof value === "number").map(([key, value]) => [key.replace(/_/g, " "), value]))];
}

function checks(lines) {
  if (!lines.length) return h("p", { class: "small" }, "Not recorded.");
  return h("ul", { class: "plain-list" }, lines.map((line) => {
    const [, word, rest] = line.match(/^(passed|FAILED|not judged|not asked)\s+(.*)$/) || [null, null, line];
    return h("li", {}, word && badge(word.toLowerCase()), " ", sentence(rest));
  }));
}
