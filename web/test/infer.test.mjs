import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { createServer } from "vite";

test("categories and keys are those of the command line", async () => {
  const root = new URL("..", import.meta.url).pathname;
  const vite = await createServer({ root, configFile: false, logLevel: "error", server: { middlewareMode: true, ws: false }, optimizeDeps: { noDiscovery: true } });
  try {
    const { infer } = await vite.ssrLoadModule("/src/pages/csv/infer.ts");
    const kinds = { categorical: "category", numeric: "number", none: "left out" };
    for (const c of JSON.parse(await readFile(new URL("../../cmd/internal/infer/testdata/categories.json", import.meta.url)))) {
      const rows = c.cells.map((cell, i) => [String(cell), "0.5", String(c.labels?.[i] ?? 1)]);
      const [got] = infer({ name: "a.csv", columns: [c.name, "other", "y"], rows, decimalComma: false });
      assert.equal(got.key ? "key" : kinds[got.kind], c.kind, `${c.case}: ${got.why}`);
    }
  } finally {
    await vite.close();
  }
});
