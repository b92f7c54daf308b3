// The page: signs in, then displays the view of the URL.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import * as api from "./api.js";
import { App } from "./app.jsx";
import { SignIn } from "./signin.jsx";
import { applyTheme } from "./theme.js";

applyTheme();

/** Takes the code of a one-time link out of the URL before anything else happens. */
function takeCode() {
  const match = location.hash.match(/^#code=([\w-]+)$/);
  if (match) history.replaceState(null, "", "#/");
  return match?.[1];
}
const code = takeCode();

function Root() {
  const [user, setUser] = useState();
  const [message, setMessage] = useState("");

  async function enter() {
    try {
      const who = await api.whoAmI();
      // A user without any credentials gets no error message.
      if (!who && api.token()) setMessage("This token is not valid, or no longer.");
      if (!who) api.setToken(null);
      setUser(who);
    } catch (error) {
      setMessage(error.message);
      setUser(null);
    }
  }

  useEffect(() => {
    api.whenUnauthorized(() => {
      if (!api.token()) return;
      api.setToken(null);
      setMessage("The session has ended. Sign in again.");
      setUser(null);
    });
    const redeemed = code ? api.redeem(code) : Promise.resolve();
    redeemed.then(enter, () => {
      setMessage("This link was used before or is older than a minute. Ask for another one with “pintle console”.");
      setUser(null);
    });
  }, []);

  const signIn = (token) => {
    setMessage("");
    api.setToken(token);
    enter();
  };
  const signOut = async () => {
    await api.signOut().catch(() => {});
    setMessage("");
    setUser(null);
  };
  if (user === undefined) return <p class="starting">Connecting…</p>;
  if (user === null) return <SignIn message={message} onToken={signIn} />;
  return <App user={user} onSignOut={signOut} />;
}

render(<Root />, document.getElementById("app"));
