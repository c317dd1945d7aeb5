// Integers name things or measure something: cmd/internal/infer/names.go has the formulas and what was measured.

const EVIDENT = 5, LEAST_VALUES = 8, MOST_WEIGHT = 20, STRAIGHT = 0.5, FEW_INTEGERS = 31, CELLS_EACH = 30;
/** Ratios below ORDERED are those of measures, from ORDERLESS on those of names. */
export const ORDERED = 0.4, ORDERLESS = 0.5;

const NAMES = ["account", "client", "code", "customer", "device", "id", "ids", "item", "postcode", "product", "shop", "sku", "store", "uid", "user",
  "zip", "zipcode"];

/** namesThings tells whether the last word of a column's name says that it names things: user, storeId, zip_code. */
export function namesThings(column: string): boolean {
  const word = column.match(/\p{L}+/gu)?.at(-1) ?? "";
  const last = word.toUpperCase() === word ? word : (word.match(/^[^\p{Lu}]+|\p{Lu}[^\p{Lu}]*/gu)?.at(-1) ?? "");
  return NAMES.includes(last.toLowerCase());
}

/** Evidence is what labels say of integers: the share of a line, and how unlike neighbors are beside others. */
export interface Evidence {
  line?: number;
  ratio?: number;
}

interface Level {
  v: number;
  n: number;
  sum: number;
  squares: number;
}

const total = (levels: Level[], of: (l: Level) => number): number => levels.reduce((sum, l) => sum + of(l), 0);

/** evidenceOf compares the labels of the integers of a column. */
export function evidenceOf(values: (number | undefined)[], labels: (number | undefined)[]): Evidence {
  const byValue = new Map<number, Level>();
  values.forEach((v, row) => {
    const y = labels[row];
    if (v === undefined || y === undefined) return;
    const level = byValue.get(v) ?? { v, n: 0, sum: 0, squares: 0 };
    byValue.set(v, { v, n: level.n + 1, sum: level.sum + y, squares: level.squares + y * y });
  });
  const levels = [...byValue.values()].sort((a, b) => a.v - b.v);
  const d = levels.length, n = total(levels, (l) => l.n);
  if (d < 3 || n <= d) return {};
  const mean = total(levels, (l) => l.sum) / n, center = total(levels, (l) => l.n * l.v) / n;
  const between = total(levels, (l) => l.n * (l.sum / l.n - mean) ** 2);
  const along = total(levels, (l) => l.n * (l.v - center) * (l.sum / l.n - mean));
  const spread = total(levels, (l) => l.n * (l.v - center) ** 2);
  const variance = total(levels, (l) => Math.max(0, l.squares - (l.sum * l.sum) / l.n)) / (n - d);
  if (!(between / (d - 1) > (1 + EVIDENT * Math.sqrt(2 / (d - 1) + 2 / (n - d))) * variance)) return {};
  const line = (along * along) / spread / between;
  if (d < LEAST_VALUES) return { line };
  const apart = (g: number): number => {
    let difference = 0, weights = 0;
    levels.slice(g).forEach((b, k) => {
      const a = levels[k] as Level;
      const w = Math.min((a.n * b.n) / (a.n + b.n), MOST_WEIGHT);
      difference += w * ((a.sum / a.n - b.sum / b.n) ** 2 - variance * (1 / a.n + 1 / b.n));
      weights += w;
    });
    return difference / weights;
  };
  const distant = (apart(Math.floor(d / 3)) + apart(Math.floor(d / 2)) + apart(Math.floor((2 * d) / 3))) / 3;
  return distant > 0 ? { line, ratio: apart(1) / distant } : { line };
}

/** areNames tells whether neighbors are no more alike than others. */
export const areNames = (e: Evidence, different: number, cells: number): boolean => (e.ratio ?? 0) >= ORDERLESS && 4 * different <= cells;

/** followNoLine tells whether labels depend on a few integers, and not in a line. */
export const followNoLine = (e: Evidence, different: number, cells: number): boolean =>
  (e.line ?? 1) < STRAIGHT && different <= FEW_INTEGERS && CELLS_EACH * different <= cells;
