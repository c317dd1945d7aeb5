import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { accessible, fits, learn, random, rows, seen, setup, stats, test, told, until, visit } from "./harness.mjs";

const RECORDS = [
  { name: "age", numeric: {} }, { name: "member", boolean: {} }, { name: "city", categorical: {} },
  { name: "at", time: {} }, { name: "shape", vector: { length: 3 } },
];

/** records are observations of named inputs, with gaps; the class follows the age. */
function records(n) {
  const next = random(7);
  return Array.from({ length: n }, (_, i) => {
    const age = 20 + 50 * next();
    return {
      inputs: {
        age: i % 10 === 9 ? null : age, member: next() < 0.5, city: ["Bern", "Basel", "Chur"][Math.floor(3 * next())],
        at: new Date(Date.UTC(2026, 2, 1) + i * 3_600_000).toISOString(), shape: [next(), next(), next()],
      },
      class: age > 45 ? "old" : "young",
    };
  });
}

/** changing is a stream whose labels change at the middle, so that the loss rises. */
function changing(n) {
  return rows(n).map((r, i) => (i < n / 2 ? r : { ...r, label: 20 * Math.sin(40 * r.features[0] * r.features[1]) }));
}

/** dirty is a stream in which every fiftieth label from the hundredth on stands for none. */
function dirty(n) {
  return rows(n).map((r, i) => (i < 100 || i % 50 > 0 ? r : { ...r, label: -99999 - i }));
}

const it = setup(async (server) => {
  await learn(server, "auto", { dimension: 2, coverage: [0.5, 0.9] }, rows(600));
  await learn(server, "linear", { dimension: 2, linearAwv: {} }, rows(300));
  await learn(server, "nystrom", { dimension: 2, pkawvNystrom: { maxDictionary: 64 } }, rows(300));
  await learn(server, "records", { inputs: RECORDS, classes: {} }, records(400));
  await learn(server, "changing", { dimension: 2, linearAwv: {} }, changing(2000));
  await learn(server, "moving", { dimension: 2, fourierAwv: {} }, rows(20));
  await learn(server, "dirty", { dimension: 2 }, dirty(400));
  await learn(server, "empty", { dimension: 3 }, []);
});

/** loaded opens a part of a model's page, such as "auto/uses", and waits for the count of its observations. */
const loaded = (id, does, options = {}) => visit(it, `#/models/${id}`, options, async (page) => {
  await page.locator('[data-name="observations"]').first().waitFor();
  await does(page);
});

const tab = (page, name) => page.getByRole("tab", { name }).click();

function have(program) {
  return spawnSync(program, ["--version"]).status === 0;
}

/** figuresOf lists the figures of GetModelStats under the names that the page gives them. */
function figuresOf(s) {
  const out = {};
  for (const [field, v] of Object.entries(s)) if (typeof v === "number") out[field] = v;
  const sets = s.classes
    ? [["classes.performance", s.classes.performance], ["classes.recent", s.classes.recent]]
    : [["performance", s.performance], ["recent", s.recent]];
  for (const [at, p] of sets) {
    for (const side of ["prequential", "served"]) {
      for (const [field, v] of Object.entries(p[side])) out[`${at}.${side}.${field}`] = v;
    }
  }
  return out;
}

for (const id of ["auto", "linear", "nystrom", "records", "changing"]) {
  test(`the figures of ${id} are those of GetModelStats`, () => loaded(id, async (page) => {
    const figures = Object.entries(figuresOf(await stats(it.server, id)));
    let shown = new Map();
    // Of a learner without a theorem the bound is 0, and nothing is shown. A figure that is solved for comes later.
    await until("every figure is shown", async () => {
      shown = new Map(await page.locator("[data-name][title]").evaluateAll((all) => all.map((e) => [e.dataset.name, e.title])));
      return figures.every(([name, v]) => v === 0 || shown.has(name));
    });
    let compared = 0;
    for (const [name, v] of figures) {
      if (!shown.has(name)) continue;
      assert.equal(Number(shown.get(name)), v, name);
      compared++;
    }
    assert.ok(compared > 20, `${compared} figures were compared`);
  }));
}

