import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { learn, rows, seen, setup, stats, test, told, until, visit } from "./harness.mjs";

const it = setup();
const many = 120;

test("an empty list says how to begin", () => visit(it, "", {}, async (page) => {
  await page.getByRole("heading", { name: "No models yet" }).waitFor();
  const [create] = await page.locator(".empty pre").allTextContents();
  await page.locator(".empty").getByRole("link", { name: "create it here" }).click();
  await page.getByRole("heading", { name: "Create a model" }).waitFor();
  // The command is given to a shell as it stands.
  const answer = JSON.parse(execFileSync("sh", ["-c", create], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
  assert.equal(answer.model?.id, "demo", JSON.stringify(answer));
  await it.server.call("DELETE", "models/demo?purge=true");
}));

test("a list that is opened while the server is away comes when the server is back", () => visit(it, "", { failures: true }, async (page) => {
  await page.getByRole("heading", { name: "No models yet" }).waitFor();
  for (const away of ["**/server.json", "**/v1/**"]) {
    await page.route(away, (route) => route.abort());
    await page.evaluate(() => location.reload());
    await page.getByRole("alert").first().getByText("The server did not answer. Is it running?").waitFor();
    await page.unroute(away);
    await page.getByRole("heading", { name: "No models yet" }).waitFor();
    await until("no failure is shown", async () => (await page.getByRole("alert").count()) === 0);
  }
}));

test("a list tells the figures that GetModelStats tells", async () => {
  await learn(it.server, "wave", { dimension: 2, fourierAwv: {} }, rows(400), { displayName: "A wave" });
  await learn(it.server, "noise", { dimension: 2, linearAwv: {} }, rows(60).map((r, i) => ({ ...r, label: i % 2 })), { labels: { team: "rides", env: "a=b" } });
  const s = await stats(it.server, "wave");
  await visit(it, "", {}, async (page) => {
    const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: "wave" }) });
    await row.waitFor();
    const titles = await row.locator(".num").evaluateAll((all) => all.map((e) => Number(e.title)));
    const served = s.recent.served;
    assert.deepEqual(titles.slice(0, 4), [s.observations, served.skill, served.meanLoss, s.regret]);
    assert.match(await row.innerText(), /A wave[^]*▲ better than trivial[^]*fourier_awv[^]*in memory/);
    // The worst is first. The keys reach it.
    assert.equal(await page.locator("tbody th a").first().textContent(), "noise");
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.type), "search");
    for (const [key, name] of [["ArrowDown", "noise"], ["ArrowDown", "wave"], ["ArrowUp", "noise"]]) {
      await page.keyboard.press(key);
      assert.equal(await page.evaluate(() => document.activeElement.textContent), name);
    }
  });
});

test("the search asks the server, and says when nothing matches", () => visit(it, "", {}, async (page) => {
  const search = page.getByRole("searchbox");
  await search.fill("WAV");
  await until("one model is left", async () => (await page.locator("tbody tr").count()) === 1);
  await search.fill("a wave");
  await page.getByRole("link", { name: "wave" }).waitFor();
  await search.fill("nothing of the kind");
  await page.getByText("No model matches.").waitFor();
}));

test("the columns sort, by the keyboard too", () => visit(it, "", {}, async (page) => {
  await page.getByRole("button", { name: "Observations" }).press("Enter");
  const first = page.locator("tbody th a").first();
  await until("the largest is first", async () => (await first.textContent()) === "wave");
  assert.equal(await page.getByRole("columnheader", { name: "Observations" }).getAttribute("aria-sort"), "descending");
  await page.getByRole("button", { name: "Observations" }).press("Enter");
  await until("the smallest is first", async () => (await first.textContent()) === "noise");
  await page.getByRole("button", { name: "Served skill" }).click();
  await until("the best is first", async () => (await first.textContent()) === "wave");
}));

test("tags filter the list, the address keeps them, and last seen is a time", () => visit(it, "", {}, async (page) => {
  const names = () => page.locator("tbody th a").allTextContents();
  const { models } = await it.server.call("GET", "models?includeSummary=true&contains=noise");
  const seenAt = page.getByRole("row").filter({ has: page.getByRole("link", { name: "noise" }) }).locator("time");
  assert.equal(await seenAt.getAttribute("datetime"), models[0].summary.observeTime);
  await page.getByRole("button", { name: "Filter by env=a=b" }).press("Enter");
  await until("one is left", async () => (await names()).join() === "noise");
  const tag = page.getByLabel("Filter by tag");
  await tag.fill("team=none");
  await tag.press("Enter");
  await page.getByText("No model matches.").waitFor();
  await page.getByRole("button", { name: "Remove the filter team=none" }).press("Enter");
  await until("one is back", async () => (await names()).join() === "noise");
  await page.reload();
  await until("the address keeps the tag", async () => (await names()).join() === "noise");
  await page.getByRole("button", { name: "Remove the filter env=a=b" }).click();
  await until("all are back", async () => (await names()).length === 2);
}));

