import assert from "node:assert/strict";
import { accessible, fits, random, setup, stats, test, until, visit } from "./harness.mjs";

const it = setup();

/** trips is a file with a column of each kind; the label follows the distance and the city. */
function trips(n, next = random(5)) {
  const lines = Array.from({ length: n }, (_, i) => {
    const distance = 1 + 19 * next(), city = Math.floor(3 * next());
    const label = i % 50 === 49 ? "" : (3 * distance + 4 * city).toFixed(3);
    return `2026-03-${String(1 + Math.floor(i / 24)).padStart(2, "0")} ${String(i % 24).padStart(2, "0")}:00,"${["Bern", "Basel, old", "Chur"][city]}",${distance.toFixed(2)},${next() < 0.5 ? "yes" : "no"},${1 + (i % 4)},t${i},${label}`;
  });
  return `when,city,distance,rush,zone,id,duration\r\n${lines.join("\r\n")}\r\n`;
}

const choose = (page, name, text) => page.getByLabel("CSV file").setInputFiles({ name, mimeType: "text/csv", buffer: Buffer.from(text) });

test("a file that is dropped is inferred, reviewed, created, replayed and watched", () => visit(it, "", {}, async (page) => {
  await page.getByRole("heading", { name: "No models yet" }).waitFor();
  const data = await page.evaluateHandle((text) => {
    const d = new DataTransfer();
    d.items.add(new File([text], "My Trips.csv", { type: "text/csv" }));
    return d;
  }, trips(300));
  await page.dispatchEvent("main", "drop", { dataTransfer: data });
  await page.getByRole("heading", { name: "Columns of My Trips.csv" }).waitFor();
  const kinds = await page.getByRole("combobox").evaluateAll((all) => all.map((e) => e.value));
  assert.deepEqual(kinds, ["time", "categorical", "numeric", "boolean", "categorical", "none", "label"]);
  await accessible(page);
  await page.setViewportSize({ width: 390, height: 900 });
  for (const width of await page.getByRole("combobox").evaluateAll((all) => all.map((e) => e.clientWidth))) assert.ok(width >= 100, `a choice is ${width} wide`);
  await fits(page);
  await page.setViewportSize({ width: 1280, height: 900 });
  assert.equal(await page.getByLabel("Id", { exact: true }).inputValue(), "my-trips");
  await page.getByRole("combobox", { name: "What zone is" }).selectOption("none");
  await page.getByRole("button", { name: "Create, and learn 300 rows" }).press("Enter");
  await page.getByRole("heading", { level: 1, name: "my-trips" }).waitFor();
  await page.getByText("my-trips has learned 294 rows.").waitFor();
  await until("the page shows the rows", async () => (await page.locator('[data-name="observations"]').first().getAttribute("title")) === "294");
  const { model } = await it.server.call("GET", "models/my-trips");
  assert.deepEqual(model.spec.inputs.map((i) => i.name), ["when", "city", "distance", "rush"]);
  assert.deepEqual(model.inputs[1].categories.map((c) => c.name).sort(), ["Basel, old", "Bern", "Chur"]);
  const s = await stats(it.server, "my-trips");
  assert.ok(s.recent.prequential.skill > 0.5, `the skill is ${s.recent.prequential.skill}`);
}));

test("classes, semicolons, decimal commas and gaps", () => visit(it, "#/csv", { width: 390 }, async (page) => {
  const next = random(3);
  const lines = Array.from({ length: 80 }, (_, i) => {
    const v = next();
    return `${i % 9 === 8 ? "NA" : v.toFixed(3).replace(".", ",")};${v > 0.5 ? "high" : "low"}`;
  });
  await choose(page, "levels.csv", `value;y\n${lines.join("\n")}`);
  await page.getByText("8 cells are missing values").waitFor();
  await fits(page);
  await page.getByRole("button", { name: /^Create, and learn/ }).click();
  await page.getByText("levels has learned 80 rows.").waitFor();
  const s = await stats(it.server, "levels");
  assert.equal(s.inputs[0].missing, "8");
  assert.deepEqual(s.classes.classes.map((c) => c.class).sort(), ["high", "low"]);
}));

test("a file that cannot be read, and a choice without a label, say why", () => visit(it, "#/csv", { rejections: [400, 409] }, async (page) => {
  for (const [text, why] of [
    ["a,b\n1", "line 2, column 2: 1 fields where the header has 2"], ["a,b\n", "the target has no label"],
    ['a,b\n"1,2', "line 2"], ["", "the file is empty"],
  ]) {
    await choose(page, "bad.csv", text);
    await page.getByRole("alert").getByText(why).waitFor();
  }
  await choose(page, "levels.csv", "a,b\n1,2\n3,4\n");
  const create = page.getByRole("button", { name: "Create, and learn 2 rows" });
  await page.getByRole("combobox", { name: "What b is" }).selectOption("none");
  await page.getByText("No column is the label.").waitFor();
  assert.equal(await create.isDisabled(), true);
  await page.getByRole("combobox", { name: "What a is" }).selectOption("label");
  await page.getByText("No column is an input.").waitFor();
  await page.getByRole("combobox", { name: "What b is" }).selectOption("label");
  await until("a is an input again", async () => (await page.getByRole("combobox", { name: "What a is" }).inputValue()) === "numeric");
  await create.click();
  await page.getByRole("alert").getByText("MODEL_EXISTS").waitFor();
}));

