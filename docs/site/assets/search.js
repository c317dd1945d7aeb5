// The search: an index of the sections of all pages, made in the browser when the field
// is first used.
import MiniSearch from "./minisearch/minisearch.js";

const most = 12;
const root = document.documentElement.dataset.root;
const field = document.getElementById("search");
const list = document.getElementById("found");
const said = document.getElementById("said");
let index; // A promise of the index, once it is asked for.
let chosen = -1;

field.parentElement.hidden = false;

// load makes the index. It is asked for again after a failure.
function load() {
  index ??= fetch(`${root}search.json`)
    .then((answer) => {
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      return answer.json();
    })
    .then((sections) => {
      const search = new MiniSearch({
        fields: ["heading", "page", "text"],
        storeFields: ["heading", "page", "text"],
        // A name such as label_ttl or --data-dir is found whole and by its parts.
        tokenize: (text) => {
          const words = text.split(/[^\p{L}\p{N}_.-]+/u).filter((word) => /[\p{L}\p{N}]/u.test(word));
          return words.flatMap((word) => [word.replace(/^[.-]+|[.-]+$/g, ""), ...(/[_.-]/.test(word) ? word.split(/[_.-]+/) : [])]).filter(Boolean);
        },
        searchOptions: {
          boost: { heading: 4, page: 2 },
          combineWith: "AND",
          prefix: true,
          fuzzy: (term) => (term.length > 4 ? 0.2 : false),
        },
      });
      search.addAll(sections);
      return search;
    })
    .catch((error) => {
      index = undefined;
      throw error;
    });
  return index;
}

// excerpt is the text around the first of the words that were found, with these marked.
function excerpt(text, words) {
  const lower = text.toLowerCase();
  const places = words.map((word) => lower.indexOf(word)).filter((place) => place >= 0);
  const from = Math.max(0, Math.min(...places, lower.length) - 50);
  const start = places.length === 0 || from === 0 ? 0 : text.indexOf(" ", from) + 1;
  const shown = (start > 0 ? "… " : "") + text.slice(start, start + 160) + (start + 160 < text.length ? " …" : "");
  const line = document.createElement("span");
  const escaped = words.toSorted((a, b) => b.length - a.length).map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  const pattern = new RegExp(`(${escaped.join("|")})`, "iu");
  shown.split(pattern).forEach((part, n) => {
    if (n % 2 === 0) line.append(part);
    else {
      const mark = document.createElement("mark");
      mark.append(part);
      line.append(mark);
    }
  });
  return line;
}

// choose marks a result, which Enter opens.
function choose(n) {
  const links = [...list.querySelectorAll("a")];
  chosen = links.length === 0 ? -1 : (n + links.length) % links.length;
  links.forEach((link, k) => link.setAttribute("aria-selected", String(k === chosen)));
  if (chosen >= 0) {
    links[chosen].scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", links[chosen].id);
  } else field.removeAttribute("aria-activedescendant");
}

function close() {
  list.hidden = true;
  field.setAttribute("aria-expanded", "false");
  field.removeAttribute("aria-activedescendant");
  said.textContent = "";
}

// tell shows a sentence in place of results.
function tell(text) {
  const line = document.createElement("p");
  line.append(text);
  list.replaceChildren(line);
  said.textContent = text;
}

async function find() {
  const query = field.value.trim();
  if (query === "") {
    close();
    return;
  }
  let results;
  try {
    results = (await load()).search(query).slice(0, most);
  } catch {
    tell("The index cannot be read. Pages that are opened from a disk have no search: use make docs-serve.");
    list.hidden = false;
    return;
  }
  if (query !== field.value.trim()) return; // A later key has its own answer.
  if (results.length === 0) tell(`Nothing has “${query}”.`);
  else {
    list.replaceChildren(
      ...results.map((result, n) => {
        const link = document.createElement("a");
        link.id = `found-${n}`;
        link.href = root + result.id;
        link.setAttribute("role", "option");
        link.tabIndex = -1;
        const title = document.createElement("b");
        title.append(result.heading ? `${result.page} › ${result.heading}` : result.page);
        link.append(title, excerpt(result.text, result.terms));
        return link;
      }),
    );
    said.textContent = `${results.length} ${results.length === 1 ? "section" : "sections"}; up and down choose, Enter opens.`;
  }
  list.hidden = false;
  field.setAttribute("aria-expanded", "true");
  choose(0);
}

field.addEventListener("focus", () => load().catch(() => {}), { once: true });
field.addEventListener("input", find);
field.addEventListener("focus", find);
field.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen - 1);
  else if (event.key === "Enter") list.querySelectorAll("a")[chosen]?.click();
  else if (event.key === "Escape") {
    field.value = "";
    close();
    field.blur();
  } else return;
  event.preventDefault();
});
list.addEventListener("click", close); // A link into the same page leaves it open else.
document.addEventListener("click", (event) => {
  if (!field.parentElement.contains(event.target)) close();
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    field.focus();
  }
  // On a phone the contents cover the page.
  if (event.key === "Escape" && location.hash === "#contents") location.hash = "#top";
});