test("every loss, skill and regret says of which predictions it is", () => loaded("auto", async (page) => {
  const unsaid = await page.locator("dt, tbody th[scope=row]").evaluateAll((all) => all
    .filter((e) => /loss|skill|regret$|^(All rounds|Last 1000)/i.test(e.textContent) && !/hindsight|bound|penalty/i.test(e.textContent))
    .map((e) => e.textContent)
    .filter((text) => !/prequential|served/.test(text)));
  assert.deepEqual(unsaid, []);
  const loss = await page.getByRole("img", { name: /^Mean loss/ }).getAttribute("aria-label");
  assert.match(loss, /served/);
  assert.match(await page.getByRole("img", { name: /^Regret/ }).getAttribute("aria-label"), /prequential/);
}));

test("what is shown has six digits of the full number", () => loaded("linear", async (page) => {
  const text = await page.locator('[data-name="lossSum"]').textContent();
  const full = await told(page, "lossSum");
  assert.equal(Number(text), Number(full.toPrecision(6)));
}));

test("the curves end where the statistics are", () => loaded("auto", async (page) => {
  const loss = page.getByRole("img", { name: /^Mean loss/ });
  await until("the last point is the newest", async () => (await loss.getAttribute("data-last")) === "600");
  const history = await it.server.call("GET", "models/auto/history");
  assert.equal(await loss.getAttribute("data-points"), String(history.points.length));
  for (const name of [/^Regret/, /^Share of labels inside/]) {
    assert.equal(await page.getByRole("img", { name }).getAttribute("data-last"), "600");
  }
  await tab(page, "What it uses");
  assert.equal(await page.getByRole("img", { name: /^Weights of the experts/ }).getAttribute("data-last"), "600");
}));

test("the parts of the page are tabs: links for the mouse and for Back, arrows for the keyboard", () => loaded("auto", async (page) => {
  const current = async () => [await page.locator('[role=tab][aria-selected="true"]').textContent(), new URL(page.url()).hash];
  const is = (text, part) => until(`${text} is shown`, async () => {
    const [shown, hash] = await current();
    return shown === text && hash === `#/models/auto${part}` && await page.getByRole("tabpanel", { name: text }).isVisible() && await page.getByRole("tabpanel").count() === 1;
  });
  await is("How good", "");
  await page.getByRole("tab", { name: "Try" }).click();
  await is("Try", "/try");
  await page.getByRole("region", { name: "Predict" }).getByLabel("Features").fill("0.25 -0.5");
  await page.keyboard.press("Shift+Tab");
  await page.getByRole("tab", { name: "Try" }).press("ArrowRight");
  await is("Labels and inputs", "/data");
  await page.keyboard.press("End");
  await is("Operate", "/operate");
  await page.keyboard.press("ArrowRight");
  await is("How good", "");
  await page.keyboard.press("ArrowLeft");
  await is("Operate", "/operate");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Operate");
  await page.goBack();
  await is("How good", "");
  await page.goForward();
  await is("Operate", "/operate");
  await page.getByRole("tab", { name: "Try" }).click();
  assert.equal(await page.getByRole("region", { name: "Predict" }).getByLabel("Features").inputValue(), "0.25 -0.5");
  await page.reload();
  await is("Try", "/try");
}));

