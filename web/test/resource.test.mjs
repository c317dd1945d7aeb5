import assert from "node:assert/strict";
import { accessible, fits, checked, learn, rows, setup, test, told, until, visit } from "./harness.mjs";

const SEED = "18446744073709551615";

const it = setup(async (server) => {
  const spec = { dimension: 2, linearAwv: {} };
  await learn(server, "champion-1", spec, rows(40), { displayName: "The first", labels: { stage: "live" } });
  await learn(server, "challenger-1", spec, [], { follows: "champion-1" });
  await server.call("POST", "models/champion-1:observeBatch", { observations: rows(30, 2) });
  await learn(server, "seeded", { dimension: 2, seed: SEED, linearAwv: {} }, []);
});

const open = (part, options, does) => visit(it, `#/models/${part}`, options, async (page) => {
  await page.getByRole("heading", { level: 1, name: part.split("/")[0] }).waitFor();
  await does(page);
});
const model = async (id) => (await it.server.call("GET", `models/${id}`)).model;
const press = (where, name) => where.getByRole("button", { name, exact: true }).click();

test("what may change is edited, and what another changed meanwhile is rejected", () => open("champion-1", { rejections: [409] }, async (page) => {
  await press(page, "Edit…");
  let dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByLabel("Tags", { exact: true }).inputValue(), "stage=live");
  await accessible(page);
  await dialog.getByLabel("Display name").fill("The champion");
  await dialog.getByLabel("Tags", { exact: true }).fill("stage=live\nregion=north");
  await dialog.getByLabel("Annotations").fill('"a = b"=c = d\nnote="two\\nlines"');
  await dialog.getByLabel("Label TTL").fill("90");
  await dialog.getByLabel("Maximum of pending labels").fill("7");
  await press(dialog, "Save");
  await page.getByText("region=north", { exact: true }).waitFor();
  const now = await model("champion-1");
  assert.deepEqual(
    [now.displayName, now.labels, now.annotations, now.labelTtl, now.maxPendingLabels],
    ["The champion", { stage: "live", region: "north" }, { "a = b": "c = d", note: "two\nlines" }, "90s", "7"],
  );

  await press(page, "Edit…");
  dialog = page.getByRole("dialog");
  await until("the dialog has the new name", async () => (await dialog.getByLabel("Display name").inputValue()) === "The champion");
  // A dialog without an edit takes the new model, so the edit comes first.
  await dialog.getByLabel("Display name").fill("Too late");
  await it.server.call("PATCH", "models/champion-1?updateMask=displayName", { displayName: "Of another" });
  await press(dialog, "Save");
  assert.match(await dialog.getByRole("alert").innerText(), /ABORTED · ETAG_MISMATCH/);
  assert.equal((await model("champion-1")).displayName, "Of another");

  // Opened again the dialog has what another changed, and may change it.
  await press(dialog, "Cancel");
  await press(page, "Edit…");
  await until("the dialog has the name of another", async () => (await dialog.getByLabel("Display name").inputValue()) === "Of another");
  await dialog.getByLabel("Display name").fill("In time");
  await dialog.getByLabel("Label TTL").fill("");
  await dialog.getByLabel("Maximum of pending labels").fill("");
  await press(dialog, "Save");
  await page.getByText("In time", { exact: true }).waitFor();
  const last = await model("champion-1");
  assert.deepEqual([last.labelTtl, last.maxPendingLabels, last.labels], [undefined, undefined, now.labels]);
}));

test("an edit leaves the labels as they are that it does not change", async () => {
  const labels = { owner: "Ann Lee, Bo", quote: '"so"', path: "a=b", empty: "", lines: "one\ntwo" };
  await it.server.call("POST", "models", { id: "labelled", spec: { dimension: 1 }, labels });
  await open("labelled", {}, async (page) => {
    await press(page, "Edit…");
    const dialog = page.getByRole("dialog");
    const text = await dialog.getByLabel("Tags", { exact: true }).inputValue();
    await dialog.getByLabel("Tags", { exact: true }).fill(`${text}\nmore=1`);
    await press(dialog, "Save");
    await page.getByText("more=1", { exact: true }).waitFor();
  });
  assert.deepEqual((await model("labelled")).labels, { ...labels, more: "1" });
});

test("limits that are none are rejected in the dialog", () => open("seeded", { rejections: [400] }, async (page) => {
  await press(page, "Edit…");
  const dialog = page.getByRole("dialog");
  const most = dialog.getByLabel("Maximum of pending labels");
  await most.fill("-1");
  await press(dialog, "Save");
  await until("the field is wrong", async () => (await most.getAttribute("aria-invalid")) === "true");
  await most.fill("");
  await dialog.getByLabel("Label TTL").fill("a day");
  await press(dialog, "Save");
  assert.match(await dialog.getByRole("alert").innerText(), /a days/);
}));

