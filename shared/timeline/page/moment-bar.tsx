import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { PodState } from "../input.ts";
import type { Shown } from "./view.ts";
import { clockText, sinceText, stateWords } from "./format.ts";
import { podAt } from "./model.ts";
import type { Lane } from "./model.ts";

/** The scrubber, and how many pods are in each state at the moment. */
export function MomentBar({ model, view, change, lanes }: Shown & { readonly lanes: readonly Lane[] }): JSX.Element {
  const { endMs } = model.input;
  const { at } = view;
  const counts = useMemo(() => countsAt(model.lanes, at), [model, at]);
  const shownText = lanes.length < model.lanes.length ? " of all objects" : "";
  return (
    <div class="moment">
      <label>
        <span>
          At <b>{clockText(model, at, 3)}</b> <span class="muted">{sinceText(at)}</span>
        </span>
        <input
          type="range"
          min={0}
          max={Math.max(1, endMs)}
          step={Math.max(1, Math.round(endMs / 1_000))}
          value={at}
          aria-label="Moment"
          aria-valuetext={`${clockText(model, at)}, ${sinceText(at)} after the start`}
          onInput={({ currentTarget }) => change({ at: Number(currentTarget.value) })}
        />
      </label>
      <p role="status">
        {counts.length === 0
          ? "no pods"
          : counts.map(([state, count]) => (
              <span key={state} class={`count ${state}`}>
                {count} {stateWords(state)}
              </span>
            ))}
        {shownText !== "" && <span class="muted">{shownText}</span>}
      </p>
    </div>
  );
}

function countsAt(lanes: readonly Lane[], at: number): readonly (readonly [PodState, number])[] {
  const counts = new Map<PodState, number>();
  for (const { object } of lanes) {
    const state = object.kind === "Pod" ? podAt(object, at)?.state : undefined;
    if (state !== undefined) counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return [...counts].toSorted(([, a], [, b]) => b - a);
}
