// What the tests share: a server of its own with real models, and a browser that looks
// at its console. HINDSIGHT_SERVER is the server program, CHROMIUM the browser.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test as unbounded } from "node:test";
import { chromium } from "playwright-core";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Far above what anything here takes, also where others use the processor. */
const LIMIT = 90_000;

/** LOGGED is how many lines of the log of each server a test that fails prints. */
const LOGGED = 5;

/** servers are all that a file started: a test that fails prints the end of their logs. */
const servers = [];

/** test is node:test's, and fails where a call of the browser or of the server never ends. */
export const test = (name, does) => unbounded(name, async () => {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("the test does not end")), 2 * LIMIT); });
  try {
    await Promise.race([does(), late]);
  } catch (e) {
    e.message = [e.message, ...servers.flatMap((s) => [s.url, ...s.log.slice(-LOGGED)])].join("\n");
    throw e;
  } finally {
    clearTimeout(timer);
  }
});

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** setup starts a server and a browser before the tests of a file, and stops both after them. */
export function setup(fill, flags = () => []) {
  const it = {};
  let starting;
  before(async () => {
    starting = (async () => {
      it.server = await startServer(await flags());
      it.browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
      await fill?.(it.server);
    })();
    await starting;
  }, { timeout: LIMIT });
  after(async () => {
    // It may come before the end of the start, when the start of another server has failed.
    await starting?.catch(() => {});
    await it.browser?.close();
    await it.server?.stop();
  }, { timeout: LIMIT });
  return it;
}

/** ports are free ports that no outgoing connection and no listener of any port takes. */
export async function ports(n) {
  const found = [];
  for (let tries = 0; found.length < n && tries < 1000; tries++) {
    const port = 12_000 + Math.floor(18_000 * Math.random());
    const held = createServer();
    const free = await new Promise((resolve) => held.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true)));
    if (free) await new Promise((resolve) => held.close(resolve));
    if (free && !found.includes(port)) found.push(port);
  }
  return found;
}

export async function startServer(flags) {
  const directory = await mkdtemp(join(tmpdir(), "console-"));
  const child = spawn(process.env.HINDSIGHT_SERVER, [
    "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--data-dir", directory, ...flags,
  ], { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const log = [];
  const address = await new Promise((resolve, reject) => {
    createInterface({ input: child.stderr }).on("line", (line) => {
      log.push(line);
      const entry = JSON.parse(line);
      if (entry.msg === "serving") resolve(entry.http_address);
    });
    ended.then(() => reject(new Error(`the server ended: ${log.slice(-5).join("\n")}`)));
  });
  const url = `http://${address}`;
  const server = {
    url, log,
    call: (method, path, body) => call(url, method, path, body),
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
  servers.push(server);
  return server;
}

async function call(url, method, path, body) {
  const answer = await fetch(`${url}/v1/${path}`, body === undefined
    ? { method }
    : { method, body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  const json = await answer.json();
  if (!answer.ok) throw new Error(`${method} ${path}: ${JSON.stringify(json)}`);
  return json;
}

/** random is a generator of numbers from 0 to 1 that are the same in every run: mulberry32. */
export function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** rows are observations of a smooth function of two inputs, with noise. */
export function rows(n, seed = 1) {
  const next = random(seed);
  return Array.from({ length: n }, () => {
    const x = [2 * next() - 1, 2 * next() - 1];
    return { features: x, label: Math.sin(3 * x[0]) + x[1] * x[1] + 0.1 * (next() - 0.5) };
  });
}

/** learn creates a model and lets it learn. */
export async function learn(server, id, spec, observations, more = {}) {
  await server.call("POST", "models", { id, spec, ...more });
  if (observations.length > 0) await server.call("POST", `models/${id}:observeBatch`, { observations });
}

export async function stats(server, id) {
  const s = (await server.call("GET", `models/${id}/stats`)).stats;
  return { ...s, observations: Number(s.observations), pendingLabels: Number(s.pendingLabels) };
}

/**
 * visit opens a page of the console in a fresh profile, does what a test does, and then
 * checks that the page wrote no error and asked no other host. Rejections that the test
 * provokes are named by their status; failures: it breaks connections.
 */
export async function visit(it, place, options, does) {
  const { width = 1280, theme = "light", rejections = [], failures = false } = options;
  const context = await it.browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme, acceptDownloads: true });
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT);
  const errors = [];
  page.on("pageerror", (e) => errors.push(e.stack ?? e.message));
  page.on("console", (m) => {
    const provoked = rejections.some((status) => m.text().includes(`status of ${status}`)) ||
      (failures && m.text().includes("net::ERR_FAILED"));
    if ((m.type() === "error" || m.type() === "warning") && !provoked) errors.push(m.text());
  });
  const foreign = [];
  page.on("request", (r) => {
    if (!r.url().startsWith(it.server.url) && !r.url().startsWith("blob:")) foreign.push(r.url());
  });
  try {
    await page.goto(`${it.server.url}/${place}`);
    await does(page);
    assert.deepEqual(errors, [], "the page wrote errors");
    assert.deepEqual(foreign, [], "the page asked other hosts");
  } catch (e) {
    const text = await page.locator("body").innerText({ timeout: 5000 }).catch(String);
    e.message += `\nthe page: ${text.replace(/\s+/g, " ").slice(0, 2000)}`;
    throw e;
  } finally {
    await context.close();
  }
}

/** seen hides a page, as if another tab were before it, or shows it again. */
export async function seen(page, visible) {
  await page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, visible ? "visible" : "hidden");
}

/** accessible runs axe-core over the page as it is: all of its rules, or those that are named. */
export async function accessible(page, ...rules) {
  // What is injected here is not the page's: its content security policy does not bind it.
  await page.evaluate(axe);
  const found = await page.evaluate(
    (runOnly) => globalThis.axe.run(document, { resultTypes: ["violations"], ...(runOnly.length > 0 ? { runOnly } : {}) }), rules,
  );
  const told = found.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html).slice(0, 3).join(" | ")}`);
  assert.deepEqual(told, []);
}

/** fits checks that the page is not wider than the window. */
export async function fits(page) {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(content <= window, `the page is ${content} wide, the window ${window}`);
}

/** told answers the full number that stands under a name. */
export async function told(page, name) {
  return Number(await page.locator(`[data-name="${name}"]`).first().getAttribute("title"));
}

/**
 * checked waits until the server has accepted the spec that the page for a new model shows. Until then the answer to
 * an earlier spec may disable the button under a click.
 */
export async function checked(page, create) {
  await until("the spec is accepted", async () => await create.isEnabled() && await page.locator('.cost[aria-busy="false"]').count() === 1);
}

/** until waits until a function of the test answers true. */
export async function until(what, test) {
  const end = Date.now() + LIMIT;
  while (!(await test())) {
    if (Date.now() > end) throw new Error(`in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
