import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Details } from "./details.tsx";
import { Findings } from "./findings.tsx";
import { clockText, durationText } from "./format.ts";
import { Lanes } from "./lanes.tsx";
import { Legend } from "./legend.tsx";
import { byNode } from "./by-node.ts";
import { modelOf } from "./model.ts";
import type { Model } from "./model.ts";
import { MomentBar } from "./moment-bar.tsx";
import { Tables } from "./tables.tsx";
import { Toolbar } from "./toolbar.tsx";
import { followed, follows, hashOf, initialView, visibleLanes } from "./view.ts";
import type { Change, Shown, View } from "./view.ts";

const HASH_MS = 250;

export interface AppProps {
  readonly model: Model;
  /** Whether changes of a running cluster arrive; absent for a capture. */
  readonly connection?: "live" | "lost";
}

export function App({ model: base, connection }: AppProps): JSX.Element {
  const [view, setView] = useState(() => initialView(base, location.hash));
  const model = useMemo(() => (view.byNode ? modelOf(byNode(base.input)) : base), [base, view.byNode]);
  const change = (next: Change): void => setView((before) => ({ ...before, ...next }) as View); // undefined removes an optional field
  const drawn = useRef(base);
  useLayoutEffect(() => {
    const before = drawn.current;
    drawn.current = base;
    if (before !== base) setView((current) => followed(current, before, base));
  }, [base]);
  useHash(base, view, { setView, isLive: connection !== undefined });
  const { text, kind, namespace, finding, only, closed } = view;
  const lanes = useMemo(() => visibleLanes(model, view), [model, text, kind, namespace, finding, only, closed]);
  const shown: Shown = { model, view, change };
  const { input } = model;
  return (
    <>
      <header>
        <h1>
          {input.source} <small>deltaloop timeline</small>
        </h1>
        {connection !== undefined && (
          <p class={`connection ${connection}`} role="status">
            {connection === "live" ? "● live" : "○ connection lost, trying again"}
          </p>
        )}
        <p>
          {input.cluster === undefined ? "recorded" : "since"} {new Date(input.startMs).toISOString().slice(0, 10)} {clockText(model, 0, 0)}{" "}
          to {clockText(model, input.endMs, 0)} UTC ({durationText(input.endMs)},{" "}
          {input.cluster === undefined ? "the recorder's clock" : "this machine's clock"}), {input.objects.length} objects
        </p>
      </header>
      {!input.redacted && (
        <p class="banner" role="alert">
          Not redacted: this page contains messages and values that may be secret. Do not attach it to a ticket.
        </p>
      )}
      <div class="page">
        <aside aria-label="Findings">
          <Findings {...shown} />
        </aside>
        <main>
          <Toolbar {...shown} matches={lanes.length} />
          <MomentBar {...shown} lanes={lanes} />
          {view.asTable ? <Tables {...shown} lanes={lanes} /> : <Lanes {...shown} lanes={lanes} />}
          {!view.asTable && <Legend model={model} />}
        </main>
        <aside class="details" aria-label="Details">
          <Details {...shown} />
        </aside>
      </div>
    </>
  );
}

interface HashOptions {
  readonly setView: (view: View) => void;
  readonly isLive: boolean;
}

/** Keeps the hash like the view, and the view like a hash that the user enters. */
function useHash(model: Model, view: View, { setView, isLive }: HashOptions): void {
  const written = useRef("");
  const latest = useRef(model);
  latest.current = model;
  const hash = hashOf(view, isLive && follows(view, model));
  useEffect(() => {
    const timer = setTimeout(() => {
      written.current = hash;
      history.replaceState(undefined, "", hash);
    }, HASH_MS);
    return () => clearTimeout(timer);
  }, [hash]);
  useEffect(() => {
    const read = (): void => {
      if (location.hash !== written.current) setView(initialView(latest.current, location.hash));
    };
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, [setView]);
}
