import type { Table } from "./table";

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const SIGNS = /^([+-]?)([$€£¥₹]?)\s*([+-]?)(.*?)\s*([%$€£¥₹]?)$/;
/** GROUPS has thousands: once or more, and no zero before them. */
const GROUPS = { ",": /^[1-9]\d{0,2}(,\d{3})+(\.[^,]*)?$/, ".": /^[1-9]\d{0,2}(\.\d{3})+(,[^.]*)?$/ };
/** From here on a number does not have all integers. */
const EXACT = 2 ** 53;

/** Numbers reads the numbers of a column as hindsight infer does: without a currency, percent or thousands. */
export interface Numbers {
  of(cell: string): number | undefined;
  /** ambiguous tells whether the column does not show what the point of a cell means, as of 1.234 between semicolons. */
  ambiguous(cell: string): boolean;
  /** huge tells whether a cell is an integer that no number has. */
  huge(cell: string): boolean;
}

/** split takes the signs from a number. */
function split(cell: string): { minus: string; text: string; sign: string } {
  const [, outer = "", before = "", inner = "", text = "", after = ""] = SIGNS.exec(cell) ?? [];
  const extra = (outer && inner) || (inner && !before) || (before && after);
  return extra ? { minus: "", text: cell, sign: "" } : { minus: outer || inner, text, sign: before || after };
}

const parsed = (plain: string): number | undefined => (NUMBER.test(plain) && Math.abs(Number(plain)) <= 1e100 ? Number(plain) : undefined);

/** numbersOf is how column at writes its numbers. Between semicolons a comma is the decimal mark, and the whole column says what a point is. */
export function numbersOf(table: Table, at: number): Numbers {
  // The mark is the decimal mark that the text has if it is a number.
  const digits = (text: string): { plain: string; mark?: "." | "," | "either" } => {
    if (!table.decimalComma) return { plain: GROUPS[","].test(text) ? text.replaceAll(",", "") : text };
    const grouped = GROUPS["."].test(text);
    if (text.includes(",")) return { plain: (grouped ? text.replaceAll(".", "") : text).replace(",", "."), mark: "," };
    if (!text.includes(".")) return { plain: text };
    if (!grouped) return { plain: text, mark: "." };
    return text.split(".").length === 2 ? { plain: text, mark: "either" } : { plain: text.replaceAll(".", ""), mark: "," };
  };
  const cells = table.rows.map((r) => r[at] ?? "");
  let point = false, comma = false, sign = "";
  for (const cell of cells) {
    const { minus, text, sign: own } = split(cell);
    const { plain, mark } = digits(text);
    if (parsed(minus + plain) === undefined) continue;
    sign ||= own;
    point ||= mark === ".";
    comma ||= mark === ",";
  }
  const plainOf = (cell: string): string => {
    const { minus, text, sign: own } = split(cell);
    const { plain, mark } = digits(text);
    if (own && own !== sign) return cell;
    return minus + (mark === "either" && comma ? plain.replace(".", "") : plain);
  };
  const ambiguous = (cell: string): boolean => point === comma && digits(split(cell).text).mark === "either";
  const of = (cell: string): number | undefined => (ambiguous(cell) ? undefined : parsed(plainOf(cell)));
  return { of, ambiguous, huge: (cell) => Math.abs(of(cell) ?? 0) >= EXACT && /^[+-]?\d+$/.test(plainOf(cell)) };
}