test("a plot of skills or losses ends at the figure of the table, also where the points are far apart", () => loaded("changing", async (page) => {
  await it.server.call("POST", "models/changing:observeBatch", { observations: changing(1500).map((r) => ({ ...r, label: -r.label })) });
  for (const [mean, of] of [["Last 1000", "recent"], ["From the start", "performance"]]) {
    await page.getByRole("button", { name: mean }).click();
    for (const [plot, field] of [[/^Skill/, "skill"], [/^Mean loss/, "meanLoss"]]) {
      const want = (await stats(it.server, "changing"))[of].served[field];
      await until(`${mean}: ${plot} ends at ${want}`, async () => {
        const shown = /served ([0-9.−-]+)/.exec(await page.getByRole("img", { name: plot }).getAttribute("aria-label"))?.[1];
        return Math.abs(Number(shown?.replace("−", "-")) / want - 1) < 1e-5;
      });
      assert.equal(await told(page, `${of}.served.${field}`), want);
    }
  }
}));

test("a time range draws the end of the model's life", async () => {
  await learn(it.server, "aged", { dimension: 2, linearAwv: {} }, rows(600));
  await visit(it, "", {}, async (page) => {
    // The points are six hours apart.
    await page.route("**/v1/models/aged/history", async (route) => {
      const response = await route.fetch();
      const history = await response.json();
      history.points.forEach((p, i) => { p.time = new Date(Date.UTC(2026, 0, 1) + i * 6 * 3_600_000).toISOString(); });
      await route.fulfill({ response, json: history });
    });
    await page.getByRole("link", { name: "aged" }).click();
    const skill = page.getByRole("img", { name: /^Skill/ });
    const range = page.getByRole("group", { name: "Time range" });
    const points = async () => Number(await skill.getAttribute("data-points"));
    await range.waitFor();
    const all = await points();
    await range.getByRole("button", { name: "1 d" }).click();
    await until("a day has five points", async () => (await points()) === 5);
    await page.getByRole("button", { name: "Clock time" }).click();
    await until("a day has five points by the clock", async () => (await points()) === 5 && Number(await skill.getAttribute("data-last")) > 1e9);
    await range.getByRole("button", { name: "All" }).click();
    await until("all is drawn", async () => (await points()) === all);
  });
});

test("the mean from the start is the mean of GetModelStats", () => loaded("linear", async (page) => {
  await page.getByRole("button", { name: "From the start" }).click();
  const name = await page.getByRole("img", { name: /^Mean loss/ }).getAttribute("aria-label");
  const s = await stats(it.server, "linear");
  const model = Number(/served ([0-9.e−-]+)/.exec(name)[1]);
  assert.ok(Math.abs(model / s.performance.served.meanLoss - 1) < 1e-4, `${name}, but ${s.performance.served.meanLoss}`);
}));

test("the logarithmic scale and the table of values show the same points", () => loaded("linear", async (page) => {
  await page.getByLabel("Log scale").check();
  const panel = page.getByRole("region", { name: "Loss", exact: true });
  await panel.getByText("Values").click();
  const points = await panel.getByRole("img").getAttribute("data-points");
  assert.equal(await panel.locator("tbody tr").count(), Number(points));
}));

test("the skill comes first, and ends at the skill of GetModelStats", () => loaded("linear", async (page) => {
  assert.equal(await page.locator("h2").first().textContent(), "Skill");
  const skill = page.getByRole("img", { name: /^Skill/ });
  const name = await skill.getAttribute("aria-label");
  assert.match(name, /0: as good as trivial/);
  const shown = Number(/served ([0-9.−-]+)/.exec(name)[1].replace("−", "-"));
  const { skill: want } = (await stats(it.server, "linear")).recent.served;
  assert.ok(Math.abs(shown - want) < 1e-4, `${name}, but ${want}`);
}));

test("a baseline that dwarfs the model makes the loss logarithmic, and the reader may choose", async () => {
  await learn(it.server, "dwarfed", { dimension: 2, linearAwv: {} }, rows(2000).map((r) => ({ ...r, label: 5 * r.features[0] })));
  await loaded("dwarfed", async (page) => {
    const log = page.getByLabel("Log scale");
    await until("the scale is logarithmic", () => log.isChecked());
    await log.uncheck();
    await page.getByRole("button", { name: "Each point" }).click();
    assert.equal(await log.isChecked(), false);
  });
  await loaded("linear", async (page) => {
    await page.getByRole("img", { name: /^Mean loss/ }).waitFor();
    assert.equal(await page.getByLabel("Log scale").isChecked(), false);
  });
});

