import { useEffect, useRef, useState } from "preact/hooks";
import { listAliases, listModels, undeleteModel } from "../api/client";
import { getAccess, httpAddress } from "../api/session";
import type { Model } from "../api/types";
import { ago, count, figure, moment, number, plural, rate, short } from "../format";
import { createHref, csvHref, modelHref, modelsHref, replace } from "../router";
import { useMay } from "../ui/may";
import { useNotice } from "../ui/notice";
import { Busy, Failure, Num, Scroll } from "../ui/parts";
import { verdict, type Verdict } from "../verdict";
import { Import } from "./import";
import { useLoad } from "../ui/load";

const PAGE = 50;
/** STALE is how old the newest label of a healthy model may be, in milliseconds. */
const STALE = 86_400_000;
const REFRESH = 5000;
const TYPING = 250;
/** WORST is the order without a choice: the models that need a look are first. */
const WORST = "health";

const STATES: Record<string, string> = {
  STATE_LOADED: "in memory",
  STATE_HIBERNATED: "on disk",
  STATE_READ_ONLY: "read only",
  STATE_FAILED: "failed",
  STATE_DELETED: "deleted",
};

export function stateText(state: string | undefined): string {
  return STATES[state ?? ""] ?? "–";
}

/** Column is a column of the list; by is what ListModels calls its order. */
interface Column {
  title: string;
  by?: string;
  /** The order at the first click. */
  descending?: boolean;
  numeric?: boolean;
  /** A phone has no place for it. */
  wide?: boolean;
}

const COLUMNS: Column[] = [
  { title: "Model", by: "id" },
  { title: "Health", by: "health" },
  { title: "Learner", wide: true },
  { title: "Tags", wide: true },
  { title: "Observations", by: "sequence", descending: true, numeric: true, wide: true },
  { title: "Served skill", by: "recent_skill", descending: true, numeric: true, wide: true },
  { title: "Served loss", by: "recent_loss", numeric: true, wide: true },
  { title: "Regret", by: "regret", numeric: true, wide: true },
  { title: "Rate", by: "observation_rate", descending: true, numeric: true, wide: true },
  { title: "Last seen", wide: true },
  { title: "State" },
];

/** ModelsPage lists the models. The address has the search, the order and the page, so that it can be bookmarked. */
export function ModelsPage({ query }: { query: URLSearchParams }) {
  const contains = query.get("contains") ?? "";
  const tags = query.getAll("tag");
  const orderBy = query.get("orderBy") ?? WORST;
  const showDeleted = query.get("deleted") === "true";
  // The tokens of the pages up to the current page. The first page has none.
  const tokens = query.getAll("page");
  const pageToken = tokens[tokens.length - 1] ?? "";

  // The rows of an answer stay until the next answer arrives. Each answer keeps the tokens of its request, so that the
  // range and the buttons below the table belong to the rows in it.
  const list = useLoad(
    async (signal) => ({ ...await listModels({ contains, tags, orderBy, showDeleted, pageSize: PAGE, pageToken }, signal), tokens }),
    [contains, tags.join("\n"), orderBy, showDeleted, pageToken], REFRESH,
  );
  const aliases = useLoad(listAliases, [], REFRESH);
  const named = new Map<string, string[]>();
  for (const a of aliases.value ?? []) {
    if (a.model && a.alias) named.set(a.model, [...(named.get(a.model) ?? []), a.alias]);
  }

  useKeys();
  const { admin } = useMay();
  const [importing, setImporting] = useState(false);
  const show = (change: Record<string, string>, pages: string[] = [], tagged: string[] = tags): void => {
    const next = new URLSearchParams();
    const all = { contains, orderBy, deleted: showDeleted ? "true" : "", ...change };
    for (const [k, v] of Object.entries(all)) if (v && !(k === "orderBy" && v === WORST)) next.set(k, v);
    for (const t of tagged) next.append("tag", t);
    for (const t of pages) next.append("page", t);
    replace(modelsHref(next));
  };

  const models = list.value?.models ?? [];
  const total = number(list.value?.totalSize);
  const shown = list.value?.tokens ?? [];
  const first = shown.length * PAGE;
  return (
    <>
      <div class="heading">
        <h1>Models</h1>
        <Search text={contains} search={(text) => show({ contains: text })} />
        <Tags tags={tags} models={models} set={(tagged) => show({}, [], tagged)} />
        <label class="check">
          <input type="checkbox" checked={showDeleted} onChange={(e) => show({ deleted: e.currentTarget.checked ? "true" : "" })} />
          Deleted too
        </label>
        {admin && <a class="button primary" href={createHref}>Create a model</a>}
        {admin && <a class="button" href={csvHref}>From a CSV file</a>}
        {admin && <button type="button" onClick={() => setImporting(true)}>Import…</button>}
        {importing && <Import close={() => setImporting(false)} />}
      </div>
      <Failure error={list.error} />
      {list.value && models.length === 0 && (contains || tags.length > 0 || first > 0 ? <p class="empty">No model matches.</p> : <NoModels />)}
      {models.length > 0 && (
        <>
          <Scroll label="Models">
            <table class="models" aria-busy={list.loading}>
              <thead>
                <tr>{COLUMNS.map((c) => <Head key={c.title} column={c} orderBy={orderBy} sort={(o) => show({ orderBy: o })} />)}</tr>
              </thead>
              <tbody>{models.map((m) => (
                <Row key={m.id} model={m} aliases={named.get(m.id) ?? []} changed={list.again} filter={(tag) => show({}, [], [...new Set([...tags, tag])])} />
              ))}</tbody>
            </table>
          </Scroll>
          <nav class="pages" aria-label="Pages of models">
            <span>{count(first + 1)}–{count(first + models.length)} of {plural(total, "model")}</span>
            <button type="button" disabled={shown.length === 0} onClick={() => show({}, shown.slice(0, -1))}>Previous</button>
            <button type="button" disabled={!list.value?.nextPageToken} onClick={() => show({}, [...shown, list.value?.nextPageToken ?? ""])}>Next</button>
          </nav>
          <p class="note">
            Served loss is the mean loss of the served predictions over the last 1000 observations, of the prequential
            prediction where none was served; of a classifier the error rate. Skill is 1 − loss / the smaller loss of two
            predictors that ignore the inputs: the running mean, or the most frequent class, and the last label. The regret is
            prequential. Of a model on disk the figures are the last ones in memory. Keys: / searches, ↑ and ↓ go through the models.
          </p>
        </>
      )}
    </>
  );
}