test("rows are sent again while no server answers, and learned once", () => visit(it, "#/csv", { failures: true }, async (page) => {
  await choose(page, "again.csv", trips(250));
  await page.getByRole("heading", { name: "Columns of again.csv" }).waitFor();
  let lost = 0;
  await page.route("**/v1/models/again:observeBatch", async (route) => {
    if (lost++ > 0) return route.continue();
    await route.fetch(); // The server learns the batch, and its answer is lost.
    return route.abort();
  });
  await page.getByRole("button", { name: "Create, and learn 250 rows" }).click();
  await page.getByText("again has learned 245 rows.").waitFor();
  assert.equal((await stats(it.server, "again")).observations, 245);
}));

test("rows are sent again when the server is busy, and a second upload learns the further rows alone", () => visit(it, "#/csv", { rejections: [429, 503] }, async (page) => {
  const upload = async (rows) => {
    await page.goto(`${it.server.url}/#/csv`);
    await choose(page, "twice.csv", trips(rows));
    await page.getByRole("button", { name: `Create, and learn ${rows} rows` }).click();
    await page.getByText(`twice has learned ${rows - Math.floor(rows / 50)} rows.`).waitFor();
  };
  const rejections = [[429, "RESOURCE_EXHAUSTED"], [503, "UNAVAILABLE"]];
  await page.route("**/v1/models/twice:observeBatch", (route) => {
    const [code, status] = rejections.shift() ?? [];
    if (!code) return route.continue();
    return route.fulfill({ status: code, headers: { "Retry-After": "1" }, json: { error: { code, message: "busy", status } } });
  });
  await upload(150);
  assert.equal(rejections.length, 0);
  const { model } = await it.server.call("GET", "models/twice");
  await page.route("**/v1/models", (route) => (route.request().method() === "POST" ? route.fulfill({ json: { model } }) : route.continue()));
  await upload(250);
  assert.equal((await stats(it.server, "twice")).observations, 245);
}));

test("a column says which cell made it what it is, and a cell of another kind is rejected before the model is made", () => visit(it, "#/csv", { rejections: [400] }, async (page) => {
  const ids = ["9007199254740992", "9007199254740993"];
  const lines = Array.from({ length: 70 }, (_, i) => [
    i === 50 ? "oops" : `${i}.5`, i === 7 ? "#N/A" : i === 8 ? "12,5" : "1.234", i % 2 ? "1.500" : "2", ids[i % 2], i === 3 ? "none" : i === 4 ? "NA" : "a", i % 2 ? "1.000" : "10,5",
  ].join(";"));
  await choose(page, "odd.csv", `x;price;amount;id;kind;y\n${lines.join("\n")}`);
  for (const why of [
    'numbers from 0.5 to 69.5; "oops" in line 52 is no number, and is taken for a missing value', "numbers from 12.5 to 1234", '"1.500" is ambiguous',
    "ids, because no number has all integers from 2^53 on, 2 categories", "texts, 2 categories; 1 cell is a missing value", "numbers from 10.5 to 1000",
  ]) await page.getByRole("cell", { name: why }).waitFor();
  const kinds = await page.getByRole("combobox").evaluateAll((all) => all.map((e) => e.value));
  assert.deepEqual(kinds, ["numeric", "numeric", "none", "categorical", "categorical", "label"]);
  const create = page.getByRole("button", { name: "Create, and learn 70 rows" });
  for (const [column, why] of [["kind", 'line 2, column 5 (kind): "a" is no number'], ["amount", 'line 3, column 3 (amount): "1.500" is ambiguous']]) {
    const select = page.getByRole("combobox", { name: `What ${column} is` });
    const before = await select.inputValue();
    await select.selectOption("numeric");
    await create.click();
    await page.getByRole("alert").getByText(why).waitFor();
    await select.selectOption(before);
  }
  await create.click();
  await page.getByText("odd has learned 70 rows.").waitFor();
  const { model } = await it.server.call("GET", "models/odd");
  const named = model.inputs.map((i) => i.categories?.map((c) => c.name).sort());
  assert.deepEqual(named.slice(2), [ids, ["a", "none"]]);
  const s = await stats(it.server, "odd");
  assert.deepEqual(s.inputs.map((i) => i.missing), ["1", "1", "0", "1"]);
}));

test("a label that the reader chooses is inferred anew, as classes too", () => visit(it, "#/csv", {}, async (page) => {
  const lines = Array.from({ length: 60 }, (_, i) => `${i % 3},${i / 7},${i}`);
  await choose(page, "chosen.csv", `level,size,y\n${lines.join("\n")}`);
  await page.getByRole("combobox", { name: "What level is" }).selectOption("class");
  await page.getByRole("cell", { name: "texts, 3 classes" }).waitFor();
  assert.equal(await page.getByRole("combobox", { name: "What y is" }).inputValue(), "numeric");
  await page.getByRole("combobox", { name: "What y is" }).selectOption("none");
  await page.getByRole("button", { name: "Create, and learn 60 rows" }).click();
  await page.getByText("chosen has learned 60 rows.").waitFor();
  const { model } = await it.server.call("GET", "models/chosen");
  assert.deepEqual(model.spec.inputs.map((i) => i.name), ["size"]);
  assert.equal(model.spec.classes.maxClasses, 3);
}));