test("the coverage is drawn beside the level that is intended", () => loaded("auto", async (page) => {
  const inside = await page.getByRole("img", { name: /^Share of labels inside/ }).getAttribute("aria-label");
  assert.match(inside, /50 % intended, 90 % intended$/);
}));

test("a zoom is reset, and the axis is the clock time or the rounds", () => loaded("linear", async (page) => {
  const skill = page.getByRole("img", { name: /^Skill/ });
  const { x, y, width } = await skill.boundingBox();
  const all = page.getByRole("button", { name: /^Show all/ });
  assert.equal(await all.count(), 0);
  await page.mouse.move(x + width / 2, y + 60);
  await page.mouse.down();
  await page.mouse.move(x + width / 1.5, y + 60, { steps: 4 });
  await page.mouse.up();
  await until("the plots of the group are zoomed", async () => (await all.count()) === 3);
  await page.getByRole("button", { name: "Show all of Skill" }).press("Enter");
  await until("all is shown", async () => (await all.count()) === 0);
  await page.getByRole("button", { name: "Clock time" }).press("Enter");
  const { points } = await it.server.call("GET", "models/linear/history");
  const last = Date.parse(points.at(-1).time) / 1000;
  await until("the axis is the clock", async () => Math.abs(Number(await skill.getAttribute("data-last")) - last) < 1e-3);
  await page.getByRole("button", { name: "Rounds" }).press("Enter");
  await until("the axis is the rounds", async () => (await skill.getAttribute("data-last")) === "300");
}));

test("each word is explained by the description of the API, to the pointer and to the keyboard", async () => {
  const { components: { schemas } } = await (await fetch(`${it.server.url}/openapi.json`)).json();
  const textOf = (of) => schemas[of.split(".")[0]]?.properties[of.split(".")[1]]?.description?.replace(/\s+/g, " ");
  for (const part of ["auto", "auto/uses", "records", "records/data", "linear/uses", "dirty/data"]) {
    await loaded(part, async (page) => {
      await page.locator("[data-word]").first().waitFor();
      for (const of of await page.locator("[data-word]").evaluateAll((all) => all.map((e) => e.dataset.word))) assert.ok(textOf(of), `${of} has no description`);
    });
  }
  await loaded("auto", async (page) => {
    const tip = page.getByRole("tooltip");
    const skill = page.getByRole("button", { name: "Recent skill, served" });
    await skill.focus();
    assert.equal(await tip.textContent(), textOf("PerformanceFigures.skill"));
    assert.equal(await skill.getAttribute("aria-describedby"), await tip.getAttribute("id"));
    await accessible(page);
    await page.keyboard.press("Escape");
    assert.equal(await tip.count(), 0);
    await page.getByRole("button", { name: "Guarantee", exact: true }).hover();
    await tip.hover(); // The pointer reaches the text without losing it.
    assert.equal(await tip.textContent(), textOf("ModelStats.regretBound"));
    await page.setViewportSize({ width: 320, height: 700 });
    await page.getByRole("button", { name: "State digest" }).focus();
    await until("another is explained", async () => (await tip.last().textContent()) === textOf("ModelStats.stateDigest"));
    const { x, y, width, height } = await tip.last().boundingBox();
    assert.ok(x >= 0 && x + width <= 320 && y >= 0 && y + height <= 700, `${x} ${y} ${width} ${height}`);
    await fits(page);
  });
});

