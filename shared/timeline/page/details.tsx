import type { JSX } from "preact";
import type { Difference } from "../input.ts";
import type { Shown } from "./view.ts";
import { clockText, commandOf, durationText, shortName, sinceText, stateWords } from "./format.ts";
import { changeTitle, differenceText, podAt, sizeAt } from "./model.ts";
import type { Lane, LaneMark } from "./model.ts";
import { rulePage } from "./rule-page.ts";

/** Newest first. */
const [CHANGES_MAX, MARKS_MAX] = [8, 12];

/** The details of the selection: of a mark, otherwise of an object at the selected time. */
export function Details(shown: Shown): JSX.Element {
  const { model, view } = shown;
  const lane = view.lane === undefined ? undefined : model.lanes[view.lane];
  const mark = lane?.marks.find(({ id }) => id === view.mark);
  const command = lane && commandOf(model, lane.object, mark?.at ?? view.at);
  if (lane === undefined) return <p class="muted">Select a finding, a bar or a mark to see its reasons.</p>;
  return (
    <div aria-live="polite">
      <h2>
        {shortName(lane.object)} {lane.object.namespace !== "" && <small>-n {lane.object.namespace}</small>}
      </h2>
      {mark === undefined ? <ObjectDetails {...shown} lane={lane} /> : <MarkDetails {...shown} lane={lane} mark={mark} />}
      {command !== undefined && (
        <>
          <h3>In a terminal</h3>
          <code class="command">{command}</code>
        </>
      )}
    </div>
  );
}

const KINDS = {
  change: "Change by a user",
  sync: "Decision of our controller",
  refusal: "Refused request",
  event: "Event",
  shadow: "Write of upstream's controller, compared with deltaloop's",
} as const;

function MarkDetails({ model, change, lane, mark }: Shown & { readonly lane: Lane; readonly mark: LaneMark }): JSX.Element {
  const { kind, at, title } = mark;
  const by = mark.mark?.by ?? mark.change?.by;
  const { lines = [], reasons = [] } = mark.mark ?? {};
  return (
    <>
      <p>
        <button type="button" class="link" onClick={() => change({ mark: undefined })}>
          ← {lane.object.kind}
        </button>
      </p>
      <h3>{KINDS[kind]}</h3>
      <p>
        <strong>{title}</strong>
      </p>
      <p class="muted">
        {clockText(model, at, 3)} ({sinceText(at)}){by === undefined ? "" : `, by ${by}`}
      </p>
      {lines.map((line) => (
        <p key={line}>{line}</p>
      ))}
      {reasons.length > 0 && (
        <>
          <h3>Because</h3>
          <ul>
            {reasons.map(({ text, rule }) => (
              <li key={text}>
                {text}
                {rule !== undefined && (
                  <small class="rule">
                    <a class="link" href={rulePage(rule)} target="_blank" rel="noreferrer">
                      kubernetes.io
                    </a>
                    , docs/internals/spec/{rule.replace(" ", ".md ")}
                  </small>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      {mark.change !== undefined && <Differences differences={mark.change.differences} />}
    </>
  );
}

function ObjectDetails({ model, view, change, lane }: Shown & { readonly lane: Lane }): JSX.Element {
  const { object, marks } = lane;
  const { from, until, node, images = [], revision, changes } = object;
  const earlier = changes.filter(({ at }) => at <= view.at).slice(-CHANGES_MAX);
  const near = folded(marks.filter(({ at }) => at >= view.from && at <= view.to));
  const routine = near.filter(({ mark }) => mark.isRoutine);
  const telling = near.filter(({ mark }) => !mark.isRoutine);
  return (
    <>
      <p>{stateText(lane, view.at)}</p>
      <p class="muted">
        {changes[0]?.what === "exists" ? "exists at the start" : `created ${clockText(model, from)}`}
        {until !== undefined && `, deleted ${clockText(model, until)}`}
        {node !== undefined && `, on node ${node}`}
        {revision !== undefined && `, revision ${revision}`}
        {images.length > 0 && `, image ${images.join(", ")}`}
      </p>
      {near.length > 0 && <h3>Marks in sight</h3>}
      <MarkList {...{ model, change }} marks={telling} />
      {routine.length > 0 && (
        <details>
          <summary>{routine.length} that only write a status</summary>
          <MarkList {...{ model, change }} marks={routine} />
        </details>
      )}
      <h3>Versions until {clockText(model, view.at)}</h3>
      {earlier.toReversed().map((each, index) => (
        <details key={earlier.length - index}>
          <summary>
            {clockText(model, each.at)} {changeTitle(each)}
            {each.by === undefined ? "" : ` by ${each.by}`}
          </summary>
          <Differences differences={each.differences} />
        </details>
      ))}
      {earlier.length === 0 && <p class="muted">None.</p>}
    </>
  );
}

interface Folded {
  readonly mark: LaneMark;
  times: number;
}

function MarkList({ model, change, marks }: Pick<Shown, "model" | "change"> & { readonly marks: readonly Folded[] }): JSX.Element {
  return (
    <>
      <ul class="marks">
        {marks.slice(0, MARKS_MAX).map(({ mark: { id, at, title, kind }, times }) => (
          <li key={id}>
            <button type="button" class="link" onClick={() => change({ mark: id, at })}>
              {clockText(model, at)} {kind}: {title}
              {times > 1 && ` (${times} times)`}
            </button>
          </li>
        ))}
      </ul>
      {marks.length > MARKS_MAX && <p class="muted">Zoom in for {marks.length - MARKS_MAX} more.</p>}
    </>
  );
}

/** Adjacent marks of the same words. */
function folded(marks: readonly LaneMark[]): readonly Folded[] {
  const folds: Folded[] = [];
  for (const mark of marks) {
    const last = folds.at(-1);
    const times = 1 + (mark.repeats ?? 0);
    if (last?.mark.kind === mark.kind && last.mark.title === mark.title) last.times += times;
    else folds.push({ mark, times });
  }
  return folds;
}

function stateText({ object }: Lane, at: number): string {
  const pod = podAt(object, at);
  if (pod !== undefined)
    return `${stateWords(pod.state)}${pod.reason === undefined ? "" : ` (${pod.reason})`} for ${durationText(at - pod.since)}`;
  const size = sizeAt(object, at);
  if (size === undefined) return at < object.from ? "not created yet" : "deleted";
  const [, desired, ready, available] = size;
  return `${desired} desired, ${ready} ready, ${available} available`;
}

function Differences({ differences }: { readonly differences: readonly Difference[] }): JSX.Element | null {
  if (differences.length === 0) return null;
  return (
    <ul class="differences">
      {differences.map((difference) => (
        <li key={difference.field}>{differenceText(difference)}</li>
      ))}
    </ul>
  );
}
