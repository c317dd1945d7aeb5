import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { accessible, setup, test, until, visit } from "./harness.mjs";

const tokens = {};
let directory;
const it = setup(undefined, async () => {
  directory = await mkdtemp(join(tmpdir(), "tokens-"));
  const file = ["--tokens", join(directory, "tokens.yaml")];
  for (const [name, role, ...more] of [["ann", "admin"], ["rod", "read"], ["eve", "write"], ["moe", "read", "--models", "m"]]) {
    const out = execFileSync(process.env.HINDSIGHT_SERVER, ["token", "create", ...file, "--name", name, "--role", role, ...more], { encoding: "utf8" });
    tokens[name] = out.trim().split("\n").at(-1);
  }
  return file;
});
after(() => rm(directory, { recursive: true, force: true }));

const signIn = async (page, token) => {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
};

test("a token signs in, and the session ends by signing out", () => visit(it, "", { rejections: [401] }, async (page) => {
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  await accessible(page);
  await signIn(page, "hs_wrong");
  await page.getByRole("alert").getByText("TOKEN_INVALID").waitFor();
  await signIn(page, tokens.ann);
  await page.getByRole("button", { name: "Sign out ann, admin" }).waitFor();
  await page.getByRole("heading", { level: 1, name: "Models" }).waitFor();
  await accessible(page);
  // No script can read the cookie, and nothing keeps the token.
  assert.equal(await page.evaluate(() => document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)), "{}{}");
  const made = await page.evaluate(async () => (await fetch("v1/models", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ id: "m", spec: { dimension: 2, linearAwv: {} } }),
  })).status);
  assert.equal(made, 200);
  await page.goto(`${it.server.url}/#/models/m`);
  await page.locator(".link-live").waitFor();
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
  await page.getByRole("button", { name: "Sign out ann, admin" }).click();
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  await until("the cookie is gone", async () => (await page.context().cookies()).length === 0);
}));

test("who may not administer is not offered to", () => visit(it, "", { rejections: [401] }, async (page) => {
  for (const [token, offered] of [[tokens.rod, 0], [tokens.eve, 0], [tokens.ann, 1]]) {
    await page.goto(`${it.server.url}/#/`);
    await signIn(page, token);
    await page.getByRole("link", { name: "m", exact: true }).waitFor();
    const main = page.getByRole("main");
    assert.equal(await page.getByRole("link", { name: "Create", exact: true }).count(), offered, "Create");
    assert.equal(await main.getByRole("link", { name: "Create a model" }).count(), offered, "Create a model");
    assert.equal(await main.getByRole("button", { name: "Import…" }).count(), offered, "Import");
    await page.goto(`${it.server.url}/#/models/m`);
    await page.locator(".link-live").waitFor();
    await page.getByRole("tab", { name: "Operate" }).click();
    await page.getByRole("region", { name: "Snapshots" }).waitFor();
    for (const name of ["Edit…", "Export", "Delete…", "Snapshot now", "Restore…", "Set"]) {
      assert.equal(await main.getByRole("button", { name, exact: true }).count(), offered, name);
    }
    const writes = token === tokens.rod ? 0 : 1;
    await page.getByRole("tab", { name: "Try" }).click();
    assert.equal(await main.getByRole("button", { name: "Observe", exact: true }).count(), writes, "Observe");
    assert.equal(await main.getByLabel(/A label will come/).count(), writes, "remember");
    // A reader predicts, and the server keeps nothing.
    await main.getByLabel("Features").first().fill("1 2");
    await main.getByRole("button", { name: "Predict", exact: true }).click();
    await main.locator('[data-name="prediction.value"]').waitFor();
    await page.goto(`${it.server.url}/#/csv`);
    await main.getByText(offered ? "A model of a CSV file" : "Creating a model needs the role admin.").first().waitFor();
    await page.goto(`${it.server.url}/#/create`);
    await main.getByText(offered ? "Create a model" : "Creating a model needs the role admin.").first().waitFor();
    await page.getByRole("button", { name: /^Sign out/ }).click();
    await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  }
}));

test("who may not see all models is not offered what is over all of them", () => visit(it, "", { rejections: [401] }, async (page) => {
  for (const [token, offered] of [[tokens.moe, 0], [tokens.rod, 1]]) {
    await page.goto(`${it.server.url}/#/`);
    await signIn(page, token);
    await page.getByRole("link", { name: "m", exact: true }).click();
    await page.locator(".link-live").waitFor();
    assert.equal(await page.getByRole("link", { name: "Metrics" }).count(), offered, "Metrics");
    await page.getByRole("tab", { name: "Operate" }).click();
    await page.getByRole("heading", { name: "Snapshots" }).waitFor();
    assert.equal(await page.getByRole("heading", { name: "Latency since the server started" }).count(), offered, "Latency");
    await page.getByRole("button", { name: /^Sign out/ }).click();
    await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  }
}));

test("a session that ends asks for a token again", () => visit(it, "", { rejections: [401, 403] }, async (page) => {
  await signIn(page, tokens.rod);
  await page.getByRole("heading", { level: 1, name: "Models" }).waitFor();
  await page.context().clearCookies();
  // The list may ask by itself first, and leave no search to fill.
  page.getByLabel("Search by id or name").fill("x").catch(() => {});
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
}));

test("the programs of a server that asks for tokens read one from the environment", () => visit(it, "", { rejections: [401] }, async (page) => {
  await signIn(page, tokens.ann);
  await page.getByRole("heading", { level: 1, name: "Models" }).waitFor();
  await page.goto(`${it.server.url}/#/models/m/try`);
  const program = page.locator(".snippet pre");
  const wants = { curl: 'curl -H "Authorization: Bearer $HINDSIGHT_TOKEN" --json', grpcurl: '-H "authorization: Bearer $HINDSIGHT_TOKEN"', Python: 'token=os.environ["HINDSIGHT_TOKEN"]', Go: 'client.TokenText(os.Getenv("HINDSIGHT_TOKEN"))' };
  for (const [language, want] of Object.entries(wants)) {
    await page.getByRole("group", { name: "Language" }).getByRole("button", { name: language, exact: true }).click();
    await until(`${language} has the token`, async () => (await program.textContent()).includes(want));
    assert.ok(!(await program.textContent()).includes(tokens.ann));
  }
}));

test("a token that is revoked ends the page of a model", () => visit(it, "", { rejections: [401] }, async (page) => {
  await signIn(page, tokens.eve);
  await page.getByRole("heading", { level: 1, name: "Models" }).waitFor();
  await page.goto(`${it.server.url}/#/models/m`);
  await page.locator(".link-live").waitFor();
  const file = join(directory, "tokens.yaml");
  await writeFile(file, (await readFile(file, "utf8")).replace(/- name: eve\n( .*\n)*/, ""));
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
}));