test("another model is drawn beside it", () => loaded("auto", async (page) => {
  const other = page.getByLabel("Draw another model beside it");
  await other.fill("linear");
  await other.press("Enter");
  for (const name of [/^Skill/, /^Mean loss/, /^Regret/]) {
    await until(`both are in ${name}`, async () => /linear, .*[0-9]/.test(await page.getByRole("img", { name }).getAttribute("aria-label")));
  }
  await other.fill("nobody");
  await other.press("Enter");
  await page.getByRole("alert").getByText("MODEL_NOT_FOUND").waitFor();
  await other.fill("");
  await other.press("Enter");
  await until("it is alone again", async () => !/linear/.test(await page.getByRole("img", { name: /^Skill/ }).getAttribute("aria-label")));
}, { rejections: [404] }));

test("numbers never break, on a phone either", () => loaded("auto", async (page) => {
  const broken = await page.locator(".num, .legend-value").evaluateAll((all) => all.filter((e) => e.getClientRects().length > 1).map((e) => e.textContent));
  assert.deepEqual(broken, []);
}, { width: 390 }));

test("the newest observations have the intervals that were served", async () => {
  await learn(it.server, "bands", { dimension: 2, coverage: [0.5, 0.9], linearAwv: {} }, rows(100));
  await loaded("bands/data", async (page) => {
    await page.locator(".link-live").waitFor();
    let last;
    for (const r of rows(5, 9)) {
      ({ prediction: last } = await it.server.call("POST", "models/bands:predict", { features: r.features }));
      await it.server.call("POST", "models/bands:observe", { predictionId: last.predictionId, label: r.label });
    }
    const newest = page.getByRole("img", { name: /^Newest observations, at observation 105/ });
    const said = (v) => `${v.toPrecision(6).replace("-", "−")}`;
    const [{ lower, upper }] = last.intervals.slice(-1);
    await until("the band is that of the prediction", async () => (await newest.getAttribute("aria-label")).includes(`90 % interval, served ${said(lower)} to ${said(upper)}`));
  });
});

test("residuals are drawn along the input that the reader chooses", async () => {
  const inputs = [{ name: "age", numeric: {} }, { name: "member", boolean: {} }, { name: "city", categorical: {} }, { name: "at", time: {} }, { name: "notes", text: {} }];
  const row = (i) => ({ age: i === 3 ? null : 20 + i, member: i % 2 === 0, city: ["Chur", "Bern"][i % 2], at: new Date(Date.UTC(2026, 2, i + 1)).toISOString(), notes: "a note" });
  await learn(it.server, "residuals", { inputs }, Array.from({ length: 60 }, (_, i) => ({ inputs: row(i % 9), label: i })));
  await loaded("residuals/data", async (page) => {
    await page.locator(".link-live").waitFor();
    const panel = page.getByRole("region", { name: "Residuals by input" });
    await panel.getByText("What is observed from now on, while this page is open, appears here.").waitFor();
    const residuals = [];
    for (let i = 0; i < 6; i++) {
      const { prediction } = await it.server.call("POST", "models/residuals:predict", { inputs: row(i) });
      await it.server.call("POST", "models/residuals:observe", { predictionId: prediction.predictionId, label: 10 * i });
      residuals.push(10 * i - prediction.value);
    }
    const plot = (name) => panel.getByRole("img", { name: new RegExp(`^Residuals by ${name}`) });
    const shown = (v) => String(Number(v.toPrecision(6)));
    await until("all but the missing age are drawn", async () => (await plot("age").getAttribute("data-points")) === "5");
    await panel.getByText("1 observation without a value of age is not drawn.").waitFor();
    assert.equal(await plot("age").getAttribute("data-last"), "25");
    assert.ok((await plot("age").getAttribute("aria-label")).replaceAll("−", "-").includes(`at age 25: label - prediction ${shown(residuals[5])}`));
    assert.deepEqual(await panel.getByLabel("Input", { exact: true }).locator("option").allTextContents(), ["age", "member", "city", "at"]);
    for (const [name, last] of [["city", "city Chur"], ["member", "member 1"], ["at", "2026-03-06"]]) {
      await panel.getByLabel("Input", { exact: true }).selectOption(name);
      await until(`along ${name}`, async () => (await plot(name).getAttribute("data-points")) === "6" && (await plot(name).getAttribute("aria-label")).includes(`at ${last}`));
    }
  });
  await loaded("linear/data", async (page) => {
    await page.locator(".link-live").waitFor();
    for (const r of rows(2, 4)) await it.server.call("POST", "models/linear:observe", { features: r.features, label: r.label });
    await page.getByLabel("Input", { exact: true }).selectOption("x[1]");
    await until("features have places too", async () => (await page.getByRole("img", { name: /^Residuals by x\[1\]/ }).getAttribute("data-points")) === "2");
  });
});

