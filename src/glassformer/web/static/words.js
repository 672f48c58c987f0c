// The words that Glassformer uses in its own way: the same sentences as docs/glossary.md, which a test compares. Wherever one stands
// in a report, it leads here.
import { fill, h, sentence } from "/static/dom.js";

const WORDS = new Map([
  ["recipe", "one YAML file (or Python object), the complete configuration of one run: data, tokenizer, model, objective, training, seed"],
  ["run", "the folder that training a recipe writes; resumable, readable without torch"],
  ["study", "an experiment: a base recipe, named changes to it, several seeds"],
  ["trial", "one run of a study"],
  ["plan", "what a study fixes before its first run: changes, seeds, looks, margin, metric"],
  ["verdict", "better, worse, same, not decided or invalid, for one change"],
  ["margin", "the smallest difference that matters; a difference whose interval lies within it is \"same\". Fixed before the first run"],
  ["paired", "two runs with the same seed and the same data: their difference has less noise than that of any two runs"],
  ["interim look", "an interim analysis of a study, at a planned number of seeds (`--looks 6,8,12,16`)"],
  ["baseline", "a predictor that needs no network: uniform, unigram, bigram, majority class, bag of words. Every figure stands beside it"],
  ["base recipe", "of a study: the recipe without a change, which each change is compared with (in messages also: the baseline)"],
  ["exploratory", "a change that was added after the plan"],
  ["bank", "32 or more stored runs of the baseline that a change is compared with, instead of pairing seeds (`--baseline bank`)"],
  ["ledger", "the record, in the cache folder, of all studies of a question (baseline, change, text, metric); their seeds add up"],
  ["tainted", "trained or measured although a check failed, or could not be judged (`--allow-leaks`): its figures mean nothing"],
  ["leak", "a broken law: a logit depends on something the model must not see"],
  ["unit", "one item of the sample that metrics, intervals and paired comparisons are computed over: a document, a question, a labelled text"],
  ["stretch", "1,000 tokens of a text in a row, the unit of intervals where a text has no documents (in tables: block)"],
  ["window", "the tokens a model sees at once, at most `model.context` of them"],
  ["perplexity", "e to the loss: how many equally likely tokens the model's surprise corresponds to; 1 is certainty, the size of the vocabulary is guessing"],
  ["overfitting", "the validation loss rises while the training loss falls: the model learns its training text by heart"],
  ["diagnosis", "what is wrong with a run, from its curves, in words and with a code"],
  ["slot", "a place in a recipe that takes a named choice: `model.mixer`, `objective`, `training.optimizer`, ..."],
  ["variant", "one named choice for a slot: one class in one file"],
  ["objective", "what the network is trained to do (next token, labels, ...): batches, loss, metrics, baselines"],
  ["parent", "the run whose weights a new run begins with (`init_from`)"]
]);
const FOUND = new RegExp(`\\b(${[...WORDS.keys()].sort((one, other) => other.length - one.length).join("|")})(s?)\\b`, "i");
const PLAIN = new Set(["recipe", "run", "study", "plan", "unit", "window", "variant", "parent", "slot"]); // explained here, but too common to be linked

export const link = (word, shown = word) => h("a", { class: "word", href: `#/words/${encodeURIComponent(word)}`, title: WORDS.get(word).replace(/`/g, "") }, shown);

// A sentence in which the first of these words is a link to what it means; each word once among the parts that share ``known``.
export function explained(text, known = new Set()) {
  return sentence(text).map((part) => (typeof part === "string" ? linked(part, known) : part));
}

function linked(text, known) {
  const at = FOUND.exec(text);
  if (!at) return text;
  const word = at[1].toLowerCase(), end = at.index + at[0].length;
  const shown = known.has(word) || PLAIN.has(word) ? at[0] : link(word, at[0]);
  known.add(word);
  return [text.slice(0, at.index), shown, linked(text.slice(end), known)];
}

export function show(page, { name }) {
  const list = h("dl", { class: "words" }, [...WORDS].map(([word, about]) => [h("dt", { id: `word-${word.replace(/ /g, "-")}`, "aria-current": word === name ? "true" : null }, word), h("dd", {}, sentence(about))]));
  fill(page, h("h1", {}, "Words"), h("p", { class: "subtitle" }, "What the words on this page mean."), list);
  requestAnimationFrame(() => list.querySelector("[aria-current]")?.scrollIntoView({ block: "center" }));
}
