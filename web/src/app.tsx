import { useEffect, useRef, useState } from "preact/hooks";
import { getCluster } from "./api/client";
import { getAccess, mayOf, signOut, SIGNED_OUT, type May } from "./api/session";
import { CreatePage } from "./pages/create";
import { useDrop } from "./pages/csv/drop";
import { CsvPage } from "./pages/csv/page";
import { ModelPage } from "./pages/model";
import { ModelsPage } from "./pages/models";
import { ServersPage } from "./pages/servers";
import { SignIn } from "./pages/signin";
import { createHref, modelsHref, serversHref, usePlace } from "./router";
import { ThemeContext, useThemeChoice, type Choice } from "./theme";
import { useLoad } from "./ui/load";
import { NoticeContext, type Notice } from "./ui/notice";
import { Failure } from "./ui/parts";
import { MayContext } from "./ui/may";

const THEMES: Record<Choice, { next: Choice; text: string }> = {
  system: { next: "light", text: "System" },
  light: { next: "dark", text: "Light" },
  dark: { next: "system", text: "Dark" },
};

export function App() {
  const [choice, theme, choose] = useThemeChoice();
  const [notice, setNotice] = useState<Notice>();
  const place = usePlace();
  const main = useRef<HTMLElement>(null);
  const access = useLoad(getAccess, []);
  const who = access.value?.signedIn;
  const may = mayOf(access.value), { admin } = may;
  const open = access.value !== undefined && (!access.value.tokens || who !== undefined);
  useDrop(open && admin);
  // One call answers whether the server has a cluster. ServersPage alone calls again.
  const cluster = useLoad(async (signal) => (open ? getCluster(signal) : undefined), [open, who?.name]);
  useEffect(() => {
    addEventListener(SIGNED_OUT, access.again);
    return () => removeEventListener(SIGNED_OUT, access.again);
  }, [access.again]);
  const key = place.page === "model" ? place.id : place.page;

  // A new page begins at its top, for the keyboard too.
  const first = useRef(true);
  useEffect(() => {
    document.title = place.page === "model" ? `${place.id} · hindsight` : "hindsight";
    if (first.current) {
      first.current = false;
      return;
    }
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [key]);

  return (
    <ThemeContext.Provider value={theme}>
      <NoticeContext.Provider value={setNotice}>
        <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
        <header class="top">
          <a class="brand" href={modelsHref()}><img src="./favicon.svg" alt="" width="20" height="20" />hindsight</a>
          <nav aria-label="Pages">
            <a href={modelsHref()} aria-current={place.page === "models" ? "page" : undefined}>Models</a>
            {admin && <a href={createHref} aria-current={place.page === "create" ? "page" : undefined}>Create</a>}
            {open && cluster.value?.server && <a href={serversHref} aria-current={place.page === "servers" ? "page" : undefined}>Servers</a>}
          </nav>
          {who && (
            <button type="button" class="quiet who" onClick={() => void signOut().finally(access.again)} aria-label={`Sign out ${who.name}, ${who.role}`}>
              Sign out<span class="theme-text"> {who.name}</span>
            </button>
          )}
          <button type="button" class="quiet theme" onClick={() => choose(THEMES[choice].next)} aria-label={`Theme: ${THEMES[choice].text}`}>
            <span aria-hidden="true">{theme === "dark" ? "☾" : "☀"}</span> <span class="theme-text">{THEMES[choice].text}</span>
          </button>
        </header>
        <div role="status" class="notices">
          {notice && (
            <div class="notice">
              <span>{notice.text}</span>
              {notice.action && (
                <button type="button" class="small" onClick={() => { setNotice(undefined); notice.action?.run(); }}>{notice.action.text}</button>
              )}
              <button type="button" class="quiet small" aria-label="Dismiss" onClick={() => setNotice(undefined)}>✕</button>
            </div>
          )}
        </div>
        <main id="main" ref={main} tabIndex={-1}>
          {!access.value && <Failure error={access.error} />}
          {access.value && !open && <SignIn done={access.again} />}
          <MayContext.Provider value={may}>
            {open && place.page === "models" && <ModelsPage query={place.query} />}
            {open && place.page === "create" && (admin ? <CreatePage /> : <p class="empty">Creating a model needs the role admin.</p>)}
            {open && place.page === "csv" && (admin ? <CsvPage /> : <p class="empty">Creating a model needs the role admin.</p>)}
            {open && place.page === "servers" && <ServersPage />}
            {open && place.page === "model" && <ModelPage key={place.id} id={place.id} tab={place.tab} />}
          </MayContext.Provider>
        </main>
        {open && <Foot may={may} />}
      </NoticeContext.Provider>
    </ThemeContext.Provider>
  );
}

/** Foot links to what the server has beside the console. */
function Foot({ may }: { may: May }) {
  return (
    <footer class="foot">
      <a href="openapi.json">OpenAPI</a>
      {may.all && <a href="metrics">Metrics</a>}
    </footer>
  );
}
