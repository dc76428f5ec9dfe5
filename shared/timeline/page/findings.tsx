import type { JSX } from "preact";
import type { TimelineFinding, TimelineObject } from "../input.ts";
import type { Shown } from "./view.ts";
import { clockText, shortName } from "./format.ts";
import { spanOfFinding } from "./view.ts";

/** Complete workloads are listed, too, where there are few. */
const LISTED_MAX = 8;
const REQUESTS_MAX = 12;

/** The verdicts, and below each workload its findings. */
export function Findings(shown: Shown): JSX.Element {
  const { input } = shown.model;
  const bad = input.verdicts.filter(({ health }) => health !== "complete");
  const listed = input.verdicts.length <= LISTED_MAX ? input.verdicts : bad;
  const known = new Set(listed.map(({ object }) => object));
  const byWorkload = Map.groupBy(input.findings.entries(), ([, { workload }]) => workload);
  const others = [...byWorkload.keys()].filter((workload) => !known.has(workload));
  const well = input.verdicts.length - listed.length;
  return (
    <>
      <h2>{bad.length === 0 ? "All complete" : `${bad.length} of ${input.verdicts.length} workloads not complete`}</h2>
      {[...known, ...others].map((workload) => (
        <Workload key={workload} {...shown} workload={workload} findings={byWorkload.get(workload) ?? []} />
      ))}
      {well > 0 && <p class="muted">{well} more complete</p>}
      {input.findings.length === 0 && <p class="muted">No cause of trouble was found at any moment.</p>}
      <Requests {...shown} />
    </>
  );
}

/** What users changed: where to look first if there is no finding. */
function Requests({ model, change }: Shown): JSX.Element | null {
  const marks = model.lanes.flatMap(({ marks: all }) => all.filter(({ kind }) => kind === "change")).toSorted((a, b) => a.at - b.at);
  if (marks.length === 0) return null;
  return (
    <section class="workload">
      <h3>Changes by users</h3>
      <ul class="requests">
        {marks.slice(-REQUESTS_MAX).map(({ id, lane, at, title, change: request }) => (
          <li key={id}>
            <button type="button" class="link" onClick={() => change({ lane, mark: id, at })}>
              {clockText(model, at)} {shortName(model.input.objects[lane] as TimelineObject)}
            </button>{" "}
            {title}
            {request?.by !== undefined && <small> by {request.by}</small>}
          </li>
        ))}
      </ul>
      {marks.length > REQUESTS_MAX && (
        <p class="muted">
          The last {REQUESTS_MAX} of {marks.length}.
        </p>
      )}
    </section>
  );
}

interface WorkloadProps extends Shown {
  readonly workload: number;
  readonly findings: readonly (readonly [index: number, finding: TimelineFinding])[];
}

function Workload({ model, view, change, workload, findings }: WorkloadProps): JSX.Element | null {
  const object = model.input.objects[workload];
  if (object === undefined) return null;
  const verdict = model.input.verdicts.find((each) => each.object === workload);
  const { health = "deleted", effect = "", changed = [], waits = [] } = verdict ?? {};
  return (
    <section class="workload">
      <h3>
        <span class={`health ${health}`}>{health.toUpperCase()}</span> {shortName(object)} <small>-n {object.namespace}</small>
      </h3>
      {effect !== "" && <p>{effect}</p>}
      {findings.map(([index, finding]) => (
        <FindingButton key={index} {...{ model, view, change, index, finding }} />
      ))}
      <Facts title="Changed before" items={changed} />
      <Facts title="Waits for" items={waits} />
    </section>
  );
}

function Facts({ title, items }: { readonly title: string; readonly items: readonly string[] }): JSX.Element | null {
  if (items.length === 0) return null;
  return (
    <details>
      <summary>
        {title} ({items.length})
      </summary>
      <ul>
        {items.map((item) => (
          <li key={item}>{item}</li>
        ))}
      </ul>
    </details>
  );
}

const LEVELS = { cause: "Cause", wait: "Waits", effect: "Effect" } as const;

function FindingButton({
  model,
  view,
  change,
  index,
  finding,
}: Shown & { readonly index: number; readonly finding: TimelineFinding }): JSX.Element {
  const { cause, level, from, until, objects, evidence, help, confidence, workload } = finding;
  const isChosen = view.finding === index;
  const { endMs } = model.input;
  const choose = (): void => {
    if (isChosen) return change({ finding: undefined, only: false });
    const closed = new Set(view.closed);
    for (const each of [workload, ...objects])
      for (let lane = model.lanes[each]; lane !== undefined; lane = lane.parent) closed.delete(lane.index);
    const [lane = workload] = objects;
    change({
      ...spanOfFinding(finding, endMs),
      at: until === undefined ? endMs : (from + until) / 2,
      finding: index,
      lane,
      mark: undefined,
      closed,
    });
  };
  return (
    <div class={`finding ${level} ${isChosen ? "chosen" : ""}`}>
      <button type="button" aria-pressed={isChosen} onClick={choose}>
        <strong>{until === undefined ? LEVELS[level] : "Earlier cause"}</strong> {cause}
        <small>
          {confidence}, {clockText(model, from)} to {until === undefined ? "the end" : clockText(model, until)}
        </small>
      </button>
      {isChosen && (
        <div class="more">
          {evidence.length > 0 && <p>Evidence: {evidence.join("; ")}</p>}
          {help.length > 0 && (
            <ul>
              {help.map((each) => (
                <li key={each}>{each}</li>
              ))}
            </ul>
          )}
          <label>
            <input type="checkbox" checked={view.only} onChange={({ currentTarget }) => change({ only: currentTarget.checked })} /> show
            only its objects
          </label>
        </div>
      )}
    </div>
  );
}
