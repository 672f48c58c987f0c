// Asking the server. One place knows how: JSON both ways, errors as sentences, events that come back after a pause.

const connection = document.getElementById("connection");
let offline = false;

function tell(now) {
  if (now === offline) return;
  offline = now;
  connection.textContent = now ? "Offline: the server does not answer. Trying again …" : "";
  document.body.classList.toggle("offline", now);
  if (!now) window.dispatchEvent(new Event("online-again"));
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    tell(true);
    throw new Error("The server does not answer; it may have been stopped. `glassformer serve` starts it again.");
  }
  tell(false);
  if (answer.ok) return answer;
  let text = await answer.text();
  try { text = JSON.parse(text).error || text; } catch { /* a sentence as it is */ }
  const error = new Error(text.trim() || `The server answered ${answer.status}.`);
  error.status = answer.status;
  throw error;
}

export const address = (path, words = {}) => {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(words)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== null && one !== undefined) query.append(name, one);
  }
  return query.size ? `${path}?${query}` : path;
};

export async function get(path, words = {}, signal = undefined) {
  return (await ask(address(path, words), { signal })).json();
}

export async function bytes(path, words = {}) {
  return new Uint8Array(await (await ask(address(path, words))).arrayBuffer());
}

const sent = (values, signal) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values), signal });

export async function post(path, values = {}, signal = undefined) {
  return (await ask(path, sent(values, signal))).json();
}

// A file, sent as it is.
export async function upload(file) {
  return (await ask(address("/api/upload", { name: file.name }), { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file })).json();
}

// A stream of JSON lines, one call for each.
export async function lines(path, values, onLine, signal) {
  const reader = (await ask(path, sent(values, signal))).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) onLine(JSON.parse(part));
  }
  if (rest) onLine(JSON.parse(rest));
}

// Server-sent events; gives a function that ends them. A closed stream is opened again.
// The first news after each opening has ``reload``: what changed before the server began to watch is not told otherwise.
export function events(path, words, onData) {
  const source = new EventSource(address(path, words));
  let fresh = true;
  source.onopen = () => { fresh = true; tell(false); };
  source.onerror = () => { if (source.readyState !== EventSource.OPEN) tell(true); };
  source.onmessage = (message) => {
    const news = JSON.parse(message.data);
    if (fresh && !news.error) { fresh = false; news.reload = true; }
    onData(news);
  };
  return () => source.close();
}

// The same question, asked again and again: its answers may come in any order.
// ``const fits = ask()`` when it is asked, with ``const ask = order()``; ``fits()`` when it is answered: false if a later one was answered before.
export function order() {
  let asked = 0, answered = 0;
  return () => { const mine = ++asked; return () => { if (mine < answered) return false; answered = mine; return true; }; };
}
