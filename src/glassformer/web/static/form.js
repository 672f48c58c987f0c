// A form from a schema: a control for each setting, a choice for each slot with the settings of the chosen variant.
import { fill, h, sentence } from "/static/dom.js";

// onChange() is called after every change; the result's changes() gives the dotted keys that differ from the recipe.
export function recipeForm(schema, recipe, onChange) {
  const changed = new Map();
  const set = (key, value, first) => {
    for (const inner of [...changed.keys()]) if (inner.startsWith(`${key}.`)) changed.delete(inner); // a whole replaces its parts
    if (JSON.stringify(value) === JSON.stringify(first)) changed.delete(key); else changed.set(key, value);
    onChange();
  };
  const sections = Object.entries(schema.properties).map(([key, one]) => part(key, key, one, recipe[key], set, 0));
  return { element: h("div", { class: "recipe" }, sections), changes: () => Object.fromEntries(changed) };
}

function part(key, name, schema, value, set, depth) {
  if (schema.slot) return slot(key, name, schema, value, set, depth);
  if (schema.type === "object" && schema.properties) {
    const inside = Object.entries(schema.properties).map(([inner, one]) => part(`${key}.${inner}`, inner, one, (value || {})[inner], set, depth + 1));
    return depth ? h("fieldset", {}, h("legend", {}, name), inside) : h("details", { open: ["model", "training"].includes(name) }, h("summary", {}, name, h("span", { class: "small" }, " ", sentence(schema.about))), inside);
  }
  return setting(key, name, schema, value, set);
}

function slot(key, name, schema, value, set, depth) {
  if (Array.isArray(value)) return setting(key, name, {}, value, set); // a list over the layers, as JSON
  const settings = value && typeof value === "object" ? value : { kind: value };
  const kinds = Object.keys(schema.variants), first = settings.kind && kinds.includes(settings.kind) ? settings.kind : typeof schema.default === "string" ? schema.default : kinds[0];
  const list = h("select", { id: `set-${key}`, "data-key": key }, kinds.map((kind) => h("option", { value: kind }, kind)));
  list.value = first;
  const about = h("span", { class: "small" }), inside = h("div", { class: "inside" });
  function draw() {
    const kind = list.value, own = kind === first && value !== undefined && value !== null;
    fill(about, sentence(schema.variants[kind].about));
    // The settings of another variant are sent with its kind; those of the recipe's own one by one.
    const held = { kind };
    const inner = (dotted, one, before) => {
      if (own) { set(dotted, one, before); return; }
      held[dotted.slice(key.length + 1)] = one;
      set(key, { ...held }, null);
    };
    inside.replaceChildren(...Object.entries(schema.variants[kind].properties).map(([each, one]) => part(`${key}.${each}`, each, one, own ? settings[each] : undefined, inner, depth + 1)));
  }
  list.addEventListener("change", () => { draw(); set(key, list.value === first ? value : list.value, value); });
  draw();
  const controls = [h("div", { class: "field" }, h("label", { for: `set-${key}` }, name), list, about), inside];
  return depth ? h("div", { class: "slot" }, controls) : h("details", { open: name === "model" }, h("summary", {}, name, h("span", { class: "small" }, " ", sentence(schema.about))), controls);
}

function setting(key, name, schema, value, set) {
  const kinds = (schema.anyOf || [schema]).map((one) => one.type), shown = value === undefined ? schema.default : value;
  const words = schema.enum || (schema.anyOf || []).find((one) => one.enum)?.enum;
  let control;
  const give = (one) => set(key, one, shown === undefined ? null : shown);
  if (kinds.length === 1 && kinds[0] === "boolean") {
    control = h("input", { type: "checkbox", checked: Boolean(shown), onchange: () => give(control.checked) });
  } else if (words) {
    control = h("select", { onchange: () => give(control.value) }, words.map((one) => h("option", { value: one }, one)));
    control.value = shown;
  } else {
    const text = shown === null || shown === undefined ? "" : typeof shown === "string" ? shown : JSON.stringify(shown);
    control = h("input", { value: text, placeholder: shown === null ? "none" : "", oninput: () => give(read(control.value, kinds)) });
  }
  control.id = `set-${key}`;
  control.dataset.key = key;
  return h("div", { class: "field" }, h("label", { for: control.id }, name), control);
}

// Only reads what was typed; whether it is allowed is for the server to say.
function read(text, kinds) {
  if (text === "") return null;
  if (kinds.includes("string") && !/^[[{]/.test(text)) return text;
  try { return JSON.parse(text); } catch { return text; }
}
