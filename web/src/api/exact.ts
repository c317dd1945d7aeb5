// A seed has 64 bits, a number of JavaScript 53. A longer seed is kept as text.
// In a text of JSON the quotes are escaped, so that "seed": is always the name of a field.
const NUMBER = /("seed"\s*:\s*)(\d{16,})(?=\s*[,}])/g;
const TEXT = /("seed": )"(\d+)"/g;

/** parse reads JSON with every digit of a seed. */
export function parse(text: string): unknown {
  return JSON.parse(text.replace(NUMBER, '$1"$2"'));
}

/** written is a spec as JSON, its seed a number with every digit. */
export function written(spec: unknown): string {
  return JSON.stringify(spec, null, 2).replace(TEXT, "$1$2");
}