test("the curves move during a replay", () => loaded("moving", async (page) => {
  await page.locator(".link-live").waitFor();
  const loss = page.getByRole("img", { name: /^Mean loss/ });
  const first = await loss.getAttribute("aria-label");
  // A picture is drawn a little after the values that the page tells.
  await until("the curve has its first points", async () => Number(await loss.getAttribute("data-last")) > 0);
  let picture = await loss.screenshot();
  const moves = (what) => until(what, async () => {
    const before = picture;
    picture = await loss.screenshot();
    return !picture.equals(before);
  });
  const more = rows(300, 2);
  for (let i = 0; i < more.length; i += 20) {
    const { prediction } = await it.server.call("POST", "models/moving:predict", { features: more[i].features });
    await it.server.call("POST", "models/moving:observe", { predictionId: prediction.predictionId, label: more[i].label });
    await it.server.call("POST", "models/moving:observeBatch", { observations: more.slice(i + 1, i + 20) });
    if (i === 140) {
      await until("the page knows of the first half", async () => (await told(page, "observations")) > 100);
      await moves("the curve moves");
    }
  }
  await until("the page knows of all", async () => (await told(page, "observations")) === 320);
  await until("the curves know of all", async () => Number(await loss.getAttribute("data-last")) >= 300);
  await moves("the curve moves to its end");
  assert.notEqual(await loss.getAttribute("aria-label"), first);
  assert.ok(Number(await page.getByRole("img", { name: /^Labels against predictions/ }).getAttribute("data-points")) > 0);
  const s = await stats(it.server, "moving");
  await until("the regret is the newest", async () => (await told(page, "regret")) === s.regret);
  assert.equal(await told(page, "recentLoss"), s.recent.served.meanLoss);
  assert.equal(await told(page, "recentRmse"), s.recent.served.rmse);
  assert.equal(await told(page, "performance.prequential.mae"), s.performance.prequential.mae);
  await tab(page, "Labels and inputs");
  assert.ok(Number(await page.getByRole("img", { name: /^Newest observations/ }).getAttribute("data-points")) > 0);
}));

test("a page that is hidden does not listen, and catches up when it is seen", async () => {
  await learn(it.server, "hidden", { dimension: 2, linearAwv: {} }, rows(30));
  await loaded("hidden", async (page) => {
    const streams = new Set();
    const asked = (r) => new URL(r.url()).pathname.endsWith("/events");
    page.on("request", (r) => { if (asked(r)) streams.add(r); });
    for (const event of ["requestfinished", "requestfailed"]) page.on(event, (r) => streams.delete(r));
    await page.locator(".link-live").waitFor();
    await seen(page, false);
    await until("no stream is open", async () => streams.size === 0);
    await it.server.call("POST", "models/hidden:observeBatch", { observations: rows(12, 3) });
    await seen(page, true);
    await until("the page has caught up", async () => (await told(page, "observations")) === 42);
    assert.equal(streams.size, 1);
  });
});

