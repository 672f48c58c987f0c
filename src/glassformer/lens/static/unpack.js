// A view's maps: base64 of gzip of one byte a weight -> Uint8Array [layer][head][query][key].

export async function unpack(text) {
  const plain = atob(text);
  const bytes = new Uint8Array(plain.length);
  for (let at = 0; at < plain.length; at++) bytes[at] = plain.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The bytes of one head.
export function headOf(view, layer, head) {
  const size = view.tokens.length * view.keys.length;
  const from = (layer * view.heads + head) * size;
  return view.bytes.subarray(from, from + size);
}

export const weight = (byte) => (byte / 255) ** 2;

export const percent = (byte) => {
  const value = 100 * weight(byte);
  return value >= 10 ? `${value.toFixed(0)} %` : `${value.toFixed(value >= 1 ? 1 : 2)} %`;
};
