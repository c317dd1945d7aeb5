import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { checked, learn, rows, setup, stats, test, told, until, visit } from "./harness.mjs";

const it = setup(async (server) => {
  await learn(server, "plain", { dimension: 2, linearAwv: {} }, rows(50));
  await learn(server, "gated", { dimension: 2 }, rows(50));
  await learn(server, "two", { dimension: 2, outputs: 2, coverage: [0.9], linearAwv: {} }, rows(60).map((r) => (
    { features: r.features, labels: { values: [r.label, 2 * r.label] } })));
  await learn(server, "named", {
    inputs: [{ name: "age", numeric: {} }, { name: "member", boolean: {} }, { name: "city", categorical: {} }], classes: {}, linearAwv: {},
  }, []);
});

const WIDE = Array.from({ length: 120 }, (_, i) => ({ name: `input_${i}`, numeric: {} }));

const open = (id, does, options = {}) => visit(it, `#/models/${id}/try`, options, async (page) => {
  await page.getByRole("heading", { level: 1, name: id }).waitFor();
  const predict = page.getByRole("region", { name: "Predict", exact: true });
  const observe = page.getByRole("region", { name: "Observe", exact: true });
  await predict.waitFor();
  await does(page, predict, observe);
});

const press = (where, name) => where.getByRole("button", { name, exact: true }).click();

test("predict by features, then observe that prediction", () => open("plain", async (page, predict, observe) => {
  await predict.getByLabel("Features").fill("0.25, -0.5");
  assert.match(await predict.innerText(), /2 of 2 numbers/);
  await press(predict, "Predict");
  await predict.locator('[data-name="prediction.value"]').waitFor();
  const direct = await it.server.call("POST", "models/plain:predict", { features: [0.25, -0.5], remember: false });
  assert.equal(await told(page, "prediction.value"), direct.prediction.value);
  assert.notEqual(await observe.getByLabel("Prediction id").inputValue(), "");
  await observe.getByLabel("Label").fill("0");
  await press(observe, "Observe");
  await observe.locator('[data-name="outcome.sequence"]').waitFor();
  assert.equal(await told(page, "outcome.sequence"), 51);
  const loss = await told(page, "outcome.loss");
  assert.ok(Math.abs(loss - direct.prediction.value ** 2) < 1e-12, `the loss of 0 is ${loss}`);
  await until("the figures follow", async () => (await told(page, "observations")) === 51);
  assert.equal((await stats(it.server, "plain")).servedObservations, "1");
}));

test("predict without a label to come leaves nothing to observe", () => open("plain", async (page, predict, observe) => {
  await predict.getByLabel("Features").fill("1 1");
  await predict.getByLabel(/A label will come/).uncheck();
  await press(predict, "Predict");
  await predict.locator('[data-name="prediction.value"]').waitFor();
  assert.equal(await predict.getByText("Prediction id").count(), 0);
  assert.equal(await observe.getByLabel("Prediction id").inputValue(), "");
  assert.equal((await stats(it.server, "plain")).pendingLabels, 0);
}));

test("a label that cannot be right is set aside, and the answer says so", () => open("gated", async (page, _, observe) => {
  await press(observe, "An input");
  await observe.getByLabel("Features").fill("0.1 0.2");
  await observe.getByLabel("Label").fill("1e6");
  await press(observe, "Observe");
  await observe.getByText("It cannot be right: the model did not learn it.").waitFor();
  assert.equal(await told(page, "outcome.sequence"), 51);
}));

test("observe an input once, however often it is sent", () => open("plain", async (page, _, observe) => {
  const before = (await stats(it.server, "plain")).observations;
  await press(observe, "An input");
  await observe.getByLabel("Features").fill("0.1 0.2");
  await observe.getByLabel("Label").fill("0.3");
  await observe.getByLabel("Weight").fill("2");
  await observe.getByLabel("Observation id").fill("by-hand");
  await press(observe, "Observe");
  await observe.locator('[data-name="outcome.sequence"]').waitFor();
  assert.equal(await told(page, "outcome.sequence"), before + 1);
  await observe.getByLabel("Label").fill("0.3");
  await observe.getByLabel("Observation id").fill("by-hand");
  await press(observe, "Observe");
  await observe.getByText("It had been learned before.").waitFor();
  assert.equal((await stats(it.server, "plain")).observations, before + 1);
}));

