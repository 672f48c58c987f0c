// The frame: tabs, and which part is shown. An address like #/run/NAME names everything, so that it can be kept and shared.
import { fill, h, loading, problem } from "/static/dom.js";

const TABS = [
  ["runs", "Runs"], ["studies", "Studies"], ["look", "Look"], ["generate", "Generate"], ["ask", "Ask"], ["translate", "Translate"],
  ["tokens", "Tokens"], ["byhand", "By hand"], ["new", "New"], ["words", "Words"],
];
const PARTS = { walk: "look", run: "runs", study: "studies", compare: "runs" };
const main = document.getElementById("main");
let leave = null, shown = 0;

export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [part, ...rest] = path.split("/");
  return { part: part || "runs", name: decodeURIComponent(rest.join("/")), words: new URLSearchParams(query || "") };
}

export const link = (part, name = "", words = {}) => {
  const query = new URLSearchParams(words);
  return `#/${part}${name ? `/${name.split("/").map(encodeURIComponent).join("/")}` : ""}${query.size ? `?${query}` : ""}`;
};

function drawTabs(part) {
  const current = PARTS[part] || part;
  fill(document.getElementById("tabs"), TABS.map(([name, title]) =>
    h("a", { href: link(name), "aria-current": name === current ? "page" : null }, title)));
}

async function show() {
  const here = place(), turn = ++shown;
  if (leave) { leave(); leave = null; }
  drawTabs(here.part);
  fill(main, loading());
  try {
    const module = await import(`/static/${TABS.some(([name]) => name === here.part) || here.part in PARTS ? here.part : "runs"}.js`);
    const content = h("div", { class: "part" });
    const ended = await module.show(content, here);
    if (turn !== shown) { if (ended) ended(); return; }
    leave = ended || null;
    fill(main, content);
    const title = content.querySelector("h1");
    document.title = title ? `${title.textContent} · Glassformer` : "Glassformer";
  } catch (error) {
    if (turn === shown) fill(main, h("h1", {}, "Not shown"), problem(error), h("p", {}, h("a", { href: link("runs") }, "To the runs")));
  }
}

window.addEventListener("hashchange", show);
window.addEventListener("online-again", () => { if (main.querySelector(".banner[role=alert]")) show(); });
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  const search = main.querySelector("input[type=search]");
  if (search) { event.preventDefault(); search.focus(); }
});
show();
