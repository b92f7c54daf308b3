// Sign-in: a form for a token, and a description of the other ways.
import { useEffect, useRef } from "preact/hooks";

export function SignIn({ message, onToken }) {
  const input = useRef(null);
  useEffect(() => {
    document.title = "Sign in · Pintle";
    input.current?.focus();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    const token = input.current.value.trim();
    input.current.value = "";
    if (token) onToken(token);
  };
  return (
    <main class="signin">
      <form onSubmit={submit} autocomplete="off">
        <h1>
          <img src="icon.svg" alt="" width="32" height="32" /> Pintle console
        </h1>
        <p role="alert" class="error-text">
          {message}
        </p>
        <label for="token">Bearer token</label>
        <input id="token" ref={input} type="password" autocomplete="off" spellcheck={false} aria-describedby="token-help" />
        <p id="token-help" class="hint">
          The token stays in this tab and is gone when you close it.
        </p>
        <button class="primary" type="submit">
          Sign in
        </button>
        <h2>Other ways</h2>
        <dl>
          <dt>One-time link</dt>
          <dd>
            Run <code>pintle console</code> with your kubeconfig. The link signs you in as yourself.
          </dd>
          <dt>Token of a service account</dt>
          <dd>
            <code>kubectl create token NAME</code>
          </dd>
          <dt>Client certificate</dt>
          <dd>A certificate in your browser signs you in by itself.</dd>
        </dl>
      </form>
    </main>
  );
}