test("named inputs and classes", () => open("named", async (page, predict, observe) => {
  await press(observe, "An input");
  for (const [age, member, city, label] of [["31", "true", "Bern", "yes"], ["52", "false", "", "no"]]) {
    await observe.getByLabel("age").fill(age);
    await observe.getByLabel("member").selectOption(member);
    await observe.getByLabel("city").fill(city);
    await observe.getByLabel("Class", { exact: true }).fill(label);
    const before = (await stats(it.server, "named")).observations;
    await press(observe, "Observe");
    await until("it was learned", async () => (await stats(it.server, "named")).observations === before + 1);
  }
  await predict.getByLabel("age").fill("31");
  await predict.getByLabel("city").fill("Bern");
  await press(predict, "Predict");
  await predict.locator('[data-name="prediction.class"]').waitFor();
  assert.match(await predict.innerText(), /P\(yes\)[^]*%/);
  const s = await stats(it.server, "named");
  assert.deepEqual(s.inputs.map((i) => i.missing), ["0", "0", "1"]);
}));

test("a wide model takes JSON, and its tables are short", async () => {
  const inputs = (v) => Object.fromEntries(WIDE.map(({ name }, i) => [name, v + i / 100]));
  await learn(it.server, "wide", { inputs: WIDE, linearAwv: {} }, rows(40).map((r) => ({ inputs: inputs(r.features[0]), label: r.label })));
  await open("wide", async (page, predict, observe) => {
    assert.equal(await predict.getByRole("textbox").count(), 1);
    const field = predict.getByLabel("Inputs", { exact: true });
    await field.fill("{");
    await predict.getByText(/JSON/).first().waitFor();
    await field.fill('{"inputs": {"input_0": 1, "nobody": 2}}');
    await predict.getByText('"nobody" is no input of the model.').waitFor();
    await field.fill(JSON.stringify(inputs(0.25)));
    await predict.getByText("120 of 120 inputs.").waitFor();
    await press(predict, "Predict");
    await predict.locator('[data-name="prediction.value"]').waitFor();
    const direct = await it.server.call("POST", "models/wide:predict", { inputs: inputs(0.25), remember: false });
    assert.equal(await told(page, "prediction.value"), direct.prediction.value);
    await press(observe, "An input");
    await observe.getByLabel("Inputs", { exact: true }).fill("[1]");
    await observe.getByLabel("Label").fill("1");
    await press(observe, "Observe");
    await observe.getByRole("alert").getByText("not an object of JSON").waitFor();
    await page.getByRole("tab", { name: "Labels and inputs" }).click();
    const table = page.getByRole("group", { name: "Inputs", exact: true });
    assert.equal(await table.locator("tbody tr").count(), 20);
    await page.getByRole("button", { name: "Show all 120 inputs" }).press("Enter");
    assert.equal(await table.locator("tbody tr").count(), 120);
  });
});

test("features and named inputs are pasted as JSON", async () => {
  await open("plain", async (page, predict) => {
    await predict.getByLabel("Features").fill("[0.25, -0.5]");
    await predict.getByText("2 of 2 numbers").waitFor();
    await press(predict, "Predict");
    await predict.locator('[data-name="prediction.value"]').waitFor();
  });
  await open("named", async (page, predict) => {
    await press(predict, "As JSON");
    await predict.getByLabel("Inputs", { exact: true }).fill('{"age": 31, "city": "Bern"}');
    await predict.getByText("2 of 3 inputs.").waitFor();
    await press(predict, "Predict");
    await predict.locator('[data-name="prediction.class"]').waitFor();
  });
});

test("several labels", () => open("two", async (page, predict, observe) => {
  await press(observe, "An input");
  await observe.getByLabel("Features").fill("1 2");
  await observe.getByLabel("Labels").fill("3, 4");
  await press(observe, "Observe");
  await observe.locator('[data-name="outcome.sequence"]').waitFor();
  await predict.getByLabel("Features").fill("1 2");
  await press(predict, "Predict");
  await predict.getByText("Values").waitFor();
  await predict.getByText("90 % intervals").waitFor();
}));

test("rejections of the forms say which field is wrong", () => open("plain", async (page, predict, observe) => {
  await predict.getByLabel("Features").fill("1 2 3");
  await press(predict, "Predict");
  assert.match(await predict.getByRole("alert").innerText(), /features[^]*3[^]*2[^]*INVALID_ARGUMENT · DIMENSION_MISMATCH/);
  await observe.getByLabel("Prediction id").fill("no-such");
  await observe.getByLabel("Label").fill("1");
  await press(observe, "Observe");
  await until("the rejection is there", async () => /NOT_FOUND · PREDICTION_NOT_FOUND/.test(await observe.innerText()));
  await observe.getByLabel("Label").fill("");
  await press(observe, "Observe");
  await until("the label is missed", async () => /LABEL_MISSING/.test(await observe.innerText()));
}, { rejections: [400, 404] }));

