// Weights from 0 to 1 as colours: a table of 256 for each byte of a map, light or dark.

export const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

// ["#rrggbb", ...] -> [[r, g, b], ...] of 256 steps, evenly spaced between the given ones.
export function ramp(colours) {
  const stops = colours.map(parts);
  return Array.from({ length: 256 }, (_, step) => {
    const place = (step / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    return stops[low].map((value, part) => Math.round(value + (stops[low + 1][part] - value) * (place - low)));
  });
}

// The same as pixels for an ImageData seen as Uint32Array (bytes r, g, b, a in memory; every browser's machine is little-endian).
export function pixels(colours) {
  return Uint32Array.from(ramp(colours), ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r);
}

// A colour for CSS, and black or white to stand on it.
export function shade(table, byte) {
  const [r, g, b] = table[byte];
  const bright = 0.299 * r + 0.587 * g + 0.114 * b;
  return { background: `rgb(${r} ${g} ${b})`, ink: bright > 140 ? "#111" : "#fff" };
}
