// A slider over the moments of a training, and a button that plays them.

// ``names``: what each moment is called; ``go(at)`` is called when another is wanted, and may give a promise.
export function filmSlider(names, at, go) {
  const box = Object.assign(document.createElement("div"), { className: "film" }), name = document.createElement("output");
  const range = Object.assign(document.createElement("input"), { type: "range", min: 0, max: names.length - 1, value: at });
  const play = Object.assign(document.createElement("button"), { type: "button", textContent: "Play" });
  let playing = 0;
  range.setAttribute("aria-label", "moment of training");
  const show = (now) => {
    at = now;
    range.value = now;
    name.textContent = names[now];
  };
  const move = (next) => {
    show(next);
    return go(next);
  };
  const stop = () => {
    playing++;
    play.textContent = "Play";
  };
  async function run() {
    const mine = ++playing;
    play.textContent = "Stop";
    for (let next = at === names.length - 1 ? 0 : at + 1; next < names.length && mine === playing; next++) {
      await move(next);
      await new Promise((done) => setTimeout(done, 700));
    }
    if (mine === playing) stop();
  }
  range.addEventListener("input", () => (stop(), move(Number(range.value))));
  play.addEventListener("click", () => (play.textContent === "Stop" ? stop() : run()));
  box.append(play, range, name);
  show(at);
  return { box, show, stop };
}