test("a server that does not answer is an error that says so", () => open("plain", async (page, predict) => {
  await page.route("**/v1/models/plain:predict", (route) => route.abort());
  await predict.getByLabel("Features").fill("1 2");
  await press(predict, "Predict");
  await predict.getByText("The server did not answer. Is it running?").waitFor();
  await page.unroute("**/v1/models/plain:predict");
  await press(predict, "Predict");
  await predict.locator('[data-name="prediction.value"]').waitFor();
  assert.equal(await predict.getByRole("alert").count(), 0);
}, { failures: true }));

test("what is no number is rejected, and not learned as another one", async () => {
  await open("plain", async (page, predict, observe) => {
    const before = (await stats(it.server, "plain")).observations;
    await press(observe, "An input");
    await observe.getByLabel("Features").fill("0.1 0.2");
    for (const [label, weight, wrong] of [["1,5", "", "1,5"], ["1 2", "", "1 2"], ["1e999", "", "1e999"], ["1", "0,5", "0,5"], ["1", "heavy", "heavy"]]) {
      await observe.getByLabel("Label").fill(label);
      await observe.getByLabel("Weight").fill(weight);
      await press(observe, "Observe");
      await until(`${wrong} is rejected`, async () => (await observe.getByRole("alert").allInnerTexts()).some((text) => text.includes(wrong)));
    }
    assert.equal((await stats(it.server, "plain")).observations, before);
  }, { rejections: [400] });
  await open("named", async (page, predict) => {
    await predict.getByLabel("age").fill("1e999");
    await press(predict, "Predict");
    assert.match(await predict.getByRole("alert").innerText(), /1e999/);
  }, { rejections: [400] });
});

const creating = (does, options) => visit(it, "#/create", options ?? {}, async (page) => {
  await page.getByRole("heading", { level: 1, name: "Create a model" }).waitFor();
  await does(page, page.getByRole("button", { name: "Create", exact: true }));
});

test("the spec is checked as it is typed, beside its fields, and its cost is told", () => creating(async (page, create) => {
  const features = page.locator('[data-name="features"]');
  await features.waitFor();
  const why = async () => page.locator(`#${await create.getAttribute("aria-describedby")}`).innerText();
  assert.equal(await why(), "The model needs an id.");
  await page.getByRole("combobox", { name: "Learner" }).selectOption("linear_awv");
  await page.getByLabel("Dimension").fill("7");
  await until("the cost follows", async () => (await features.textContent()) === "8");
  const { stateBytes, observeFlops } = await it.server.call("POST", "specs:validate", { spec: { dimension: 7, linearAwv: {} } });
  assert.equal(await page.locator('[data-name="stateBytes"]').getAttribute("title"), `${stateBytes} bytes`);
  assert.ok((await page.locator('[data-name="observeFlops"]').textContent()).startsWith(Number(observeFlops).toLocaleString("en-US")));
  const ridge = page.getByLabel("lambda", { exact: true });
  await ridge.fill("-1");
  await until("the ridge is wrong", async () => (await ridge.getAttribute("aria-invalid")) === "true");
  const below = page.locator(`#${(await ridge.getAttribute("aria-describedby")).replace(/[:]/g, "\\:")}`);
  assert.match(await below.innerText(), /got -1/);
  assert.match(await page.getByRole("alert").innerText(), /INVALID_SPEC/);
  await page.getByLabel("Id", { exact: true }).fill("right");
  assert.equal(await create.isDisabled(), true);
  assert.equal(await why(), "The server rejects the spec, see above.");
  await ridge.fill("0.5");
  await until("all is well", async () => !(await create.isDisabled()));
  assert.equal(await why(), "");
  await page.getByLabel("Id", { exact: true }).fill("Not An Id");
  assert.equal(await why(), "The id is wrong: see its field.");
  assert.equal(await create.isDisabled(), true);
}, { rejections: [400] }));