/** Tags are the filters by tag; a tag is a label of the API. */
function Tags({ tags, models, set }: { tags: string[]; models: Model[]; set: (tags: string[]) => void }) {
  const known = [...new Set(models.flatMap(tagsOf))].filter((t) => !tags.includes(t));
  const add = (input: HTMLInputElement): void => {
    const tag = input.value.trim();
    if (!tag.includes("=")) return;
    input.value = "";
    set([...new Set([...tags, tag])]);
  };
  return (
    <>
      <input class="search tag" aria-label="Filter by tag" placeholder="Tag, such as team=rides" list="known-tags" spellcheck={false} onChange={(e) => add(e.currentTarget)} />
      <datalist id="known-tags">{known.map((t) => <option key={t} value={t} />)}</datalist>
      {tags.map((t) => (
        <button type="button" class="chip" key={t} aria-label={`Remove the filter ${t}`} onClick={() => set(tags.filter((other) => other !== t))}>{t} ✕</button>
      ))}
    </>
  );
}

function tagsOf(model: Model): string[] {
  return Object.entries(model.labels ?? {}).map(([k, v]) => `${k}=${v}`).sort();
}

/** Search asks the server when the typing stops. */
function Search({ text, search }: { text: string; search: (text: string) => void }) {
  const [typed, setTyped] = useState(text);
  const latest = useRef(search);
  latest.current = search;
  // The address may change in another way than by typing here.
  const asked = useRef(text);
  useEffect(() => {
    if (text !== asked.current) setTyped(text);
    asked.current = text;
  }, [text]);
  useEffect(() => {
    if (typed === text) return undefined;
    const timer = setTimeout(() => {
      asked.current = typed;
      latest.current(typed);
    }, TYPING);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <input
      type="search" class="search" aria-label="Search by id or name" placeholder="Search by id or name"
      value={typed} onInput={(e) => setTyped(e.currentTarget.value)}
    />
  );
}

function Head({ column, orderBy, sort }: { column: Column; orderBy: string; sort: (order: string) => void }) {
  const { title, by, numeric, wide } = column;
  const looks = `${numeric ? "right" : ""} ${wide ? "wide" : ""}`;
  if (!by) return <th scope="col" class={looks}>{title}</th>;
  const [field, direction] = orderBy.split(" ");
  const current = field === by;
  const descending = current && direction === "desc";
  const next = current ? !descending : (column.descending ?? false);
  return (
    <th scope="col" class={looks} aria-sort={current ? (descending ? "descending" : "ascending") : undefined}>
      <button type="button" class="sort" onClick={() => sort(next ? `${by} desc` : by)}>
        {title}<span aria-hidden="true">{current ? (descending ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}

/** healthOf says in words what a model needs, if anything. */
function healthOf(model: Model, skill: number | undefined): Verdict {
  const s = model.summary;
  const found = verdict(skill);
  if (s?.state === "STATE_FAILED") return { kind: "worse", sign: "▼", text: "cannot be loaded" };
  if (s?.state === "STATE_READ_ONLY") return { kind: "worse", sign: "▼", text: "cannot learn: its log cannot be written" };
  if (found.kind === "worse") return found;
  if (!s?.observeTime) return { ...found, text: number(model.sequence) > 0 ? "not read since the start" : "nothing observed yet" };
  if (Date.now() - Date.parse(s.observeTime) > STALE) return { kind: "same", sign: "■", text: `no label since ${ago(s.observeTime)}` };
  return found;
}

/** useKeys lets / search, and the arrows go through the models. */
function useKeys(): void {
  useEffect(() => {
    const press = (e: KeyboardEvent): void => {
      const at = e.target instanceof Element ? e.target : document.body;
      const search = document.querySelector<HTMLElement>("input[type=search]");
      if (e.key === "/" && !at.closest("input, textarea, select, dialog")) {
        e.preventDefault();
        search?.focus();
      }
      const links = [...document.querySelectorAll<HTMLElement>("table.models tbody th a")];
      const place = links.findIndex((a) => a === at);
      const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
      if (step === undefined || (place < 0 && at !== search)) return;
      e.preventDefault();
      (links[place + step] ?? search)?.focus();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

function Row({ model, aliases, changed, filter }: { model: Model; aliases: string[]; changed: () => void; filter: (tag: string) => void }) {
  const s = model.summary;
  const classes = s?.recentClasses?.served;
  const figures = s?.recent?.served;
  const skill = classes ? classes.skill : figures?.skill;
  const loss = classes ? number(classes.errorRate) : figures && number(figures.meanLoss);
  const health = healthOf(model, skill);
  return (
    <tr>
      <th scope="row">
        {model.deleteTime ? model.id : <a href={modelHref(model.id)}>{model.id}</a>}
        {aliases.map((a) => <span class="chip" key={a} title={`${a} is an alias of ${model.id}`}>{a}</span>)}
        {model.displayName && <div class="sub">{model.displayName}</div>}
      </th>
      <td><span class={`light light-${health.kind}`}><span aria-hidden="true">{health.sign}</span> {health.text}</span></td>
      <td class="wide">{model.learner}</td>
      <td class="wide tags">{tagsOf(model).map((t) => <button type="button" class="chip" key={t} title={t} aria-label={`Filter by ${t}`} onClick={() => filter(t)}>{t}</button>)}</td>
      <td class="right wide"><Num value={number(model.sequence)} write={count} /></td>
      <td class="right wide"><Num value={skill} write={short} /></td>
      <td class="right wide"><Num value={loss} /></td>
      <td class="right wide"><Num value={s?.regret} write={figure} /></td>
      <td class="right wide"><Num value={number(s?.observationRate)} write={rate} /></td>
      <td class="wide">{s?.observeTime ? <time class="num" dateTime={s.observeTime} title={moment(s.observeTime)}>{ago(s.observeTime)}</time> : <span class="none">–</span>}</td>
      <td><span class={`state ${s?.state ?? ""}`}>{stateText(s?.state)}</span>{model.deleteTime && <Undelete id={model.id} changed={changed} />}
        {s?.state === "STATE_HIBERNATED" && <div class="sub">{s.observeTime ? `figures of ${moment(s.observeTime).slice(0, 16)}` : "not read since the start"}</div>}
      </td>
    </tr>
  );
}

function Undelete({ id, changed }: { id: string; changed: () => void }) {
  const { admin } = useMay();
  const notice = useNotice();
  const run = async (): Promise<void> => {
    try {
      await undeleteModel(id);
      notice({ text: `${id} is back.` });
      changed();
    } catch (e) {
      notice({ text: e instanceof Error ? e.message : String(e) });
    }
  };
  if (!admin) return null;
  return <> <Busy kind="small" run={run}>Undelete<span class="unseen"> {id}</span></Busy></>;
}

/** NoModels says how to create the first model. */
function NoModels() {
  const { admin } = useMay();
  const access = useLoad(getAccess, []).value;
  if (!admin) return <div class="empty"><h2>No models</h2><p>Your token may see no model. Creating a model needs the role admin.</p></div>;
  const token = access?.tokens ? ' -H "Authorization: Bearer $HINDSIGHT_TOKEN"' : "";
  return (
    <div class="empty">
      <h2>No models yet</h2>
      <p>A model learns from what your application observes. To get one, <a href={createHref}>create it here</a>, or call the server:</p>
      <pre tabIndex={0}>{`curl${token} -H "Content-Type: application/json" ${httpAddress()}/v1/models -d '{"id": "demo", "spec": {"dimension": 2}}'`}</pre>
      <p>To see a model that learns, in another server:</p>
      <pre tabIndex={0}>hindsight demo --keep</pre>
    </div>
  );
}