test("the list fits a phone, and its links lead to OpenAPI and the metrics", () => visit(it, "", { width: 390 }, async (page) => {
  await page.getByRole("link", { name: "wave" }).waitFor();
  const [content, box] = await page.getByRole("group", { name: "Models", exact: true }).evaluate((e) => [e.scrollWidth, e.clientWidth]);
  assert.ok(content <= box, `the table is ${content} wide, its place ${box}`);
  for (const [name, text] of [["OpenAPI", '"openapi"'], ["Metrics", "hindsight_models"]]) {
    const href = await page.getByRole("contentinfo").getByRole("link", { name, exact: true }).getAttribute("href");
    assert.ok((await (await fetch(`${it.server.url}/${href}`)).text()).includes(text), name);
  }
}));

test("many models come in pages, and the address keeps the page", async () => {
  for (let i = 0; i < many; i++) await learn(it.server, `m-${String(i).padStart(3, "0")}`, { dimension: 1, linearAwv: {} }, []);
  await visit(it, "", {}, async (page) => {
    const names = () => page.locator("tbody th a").allTextContents();
    await page.getByText(`1–50 of ${many + 2} models`).waitFor();
    assert.equal(await page.getByRole("button", { name: "Previous" }).isDisabled(), true);
    // Until the second page arrives, the range belongs to the first page, and another click asks for the second page again.
    let release;
    const held = new Promise((resolve) => { release = resolve; });
    await page.route(/models\?/, (route) => held.then(() => route.continue()));
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText(`1–50 of ${many + 2} models`).waitFor();
    release();
    await page.getByText(`51–100 of ${many + 2} models`).waitFor();
    await page.unrouteAll({ behavior: "wait" });
    const second = await names();
    assert.equal(second[0], "m-048"); // Two models have a skill, and come first.
    await page.reload();
    await page.getByText(`51–100 of ${many + 2} models`).waitFor();
    assert.deepEqual(await names(), second);
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText(`101–${many + 2} of ${many + 2} models`).waitFor();
    assert.equal(await page.getByRole("button", { name: "Next" }).isDisabled(), true);
    await page.getByRole("button", { name: "Previous" }).click();
    await page.getByText(`51–100 of ${many + 2} models`).waitFor();
  });
});

test("the list follows what is observed, and what was observed while it was hidden", async () => {
  const observe = () => it.server.call("POST", "models/noise:observe", { features: [0, 0], label: 1 });
  await visit(it, "", {}, async (page) => {
    // The clock of the page goes forward when the test says so.
    await page.clock.install();
    await page.goto(`${it.server.url}/#/?contains=noise`);
    const observations = page.locator("tbody tr td").nth(3);
    const shows = async (n) => {
      await page.clock.runFor(6000);
      return (await observations.innerText()) === String(n);
    };
    await until("60 observations", () => shows(60));
    await observe();
    await until("61 observations", () => shows(61));
    await seen(page, false);
    await page.clock.runFor(60_000);
    await observe();
    await seen(page, true);
    await until("62 observations", () => shows(62));
  });
});

test("the search shows what the address asks for", () => visit(it, "#/?contains=noise", {}, async (page) => {
  const search = page.getByRole("searchbox");
  await until("one model is listed", async () => (await page.locator("tbody tr").count()) === 1);
  assert.equal(await search.inputValue(), "noise");
  await page.getByRole("link", { name: "Models", exact: true }).click();
  await until("all are listed", async () => (await page.locator("tbody tr").count()) > 1);
  assert.equal(await search.inputValue(), "");
}));

test("a model that is opened while the server is away comes when the server is back", () => visit(it, "", { failures: true }, async (page) => {
  await page.getByRole("heading", { level: 1, name: "Models" }).waitFor();
  await page.route("**/v1/models/wave**", (route) => route.abort());
  await page.evaluate(() => { location.hash = "#/models/wave"; });
  await page.getByRole("alert").getByText("The server did not answer").waitFor();
  await page.unroute("**/v1/models/wave**");
  await page.locator(".link-live").waitFor();
  await until("the figures are there", async () => (await page.locator('[data-name="observations"]').count()) > 0);
}));

test("a spec that is typed while the server is away is checked when the server is back", () => visit(it, "", { failures: true }, async (page) => {
  await page.getByRole("heading", { level: 1, name: "Models" }).waitFor();
  await page.route("**/v1/specs:validate", (route) => route.abort());
  await page.evaluate(() => { location.hash = "#/create"; });
  await page.getByRole("alert").getByText("The server did not answer").waitFor();
  await page.unroute("**/v1/specs:validate");
  await page.locator('[data-name="features"]').waitFor();
  await until("no failure is shown", async () => (await page.getByRole("alert").count()) === 0);
}));

test("a broken address is a model that is not there", () => visit(it, "#/models/%zz", { rejections: [400, 404] }, async (page) => {
  await page.getByRole("heading", { level: 1, name: "%zz" }).waitFor();
  await page.getByRole("alert").first().waitFor();
}));

test("a model opens from the list, and back", () => visit(it, "", {}, async (page) => {
  await page.getByRole("searchbox").fill("wave");
  await page.getByRole("link", { name: "wave" }).click();
  await page.getByRole("heading", { level: 1, name: "wave" }).waitFor();
  assert.equal(await page.title(), "wave · hindsight");
  await until("the figures are there", async () => (await page.locator('[data-name="observations"]').count()) > 0);
  assert.equal(await told(page, "observations"), 400);
  await page.goBack();
  await page.getByRole("heading", { level: 1, name: "Models" }).waitFor();
}));