test("a model with every choice of the form is created as it was described", () => creating(async (page, create) => {
  await page.getByLabel("Id", { exact: true }).fill("riders");
  await page.getByLabel("Display name").fill("Riders of tomorrow");
  await page.getByLabel("Tags", { exact: true }).fill("team=rides\nenv=test");
  await page.getByRole("button", { name: "Named inputs" }).click();
  await page.getByLabel("Name of input 1").fill("hour");
  await page.getByRole("button", { name: "Add an input" }).click();
  await page.getByLabel("Name of input 2").fill("weather");
  await page.getByLabel("Kind of input 2").selectOption("categorical");
  await page.getByRole("button", { name: "Add an input" }).click();
  await page.getByRole("button", { name: "Remove input 3" }).click();
  await page.getByLabel("Labels are").selectOption("classes");
  await page.getByLabel("Maximum of classes").fill("4");
  await page.getByLabel("Seed").fill("18446744073709551615");
  await page.getByRole("combobox", { name: "Learner" }).selectOption("rlsc");
  await page.getByLabel("kernel", { exact: true }).selectOption("KIND_LAPLACIAN");
  await page.getByLabel("kernel.sigma").fill("2");
  await checked(page, create);
  await create.click();
  await page.getByRole("heading", { level: 1, name: "riders" }).waitFor();
  await page.getByText("Model riders was created.").waitFor();
  await page.getByText("Nothing was observed yet.").waitFor();
  const { model } = await it.server.call("GET", "models/riders");
  assert.equal(model.displayName, "Riders of tomorrow");
  assert.deepEqual(model.labels, { team: "rides", env: "test" });
  assert.deepEqual(model.spec.inputs.map((i) => [i.name, "categorical" in i]), [["hour", false], ["weather", true]]);
  assert.equal(model.spec.classes.maxClasses, 4);
  assert.equal(model.spec.rlsc.kernel.kind, "KIND_LAPLACIAN");
  assert.equal(model.spec.rlsc.kernel.sigma, 2);
  // On a busy machine a spec that is half typed is checked, and rejected.
}, { rejections: [400] }));

test("every learner of the form is one of the server", () => creating(async (page) => {
  const options = page.getByRole("combobox", { name: "Learner" }).locator("option");
  await options.first().waitFor({ state: "attached" });
  const learners = await options.allTextContents();
  for (const name of learners) {
    await page.getByRole("combobox", { name: "Learner" }).selectOption({ label: name });
    await until(`${name} is checked`, async () => (await page.locator(".cost").getAttribute("aria-busy")) === "false");
    assert.equal(await page.getByRole("alert").count(), 0, name);
    assert.equal(await page.locator('[data-name="features"]').count(), 1, name);
  }
  assert.equal(learners.length, 14);
}));

test("bounds of labels are described by the form", () => creating(async (page, create) => {
  await page.getByLabel("Id", { exact: true }).fill("counts");
  await page.getByLabel("Smallest label").fill("0.5");
  await page.getByLabel("Whole labels").check();
  await page.getByText("got 0.5, want a whole number, because integer is true", { exact: true }).waitFor();
  await page.getByLabel("Smallest label").fill("0");
  await checked(page, create);
  await create.click();
  await page.getByRole("heading", { level: 1, name: "counts" }).waitFor();
  const { model } = await it.server.call("GET", "models/counts");
  assert.deepEqual(model.spec.label, { min: 0, integer: true });
}, { rejections: [400] }));

test("a spec as JSON", () => creating(async (page, create) => {
  await page.getByLabel("Id", { exact: true }).fill("written");
  await page.getByRole("button", { name: "As JSON" }).click();
  const text = page.getByLabel("Spec as JSON");
  await text.fill('{"dimension": 3, ');
  await page.getByText(/^Not JSON/).waitFor();
  await text.fill('{"dimension": 3, "fogd": {"frequencies": 20}}');
  await checked(page, create);
  await create.click();
  await page.getByRole("heading", { level: 1, name: "written" }).waitFor();
  assert.equal((await it.server.call("GET", "models/written")).model.spec.fogd.frequencies, 20);
}));

test("an id that another model has is rejected", () => creating(async (page, create) => {
  await page.getByLabel("Id", { exact: true }).fill("plain");
  await checked(page, create);
  await create.click();
  await until("the rejection is there", async () => /ALREADY_EXISTS · MODEL_EXISTS/.test(await page.getByRole("alert").innerText()));
}, { rejections: [409] }));

