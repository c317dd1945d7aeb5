import assert from "node:assert/strict";
import { accessible, fits, learn, rows, setup, test, until, visit } from "./harness.mjs";

const WIDE = Array.from({ length: 120 }, (_, i) => ({ name: `input_${i}`, numeric: {} }));

const it = setup(async (server) => {
  await learn(server, "auto-with-a-name-of-quite-some-length", { dimension: 2, coverage: [0.5, 0.9] }, rows(300), { displayName: "Auto", labels: { env: "test" } });
  await learn(server, "records", {
    inputs: [{ name: "a_rather_long_name_of_an_input", numeric: {} }, { name: "city", categorical: {} }], classes: {}, rlsc: {},
  }, rows(60).map((r, i) => ({ inputs: { a_rather_long_name_of_an_input: r.features[0], city: i % 3 ? "Bern" : "Basel" }, class: r.label > 0.3 ? "high" : "low" })));
  await learn(server, "wide", { inputs: WIDE, linearAwv: {} }, rows(40).map((r) => ({ inputs: Object.fromEntries(WIDE.map(({ name }) => [name, r.features[0]])), label: r.label })));
  await learn(server, "empty", { dimension: 2 }, []);
});

const wait = (selector) => async (page) => page.locator(selector).first().waitFor();

/** The pages and the dialogs, and how it is known that they are whole. */
const PLACES = [
  ["the list", "", wait("tbody tr")],
  ["the form", "#/create", wait('[data-name="features"]')],
  ["the page of a CSV file", "#/csv", wait('input[type="file"]')],
  ["the weights of a wide model", "#/models/wide/uses", wait(".more")],
  ["the inputs of a wide model", "#/models/wide/data", wait(".more")],
  ["a mixture", "#/models/auto-with-a-name-of-quite-some-length", wait(".canvas canvas")],
  ["the experts of a mixture", "#/models/auto-with-a-name-of-quite-some-length/uses", wait(".tall tbody tr")],
  ["the forms and the programs", "#/models/records/try", wait(".snippet")],
  ["what is operated", "#/models/records/operate", wait("#aliases")],
  ["a classifier", "#/models/records", wait(".reliability circle")],
  ["a model without observations", "#/models/empty", wait(".empty")],
  ["the dialog to delete", "#/models/empty", async (page) => page.getByRole("button", { name: "Delete…" }).click()],
  ["the dialog to restore", "#/models/empty/operate", async (page) => page.getByRole("button", { name: "Restore…" }).click()],
];

/**
 * Every place is looked at light and wide, and dark and narrow. Of axe-core's rules the
 * colours alone follow the theme, and they are most of its work.
 */
for (const [name, place, ready] of PLACES) {
  test(`${name} is clean to axe-core and fits, light and wide, dark and narrow`, () => visit(it, place, {}, async (page) => {
    await ready(page);
    await accessible(page);
    await fits(page);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 320, height: 900 });
    await until("the page is dark", () => page.evaluate(() => document.documentElement.dataset.theme === "dark"));
    await accessible(page, "color-contrast", "scrollable-region-focusable", "target-size");
    await fits(page);
  }));
}

test("the longest names fit a phone", async () => {
  const long = (n) => "w".repeat(n);
  await learn(it.server, long(63), { dimension: 2, classes: {} }, rows(40).map((r) => ({ features: r.features, class: r.label > 0.3 ? long(60) : "<b>low</b>" })), {
    displayName: long(63), labels: { [long(63)]: long(63) },
  });
  for (const place of ["", `#/models/${long(63)}`]) {
    await visit(it, place, { width: 320 }, async (page) => {
      await page.getByText(long(63)).first().waitFor();
      if (place) await page.getByRole("region", { name: "Classes" }).first().getByText("<b>low</b>").waitFor();
      await fits(page);
    });
  }
});

test("a failure and the values of a plot are clean to axe-core", () => visit(it, "#/models/records", { rejections: [400] }, async (page) => {
  await page.locator(".canvas").first().waitFor();
  for (const summary of await page.locator(".values summary").all()) await summary.click();
  await accessible(page);
  await page.getByRole("tab", { name: "Try" }).click();
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
  await until("the content has the focus", () => page.evaluate(() => document.activeElement.id === "main"));
}));
