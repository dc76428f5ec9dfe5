import type { JSX } from "preact";
import type { Shown } from "./view.ts";
import type { View } from "./view.ts";
import { wholeSpan, zoomed, ZOOM } from "./view.ts";

const KINDS: readonly View["kind"][] = ["Deployment", "ReplicaSet", "ReplicationController", "Pod"];

export function Toolbar({ model, view, change, matches }: Shown & { readonly matches: number }): JSX.Element {
  const { endMs } = model.input;
  const isNode = view.lane !== undefined && model.lanes[view.lane]?.object.kind === "Node";
  const zoom = (factor: number): void => change(zoomed(view, factor, view.at, endMs));
  return (
    <form class="toolbar" role="search" onSubmit={(event) => event.preventDefault()}>
      <label>
        <span class="hidden">Filter by text</span>
        <input
          type="search"
          placeholder="Filter by name, image, state …"
          value={view.text}
          onInput={({ currentTarget }) => change({ text: currentTarget.value })}
        />
      </label>
      <label>
        <span class="hidden">Kind</span>
        <select value={view.kind} onChange={({ currentTarget }) => change({ kind: currentTarget.value as View["kind"] })}>
          <option value="">all kinds</option>
          {KINDS.map((kind) => (
            <option key={kind}>{kind}</option>
          ))}
        </select>
      </label>
      {model.namespaces.length > 1 && (
        <label>
          <span class="hidden">Namespace</span>
          <select value={view.namespace} onChange={({ currentTarget }) => change({ namespace: currentTarget.value })}>
            <option value="">all namespaces</option>
            {model.namespaces.map((namespace) => (
              <option key={namespace}>{namespace}</option>
            ))}
          </select>
        </label>
      )}
      <output class="muted">
        {matches} of {model.lanes.length}
      </output>
      <span class="group" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom in" onClick={() => zoom(ZOOM)}>
          +
        </button>
        <button type="button" aria-label="Zoom out" onClick={() => zoom(1 / ZOOM)}>
          −
        </button>
        <button type="button" onClick={() => change(wholeSpan(endMs))}>
          Whole time
        </button>
      </span>
      {model.input.objects.some(({ node }) => node !== undefined) && (
        <button
          type="button"
          aria-pressed={view.byNode}
          onClick={() => change({ byNode: !view.byNode, ...(isNode && { lane: undefined }) })}
        >
          By node
        </button>
      )}
      <button type="button" aria-pressed={view.asTable} onClick={() => change({ asTable: !view.asTable })}>
        Table
      </button>
    </form>
  );
}
