// The blocks of a report page (paragraphs, tables, verdicts, figures), drawn as the reports draw them.
import { h, sentence } from "/static/dom.js";
import { explained, link } from "/static/words.js";

export function drawBlocks(blocks) {
  return blocks.map((block) => (DRAW[block.kind] || (() => null))(block));
}

const banner = (block) => h("p", { class: `banner ${block.tone}`, role: block.role }, block.word && h("strong", {}, block.word), explained(block.text));
const marked = (content, tainted) => (tainted ? h("section", { class: "tainted" }, banner(tainted), content) : content);

const cell = ([text, interval]) => [text, interval && h("span", { class: "interval" }, interval)];

const DRAW = {
  heading: (block) => h("h2", {}, block.text),
  paragraph: (block) => h("p", {}, explained(block.text)),
  banner,
  listing: (block) => h("figure", { class: "listing" }, h("pre", { tabindex: 0 }, block.text), block.caption && h("figcaption", {}, sentence(block.caption))),
  facts: (block) => h("div", {}, block.caption && h("p", { class: "small" }, sentence(block.caption)),
    h("dl", { class: "facts" }, block.facts.map(([name, value]) => h("div", {}, h("dt", {}, explained(name)), h("dd", {}, value))))),
  fold: (block) => h("details", {}, h("summary", {}, block.title), drawBlocks(block.blocks)),
  verdicts: (block) => h("ul", { class: "verdicts" }, block.items.map((one) =>
    h("li", {}, h("span", { class: `verdict ${one.verdict.replace(/[^a-z]+/g, "-")}` }, link("verdict", one.verdict)), " ",
      one.before && [sentence(one.before), " "], h("strong", {}, one.name), " ", explained(one.sentence)))),
  figure: (block) => marked(h("figure", {}, h("div", { class: "picture" }, h("img", { src: block.picture, alt: block.alt })),
    block.caption && h("figcaption", {}, explained(block.caption))), block.tainted),
  table: (block) => marked(h("div", {}, h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": block.caption || "Table" },
    h("table", {}, block.caption && h("caption", {}, sentence(block.caption)),
      h("thead", {}, h("tr", {}, block.header.map((name, place) => h("th", { scope: "col", class: block.numeric[place] ? "number" : null }, explained(name))))),
      h("tbody", {}, block.rows.map((row, at) => h("tr", { class: block.sound.includes(at) ? "sound" : null },
        row.map((one, place) => h("td", { class: block.numeric[place] ? "number" : null }, cell(one)))))))),
  block.note && h("p", { class: "small" }, explained(block.note))), block.tainted),
};
