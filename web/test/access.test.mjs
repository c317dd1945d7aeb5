import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, fits, learn, rows, setup, until, visit } from "./harness.mjs";

const it = setup(async (server) => {
  await learn(server, "auto-with-a-name-of-quite-some-length", { dimension: 2, coverage: [0.5, 0.9] }, rows(300), { displayName: "Auto", labels: { env: "test" } });
  await learn(server, "records", {
    inputs: [{ name: "a_rather_long_name_of_an_input", numeric: {} }, { name: "city", categorical: {} }], classes: {}, rlsc: {},
  }, rows(200).map((r, i) => ({ inputs: { a_rather_long_name_of_an_input: r.features[0], city: i % 3 ? "Bern" : "Basel" }, class: r.label > 0.3 ? "high" : "low" })));
  await learn(server, "empty", { dimension: 2 }, []);
});

const wait = (selector) => async (page) => page.locator(selector).first().waitFor();

/** The pages and the dialogs, and how it is known that they are whole. */
const PLACES = [
  ["the list", "", wait("tbody tr")],
  ["the form", "#/create", wait('[data-name="features"]')],
  ["a mixture", "#/models/auto-with-a-name-of-quite-some-length", wait(".tall tbody tr")],
  ["a classifier", "#/models/records", wait(".reliability circle")],
  ["a model without observations", "#/models/empty", wait(".empty")],
  ["the dialog to delete", "#/models/empty", async (page) => page.getByRole("button", { name: "Delete…" }).click()],
  ["the dialog to restore", "#/models/empty", async (page) => page.getByRole("button", { name: "Restore…" }).click()],
];

/** Every place has each theme and each width once: colours do not follow the width. */
const SCREENS = [{ theme: "light", width: 1280 }, { theme: "dark", width: 320 }];

for (const [name, place, ready] of PLACES) {
  for (const { theme, width } of SCREENS) {
    test(`${name}, ${theme}, ${width} wide, is clean to axe-core and fits`, () => visit(it, place, { theme, width }, async (page) => {
      await ready(page);
      await accessible(page);
      await fits(page);
    }));
  }
}

test("a failure and the values of a plot are clean to axe-core", () => visit(it, "#/models/records", { refusals: [400] }, async (page) => {
  await page.locator(".canvas").first().waitFor();
  for (const summary of await page.locator("summary").all()) await summary.click();
  await page.getByRole("region", { name: "Observe" }).getByRole("button", { name: "Observe" }).click();
  await page.getByRole("alert").waitFor();
  await accessible(page);
}));

test("the theme follows the system, and the choice is kept", () => visit(it, "", { theme: "dark" }, async (page) => {
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await theme(), "dark");
  const dark = await ground();
  await page.getByRole("button", { name: "Theme: System" }).click();
  assert.equal(await theme(), "light");
  assert.notEqual(await ground(), dark);
  await page.reload();
  await page.getByRole("button", { name: "Theme: Light" }).waitFor();
  assert.equal(await theme(), "light");
  await page.getByRole("button", { name: "Theme: Light" }).click();
  await page.getByRole("button", { name: "Theme: Dark" }).click();
  assert.equal(await theme(), "dark");
}));

test("the keyboard reaches the content first, and a dialog gives the focus back", () => visit(it, "#/models/empty", {}, async (page) => {
  await page.getByRole("button", { name: "Delete…" }).waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.getByRole("button", { name: "Delete…" }).press("Enter");
  await page.getByRole("dialog").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "INPUT");
  await page.keyboard.press("Escape");
  await until("the dialog is closed", async () => (await page.getByRole("dialog").count()) === 0);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Delete…");
}));

test("a new page takes the focus", () => visit(it, "", {}, async (page) => {
  await page.getByRole("link", { name: "records" }).press("Enter");
  await page.getByRole("heading", { level: 1, name: "records" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
}));
