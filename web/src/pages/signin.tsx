import { useState } from "preact/hooks";
import { signIn } from "../api/session";
import { Failure, Field } from "../ui/parts";

/** SignIn asks for a token. */
export function SignIn({ done }: { done: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = async (): Promise<void> => {
    setBusy(true);
    try {
      await signIn(token.trim());
      setToken("");
      done();
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <h1>Sign in</h1>
      <form class="panel" onSubmit={(e) => { e.preventDefault(); void submit(); }} noValidate>
        <Field label="Token" hint="An operator makes one with hindsight-server token create.">
          {(a) => (
            <input {...a} type="password" autocomplete="current-password" spellcheck={false} value={token}
              onInput={(e) => { setToken(e.currentTarget.value); setError(undefined); }} />
          )}
        </Field>
        <Failure error={error} />
        <div class="actions">
          <button type="submit" class="primary" disabled={busy || !token.trim()} aria-busy={busy}>Sign in</button>
        </div>
      </form>
    </>
  );
}
