/** Table is a CSV file: its columns, and the cells of its rows without the spaces around them. */
export interface Table {
  name: string;
  columns: string[];
  rows: string[][];
  /** A comma is the decimal mark, because semicolons are between the cells. */
  decimalComma: boolean;
}

/** readTable reads a CSV file whose first line names the columns. */
export function readTable(name: string, text: string): Table {
  const [first = ""] = text.split("\n", 1);
  const delimiter = [",", ";", "\t"].reduce((best, d) => (first.split(d).length > first.split(best).length ? d : best));
  const [columns = [], ...rows] = cellsOf(text.replace(/^\uFEFF/, ""), delimiter);
  if (columns.length < 2) throw new Error(`${name}: the first line has ${columns.length} column, expected two or more with commas, semicolons or tabs between them.`);
  const twice = columns.find((c, i) => c === "" || columns.indexOf(c) !== i);
  if (twice !== undefined) throw new Error(`${name}: the first line names the column ${JSON.stringify(twice)} ${twice ? "twice" : "without a name"}, expected a name for each column.`);
  const short = rows.findIndex((r) => r.length !== columns.length);
  if (short >= 0) throw new Error(`${name}: row ${short + 1} has ${rows[short]?.length ?? 0} cells, expected ${columns.length}.`);
  if (rows.length === 0) throw new Error(`${name}: no row below the first line.`);
  return { name, columns, rows, decimalComma: delimiter === ";" };
}

/** cellsOf splits a text into rows of cells. A cell in quotes may have delimiters, lines and doubled quotes. */
function cellsOf(text: string, delimiter: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const cell = new RegExp(`(?:"((?:[^"]|"")*)"|([^"${delimiter}\\r\\n][^${delimiter}\\r\\n]*|))(${delimiter}|\\r?\\n|\\r|$)`, "gy");
  while (cell.lastIndex < text.length) {
    const found = cell.exec(text);
    if (!found) throw new Error(`Row ${rows.length}: a quote is not closed, or text follows it.`);
    row.push((found[1]?.replaceAll('""', '"') ?? found[2] ?? "").trim());
    if (found[3] === delimiter && cell.lastIndex < text.length) continue;
    if (found[3] === delimiter) row.push("");
    if (row.length > 1 || row[0] !== "") rows.push(row);
    row = [];
  }
  return rows;
}
