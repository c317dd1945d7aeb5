import assert from "node:assert/strict";
import { after } from "node:test";
import { accessible, fits, ports, setup, startServer, test, until, visit } from "./harness.mjs";

const others = [];
const it = setup(undefined, async () => {
  const peers = (await ports(3)).map((port) => `127.0.0.1:${port}`);
  const [own, ...more] = peers.map((peer) => ["--cluster-address", peer, "--cluster-join", peers.join(",")]);
  for (const flags of more) others.push(await startServer(flags));
  return own;
});
after(() => Promise.all(others.map((s) => s.stop())));

const alone = setup();

const grouped = setup(undefined, async () => ["--cluster-address", `127.0.0.1:${(await ports(1))[0]}`, "--cluster-groups", "4"]);

/** BUSY: a change is rejected while a server answers late or the owner changes, as on a busy machine. */
const BUSY = { rejections: [400, 503] };

/** act clicks a button, again after a rejection, until the notice of the page has what the caller waits for. */
const act = (page, button, done) => until("the page says that it is done", async () => {
  const [notice = ""] = await page.locator(".notice").allInnerTexts();
  if (await done(notice)) return true;
  // The button may vanish under the click, because the page follows the cluster.
  await button().click({ timeout: 1000 }).catch(() => {});
  return false;
});

test("the page shows the groups of a cluster, and rebalances", () => visit(grouped, "#/servers", BUSY, async (page) => {
  const groups = page.getByRole("group", { name: "Groups", exact: true }).locator("tbody tr");
  await until("each group has its owner", async () => {
    const texts = await groups.allInnerTexts();
    return texts.length === 4 && texts.every((t) => /127\.0\.0\.1:\d+\t127/.test(t));
  });
  await act(page, () => page.getByRole("button", { name: "Rebalance" }), (notice) => notice.includes("The groups are balanced."));
  await accessible(page);
}));

test("the page lists the servers of a cluster, and moves and drains", () => visit(it, "", BUSY, async (page) => {
  await page.getByRole("link", { name: "Servers" }).click();
  await page.getByRole("heading", { level: 1, name: "Servers" }).waitFor();
  const rows = page.locator("tbody tr");
  const texts = () => rows.allInnerTexts();
  const count = async (text) => (await texts()).filter((t) => t.includes(text)).length;
  await until("the servers have met", async () => (await rows.count()) === 3 && (await count("owner")) === 1 && (await count("standby")) === 2);
  await until("all answer", async () => (await texts()).every((t) => /\tyes\t[\d,]+\t\d+\t/.test(t)));
  assert.equal(await count("this server"), 1);
  await accessible(page);
  await page.setViewportSize({ width: 320, height: 900 });
  await fits(page);
  await page.setViewportSize({ width: 1280, height: 900 });

  let address = "";
  const row = () => rows.filter({ hasText: address }).innerText();
  await act(page, () => rows.filter({ hasText: "standby" }).first().getByRole("button", { name: "Move here" }), async (notice) => {
    [, address = ""] = notice.match(/([\d.]+:\d+) is the owner\./) ?? [];
    return address !== "" && (await row()).includes("owner");
  });
  const chosen = rows.filter({ hasText: address });
  await act(page, () => chosen.getByRole("button", { name: "Drain" }), (notice) => notice.includes(`${address} is drained until it is restarted.`));
  await until("another owns", async () => /standby\s*drained/.test(await row()) && (await count("owner")) === 1);
  assert.equal(await chosen.getByRole("button").count(), 0);

  const dead = others.pop();
  await dead.stop();
  await until("one does not answer", async () => (await texts()).some((t) => /\tno\t–\t–\t–/.test(t)));
}));

test("a reader is not offered to move and drain", () => visit(it, "", {}, async (page) => {
  await page.route("**/server.json", (route) => route.fulfill({ json: { tokens: true, signedIn: { name: "rod", role: "read" } } }));
  await page.goto(`${it.server.url}/#/servers`);
  await page.reload();
  await page.getByText("this server", { exact: true }).waitFor();
  assert.equal(await page.locator("table").getByRole("button").count(), 0);
}));

test("a server alone shows no link, and is asked once", async () => {
  let asked = 0;
  await visit(alone, "", {}, async (page) => {
    await page.getByRole("heading", { name: "No models yet" }).waitFor();
    await page.waitForLoadState("networkidle");
    page.on("request", (r) => { asked += r.url().endsWith("/v1/cluster"); });
    await page.reload();
    await page.getByRole("heading", { name: "No models yet" }).waitFor();
    // The list polls, and the cluster is not polled with it.
    await page.waitForRequest(/\/v1\/models\?/);
    assert.equal(await page.getByRole("link", { name: "Servers" }).count(), 0);
    assert.equal(asked, 1);
    await page.goto(`${alone.server.url}/#/servers`);
    await page.getByText("This server is not in a cluster.").waitFor();
  });
});