test("an alias is set, changes over, and is removed", async () => {
  await open("champion-1/operate", {}, async (page) => {
    const aliases = page.getByRole("region", { name: "Aliases" });
    await aliases.getByLabel("Alias").fill("champion");
    await press(aliases, "Set");
    await page.locator(".meta").getByText("champion", { exact: true }).waitFor();
    assert.deepEqual((await model("champion-1")).aliases, ["champion"]);
  });
  await open("seeded/operate", {}, async (page) => {
    const aliases = page.getByRole("region", { name: "Aliases" });
    await aliases.getByLabel("Alias").fill("champion");
    await aliases.getByText("It names champion-1 now, and would change over.").waitFor();
    await press(aliases, "Set");
    await page.locator(".meta").getByText("champion", { exact: true }).waitFor();
    assert.equal((await it.server.call("GET", "aliases")).aliases[0].model, "seeded");
    await press(aliases, "Remove the alias champion");
    await until("it is gone", async () => ((await it.server.call("GET", "aliases")).aliases ?? []).length === 0);
    await aliases.getByText(/^None\./).waitFor();
  });
});

test("a follower is beside the model that it follows, on the pages of both", async () => {
  await until("the follower has learned", async () => (await model("challenger-1")).sequence === "30");
  const { comparisons } = await it.server.call("GET", "models/champion-1/comparison");
  const challenger = comparisons.find((c) => c.model === "challenger-1");
  for (const id of ["champion-1", "challenger-1"]) {
    await open(id, { width: 390 }, async (page) => {
      await page.getByRole("region", { name: "Champion and challengers" }).waitFor();
      assert.equal(await told(page, "compared.challenger-1.observations"), 30);
      assert.equal(await told(page, "compared.challenger-1.loss"), challenger.performance.prequential.meanLoss);
      assert.equal(await told(page, "compared.challenger-1.followed"), challenger.followed.prequential.meanLoss);
      await accessible(page);
      await fits(page);
    });
  }
  await open("seeded", {}, async (page) => {
    await page.getByText("Nothing was observed yet.").waitFor();
    assert.equal(await page.getByRole("region", { name: "Champion and challengers" }).count(), 0);
  });
});

test("a model that follows another is created by the form", () => visit(it, "#/create", { rejections: [400] }, async (page) => {
  await page.getByRole("textbox", { name: "Id", exact: true }).fill("challenger-2");
  await page.getByLabel("Follows").fill("champion-1");
  await page.getByLabel("Dimension").fill("2");
  const create = page.getByRole("button", { name: "Create", exact: true });
  await checked(page, create);
  await create.click();
  await page.getByRole("heading", { level: 1, name: "challenger-2" }).waitFor();
  await page.getByText("follows champion-1").waitFor();
  assert.equal((await model("challenger-2")).follows, "champion-1");
}));

test("the file of an export is imported, and another file is rejected", () => visit(it, "", { rejections: [400] }, async (page) => {
  const exported = await fetch(`${it.server.url}/v1/models/champion-1:export`);
  const buffer = Buffer.from(await exported.arrayBuffer());
  await press(page, "Import…");
  const dialog = page.getByRole("dialog");
  await accessible(page);
  await dialog.getByLabel("Id").fill("copy");
  await dialog.getByLabel("File of an export").setInputFiles({ name: "other.hindsight", mimeType: "", buffer: Buffer.from("not a model") });
  await press(dialog, "Import");
  assert.match(await dialog.getByRole("alert").innerText(), /INVALID_ARGUMENT/);
  await dialog.getByLabel("File of an export").setInputFiles({ name: "champion-1.hindsight", mimeType: "", buffer });
  await press(dialog, "Import");
  await page.getByRole("heading", { level: 1, name: "copy" }).waitFor();
  assert.equal((await model("copy")).sequence, "70");
}));

test("a seed of 64 bits has all its digits, shown and written by hand", async () => {
  await open("seeded/uses", {}, async (page) => {
    const spec = await page.getByLabel("Spec as JSON").textContent();
    assert.ok(spec.includes(`"seed": "${SEED}",`), spec);
  });
  await visit(it, "#/create", {}, async (page) => {
    await page.getByRole("textbox", { name: "Id", exact: true }).fill("sown");
    await press(page, "As JSON");
    await page.getByRole("textbox", { name: "Spec as JSON" }).fill(`{"dimension": 1, "seed": "${SEED}", "linearAwv": {}}`);
    const create = page.getByRole("button", { name: "Create", exact: true });
    await checked(page, create);
    await create.click();
    await page.getByRole("heading", { level: 1, name: "sown" }).waitFor();
  });
  const raw = await (await fetch(`${it.server.url}/v1/models/sown`)).text();
  assert.ok(raw.includes(SEED), raw);
});

test("the programs have the gRPC address that the server tells", () => open("seeded/try", {}, async (page) => {
  const { grpcHost, grpcPort } = await (await fetch(`${it.server.url}/server.json`)).json();
  await press(page, "grpcurl");
  const address = page.getByLabel("gRPC address of the server");
  await until("the address is there", async () => (await address.inputValue()) === `${grpcHost}:${grpcPort}`);
  assert.ok((await page.locator(".snippet pre").textContent()).includes(`${grpcHost}:${grpcPort} hindsight.v1`));
}));