test("a snapshot is written, and the model restored to it after a dry run", async () => {
  await learn(it.server, "kept", { dimension: 2, linearAwv: {} }, rows(30));
  await open("kept", async (page) => {
    await page.getByRole("tab", { name: "Operate" }).click();
    const snapshots = page.locator("#snapshots");
    await press(snapshots, "Snapshot now");
    await snapshots.getByRole("rowheader", { name: "30" }).waitFor();
    await it.server.call("POST", "models/kept:observeBatch", { observations: rows(12, 3) });
    await until("the page knows of them", async () => (await told(page, "observations")) === 42);
    await page.getByRole("button", { name: "Restore to 30" }).click();
    const dialog = page.getByRole("dialog", { name: "Restore kept" });
    const restore = dialog.getByRole("button", { name: "Restore", exact: true });
    assert.equal(await restore.isDisabled(), true);
    await press(dialog, "Dry run");
    await dialog.getByText("12 observations would be undone.").waitFor();
    assert.equal((await stats(it.server, "kept")).observations, 42);
    await dialog.getByLabel("Back to observation").fill("35");
    assert.equal(await restore.isDisabled(), true);
    await press(dialog, "Dry run");
    await dialog.getByText("7 observations would be undone.").waitFor();
    await restore.click();
    await page.getByText("kept is back at observation 35.").waitFor();
    await until("the figures follow", async () => (await told(page, "observations")) === 35);
    assert.equal((await stats(it.server, "kept")).observations, 35);
  });
});

test("a restore that cannot be is rejected in its dialog", () => open("kept", async (page) => {
  await page.getByRole("tab", { name: "Operate" }).click();
  await page.locator("#snapshots").getByRole("button", { name: "Restore…", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Back to observation").fill("9999");
  await press(dialog, "Dry run");
  await dialog.getByRole("alert").waitFor();
  await dialog.getByLabel("Back to observation").fill("soon");
  assert.equal(await dialog.getByRole("button", { name: "Dry run" }).isDisabled(), true);
}, { rejections: [400, 404, 416] }));

test("an export is the model's bytes", () => open("kept", async (page) => {
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export" }).click()]);
  assert.equal(download.suggestedFilename(), "kept.hindsight");
  const bytes = await readFile(await download.path());
  const answer = await fetch(`${it.server.url}/v1/models:import?id=copied`, {
    method: "POST", body: bytes, headers: { "Content-Type": "application/octet-stream" },
  });
  assert.equal(answer.status, 200, await answer.text());
  assert.equal((await stats(it.server, "copied")).stateDigest, (await stats(it.server, "kept")).stateDigest);
}));

test("a model is deleted once its id is typed, and can be brought back", async () => {
  await learn(it.server, "gone", { dimension: 2, linearAwv: {} }, rows(5));
  await open("gone", async (page) => {
    await page.getByRole("button", { name: "Delete…" }).click();
    const dialog = page.getByRole("dialog", { name: "Delete gone" });
    const remove = dialog.getByRole("button", { name: "Delete", exact: true });
    await dialog.getByLabel("Type gone to confirm").fill("gon");
    assert.equal(await remove.isDisabled(), true);
    await dialog.getByLabel("Type gone to confirm").fill("gone");
    await remove.click();
    await page.getByText("gone was deleted.").waitFor();
    await page.getByRole("heading", { level: 1, name: "Models" }).waitFor();
    await page.getByRole("button", { name: "Bring it back" }).click();
    await page.getByRole("heading", { level: 1, name: "gone" }).waitFor();
    assert.equal((await stats(it.server, "gone")).observations, 5);
  });
});

test("a deleted model is listed when it is asked for, and undeleted there", async () => {
  await it.server.call("DELETE", "models/gone");
  await visit(it, "", {}, async (page) => {
    await page.getByRole("link", { name: "plain" }).waitFor();
    assert.equal(await page.getByRole("rowheader", { name: "gone" }).count(), 0);
  });
  await visit(it, "#/models/gone", { rejections: [404] }, async (page) => {
    await page.getByRole("link", { name: "in the list of models" }).click();
    const row = page.getByRole("row", { name: /gone/ });
    await row.getByText("deleted").waitFor();
    await row.getByRole("button", { name: "Undelete gone" }).click();
    await page.getByText("gone is back.").waitFor();
    await row.getByRole("link", { name: "gone" }).waitFor();
    assert.equal((await stats(it.server, "gone")).observations, 5);
  });
});

test("a purge leaves nothing to bring back", async () => {
  await learn(it.server, "purged", { dimension: 2, linearAwv: {} }, []);
  await open("purged", async (page) => {
    await page.getByRole("button", { name: "Delete…" }).click();
    await page.getByLabel("Type purged to confirm").fill("purged");
    await page.getByLabel(/At once/).check();
    await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByText("purged was deleted.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Bring it back" }).count(), 0);
  });
  await assert.rejects(it.server.call("POST", "models/purged:undelete", {}), /MODEL_NOT_FOUND/);
});