test("detected changes are marked on the curve", () => loaded("changing", async (page) => {
  const history = await it.server.call("GET", "models/changing/history");
  assert.ok(history.drifts.length > 0, "the stream has no change");
  const loss = page.getByRole("img", { name: /^Mean loss/ });
  await until("the marks are there", async () => (await loss.getAttribute("data-marks")) === String(history.drifts.length));
  const s = await stats(it.server, "changing");
  assert.equal(Number(await page.locator('[data-name="drift.detected"]').textContent()), Number(s.drift.detected));
}));

test("the dictionary grows on its curve", () => loaded("nystrom/uses", async (page) => {
  const s = await stats(it.server, "nystrom");
  const name = await page.getByRole("img", { name: /^Dictionary centres/ }).getAttribute("aria-label");
  assert.match(name, new RegExp(`centres ${s.dictionary}$`));
}));

test("intervals, weights and experts are tables", async () => {
  const s = await stats(it.server, "auto");
  await loaded("auto", async (page) => {
    const realised = await page.locator('[data-name="realised"]').evaluateAll((all) => all.map((e) => Number(e.title)));
    assert.deepEqual(realised, s.intervals.map((i) => i.realised));
    await tab(page, "What it uses");
    assert.equal(await page.getByRole("region", { name: "Experts", exact: true }).first().locator("tbody tr").count(), s.experts.length);
    const families = page.getByRole("region", { name: "What auto uses" });
    assert.deepEqual(await families.locator("tbody th").allTextContents(), s.families.map((f) => f.family));
    assert.deepEqual(await families.locator(".num").evaluateAll((all) => all.map((e) => Number(e.title))), s.families.flatMap((f) => f.weights));
    await page.getByRole("button", { name: "Compute" }).click();
    const matter = page.getByRole("region", { name: "Inputs that matter" });
    await matter.locator("table").waitFor();
    const { stats: { importances } } = await it.server.call("GET", "models/auto/stats?includeImportances=true");
    assert.deepEqual(await matter.locator("tbody th").allTextContents(), importances.map((i) => i.input));
  });
  const linear = await stats(it.server, "linear");
  await loaded("linear/uses", async (page) => {
    assert.equal(await page.getByRole("region", { name: "Weights of the features" }).locator("tbody tr").count(), linear.weights.length);
  });
});

test("figures of regret that a button computes are those of GetModelStats", async () => {
  const { stats: s } = await it.server.call("GET", "models/nystrom/stats?includeRegretRkhs=true&includeRecentRegret=true");
  await loaded("nystrom", async (page) => {
    await page.getByRole("button", { name: "Compute" }).click();
    const recent = page.locator('[data-name="recentRegret"]');
    await recent.first().waitFor();
    assert.deepEqual(await recent.evaluateAll((all) => all.map((e) => Number(e.title))), s.recentRegret.map((r) => r.regret));
    await fits(page);
    await tab(page, "What it uses");
    await page.getByRole("button", { name: "Compute" }).click();
    await page.locator('[data-name="regretRkhs"]').waitFor();
    assert.equal(await told(page, "regretRkhs"), s.regretRkhs);
  });
});

test("labels that were set aside are counted, and said in words where they are many", async () => {
  const { labelGate: gate } = await stats(it.server, "dirty");
  assert.equal(gate.setAside, "6");
  await loaded("dirty/data", async (page) => {
    const { lastStart, ...shown } = gate; // The learner never started anew.
    assert.equal(lastStart, "0");
    for (const [field, v] of Object.entries(shown)) assert.equal(String(await told(page, `labelGate.${field}`)), String(v), field);
    await page.getByText("6 labels of this model, more than one in a hundred, cannot be right").waitFor();
    const newest = page.getByRole("region", { name: "Newest observations" });
    await newest.getByText("What is observed from now on, while this page is open, appears here.").waitFor();
    await page.locator(".link-live").waitFor();
    await it.server.call("POST", "models/dirty:observe", { features: [0.1, 0.2], label: -123456 });
    await newest.getByText("1 label of these was set aside and is not drawn, the newest at observation 401: −123456.").waitFor();
    await page.locator('[data-name="labelGate.setAside"][title="7"]').waitFor();
  });
  await loaded("auto/data", async (page) => {
    assert.equal(await told(page, "labelGate.setAside"), 0);
    assert.equal(await page.getByText("cannot be right and were set aside").count(), 0);
  });
  await loaded("linear/data", async (page) => assert.equal(await page.locator('[data-name="labelGate.setAside"]').count(), 0));
});

