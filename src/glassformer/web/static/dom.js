// Elements from plain values. Text is always a text node: nothing that a run or a file says can become markup.

export function h(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "line", "circle", "path", "text", "polyline", "rect", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

// Control characters of names, and marks that turn the direction of a line, are shown by their numbers.
export function withEscapes(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (sign) => (sign === "\r" ? sign : `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`));
}

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(withEscapes(String(child))));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

// What stands between backticks in a sentence is code.
export function sentence(text) {
  return String(text).split(/`([^`]+)`/).map((part, place) => (place % 2 ? h("code", {}, part) : part));
}

export function badge(status) {
  return h("span", { class: `badge ${String(status).replace(/[^a-z]+/g, "-")}` }, status);
}

export function field(label, control, hint = null) {
  const id = control.id || `field-${Math.random().toString(36).slice(2)}`;
  control.id = id;
  return h("div", { class: "field" }, h("label", { for: id }, label), control, hint && h("span", { class: "small" }, hint));
}

export function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential(2) : Number(value.toPrecision(digits)).toString();
}

// A value of a recipe as a person writes it.
export function setting(value) {
  return value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
}

export function percent(value) {
  return value === 0 ? "0 %" : value >= 0.9995 ? "100 %" : value < 0.001 ? "<0.1 %" : `${(100 * value).toFixed(1)} %`;
}

export const visible = (text) => text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";

export function loading(what = "Loading") {
  return h("p", { class: "state", role: "status" }, `${what} …`);
}

export function problem(error) {
  return h("p", { class: "banner", role: "alert" }, sentence(error.message || String(error)));
}

export function empty(...children) {
  return h("div", { class: "state empty" }, ...children);
}

// Enter makes a new line in a text; with Ctrl or Cmd it sends the form, by its first button if that may be pressed.
export function sendWithCtrlEnter(place) {
  place.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const form = place.form || place.closest("form");
    if (!form.querySelector("button:not([type])")?.disabled) form.requestSubmit();
  });
}

// A small line of a curve; the table beside it has the numbers.
export function spark(values, label) {
  if (values.length < 2) return null;
  const low = Math.min(...values), high = Math.max(...values), [width, height] = [96, 22];
  const points = values.map((value, at) => `${((at / (values.length - 1)) * (width - 2) + 1).toFixed(1)},${(height - 2 - ((value - low) / (high - low || 1)) * (height - 4)).toFixed(1)}`);
  return h("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "spark", role: "img", "aria-label": label }, h("polyline", { points: points.join(" ") }));
}
