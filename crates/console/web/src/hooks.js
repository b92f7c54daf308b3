// Small hooks that several views use.
import { useEffect, useRef, useState } from "preact/hooks";

/** Loads a value whenever `inputs` change; older answers are dropped. */
export function useLoaded(load, inputs) {
  const [state, setState] = useState({ loading: true });
  useEffect(() => {
    const abort = new AbortController();
    setState((last) => ({ ...last, loading: true, error: undefined }));
    load(abort.signal).then(
      (value) => abort.signal.aborted || setState({ value }),
      (error) => abort.signal.aborted || setState({ error }),
    );
    return () => abort.abort();
  }, inputs);
  return state;
}

/** The present time, renewed every `ms`. */
export function useNow(ms) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return now;
}

/** Sets the title and moves the focus to the heading when a view opens, so that screen readers say where they are. */
export function useTitle(title) {
  const heading = useRef(null);
  useEffect(() => {
    document.title = `${title} · Pintle`;
  }, [title]);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  return heading;
}