test("named inputs, classes and reliability are those of GetModelStats", async () => {
  const s = await stats(it.server, "records");
  await loaded("records", async (page) => {
    for (const c of s.classes.classes) {
      assert.equal(await told(page, `class.${c.class}.observed`), Number(c.observed));
      assert.equal(await told(page, `class.${c.class}.errors`), Number(c.errors));
    }
    assert.equal(await page.getByRole("region", { name: "Reliability" }).first().locator("tbody tr").count(), s.classes.reliability.length);
    assert.ok(Math.abs(await told(page, "ranking.auc") - s.classes.ranking.auc) < 1e-3);
    assert.ok(Math.abs(await told(page, "ranking.f1") - s.classes.ranking.f1) < 1e-2);
    assert.match(await page.getByRole("img", { name: /^Error rate/ }).getAttribute("aria-label"), /most frequent class/);
    await tab(page, "Labels and inputs");
    const inputs = page.getByRole("region", { name: "Inputs" }).first();
    assert.deepEqual(await inputs.locator("tbody th").allTextContents(), RECORDS.map((r) => r.name));
    assert.match(await inputs.innerText(), /(Bern|Basel|Chur)[^]*at\t[^]*\d{4}-\d\d-\d\d \d\d:\d\d\t/);
  });
});

test("durations are those of the model alone", () => loaded("moving/operate", async (page) => {
  const text = await (await fetch(`${it.server.url}/metrics`)).text();
  const calls = /hindsight_predict_seconds_count\{[^}]*model="moving"\} (\d+)/.exec(text)?.[1];
  await page.getByText(`Predict: ${calls} calls`).waitFor();
}));

test("the programs are of this very model, and curl's runs", async () => {
  const programs = async (page) => {
    const out = {};
    for (const language of ["grpcurl", "Python", "Go", "curl"]) {
      await page.getByRole("group", { name: "Language" }).getByRole("button", { name: language, exact: true }).click();
      out[language] = await page.locator(".snippet pre").textContent();
    }
    return out;
  };
  await loaded("records/try", async (page) => {
    const p = await programs(page);
    for (const text of Object.values(p)) {
      for (const { name } of RECORDS) assert.ok(text.includes(`"${name}"`), `${name} is not in ${text}`);
      assert.match(text, /old|young/);
    }
    assert.match(execFileSync("gofmt", ["-e"], { input: p.Go }).toString(), /^package main/);
    if (have("python3")) execFileSync("python3", ["-c", "import ast, sys; ast.parse(sys.stdin.read())"], { input: p.Python });
  });
  await loaded("empty/try", async (page) => {
    const { curl } = await programs(page);
    assert.ok(curl.includes("[0.5,0.5,0.5]"), "three features");
    const answers = execFileSync("bash", ["-e", "-c", curl], { stdio: ["ignore", "pipe", "ignore"] }).toString();
    assert.match(answers, /"predictionId":"first"[^]*"sequence":"1"/);
    await until("the page learns of it", async () => (await told(page, "observations")) === 1);
  });
});

test("a program is copied", () => loaded("linear/try", async (page) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy the program" }).click();
  const shown = await page.locator(".snippet pre").textContent();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), shown);
}));

test("an unknown model is an error that says so", () => visit(it, "#/models/nobody", { rejections: [404] }, async (page) => {
  const alert = page.getByRole("alert");
  await alert.waitFor();
  assert.match(await alert.innerText(), /nobody[^]*NOT_FOUND · MODEL_NOT_FOUND/);
}));
