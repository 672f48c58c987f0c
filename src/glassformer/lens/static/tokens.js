// The text as a row of tokens, shaded by what the chosen one reads, by who reads it, or by what each cost.
import { shade } from "./colours.js";
import { headOf, percent } from "./unpack.js";
import { printed } from "./maps.js";

// A strip of tokens; ``act(at)`` is called when one is pointed at or chosen by the keyboard.
export function strip(label, tokens, act) {
  const box = document.createElement("div");
  box.className = "strip";
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", label);
  const name = Object.assign(document.createElement("span"), { className: "strip-name", textContent: label });
  const words = tokens.map((token, at) => {
    const word = Object.assign(document.createElement("button"), { type: "button", className: "token", textContent: printed(token) });
    word.tabIndex = at ? -1 : 0;
    word.dataset.at = at;
    return word;
  });
  box.append(name, ...words);
  const found = (event) => event.target.closest?.(".token");
  box.addEventListener("pointerover", (event) => found(event) && act(Number(found(event).dataset.at)));
  box.addEventListener("click", (event) => found(event) && act(Number(found(event).dataset.at)));
  box.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!move || !found(event)) return;
    const next = Math.max(0, Math.min(words.length - 1, Number(found(event).dataset.at) + move));
    event.preventDefault();
    words.forEach((word, at) => (word.tabIndex = at === next ? 0 : -1));
    words[next].focus();
    act(next);
  });
  return { box, words };
}

function paint(words, byteOf, textOf, table, chosen, mark = "chosen") {
  words.forEach((word, at) => {
    const { background, ink } = shade(table, byteOf(at));
    word.style.background = background;
    word.style.color = ink;
    word.title = textOf(at);
    word.classList.toggle(mark, at === chosen);
  });
}

// What the chosen query reads.
export function paintReads(words, view, state, table) {
  const row = headOf(view, state.layer, state.head).subarray(state.row * view.keys.length, (state.row + 1) * view.keys.length);
  paint(words, (at) => row[at], (at) => `${at}: ${percent(row[at])}`, table, state.column, "key");
}

// Who reads the chosen key.
export function paintReaders(words, view, state, table) {
  const bytes = headOf(view, state.layer, state.head);
  const byteOf = (at) => bytes[at * view.keys.length + state.column];
  paint(words, byteOf, (at) => `${at}: ${percent(byteOf(at))}`, table, state.row);
}

// What each token cost, in nats.
export function paintLosses(words, losses, table, chosen) {
  const most = Math.max(1e-9, ...losses.map((nats) => nats ?? 0));
  const textOf = (at) => (losses[at] === null ? `${at}: nothing predicts it` : `${at}: ${losses[at].toFixed(2)} nats`);
  paint(words, (at) => Math.round((255 * (losses[at] ?? 0)) / most), textOf, table, chosen);
}
