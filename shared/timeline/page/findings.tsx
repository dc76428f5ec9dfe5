import type { JSX } from "preact";
import type { TimelineFinding, TimelineObject } from "../input.ts";
import type { Shown } from "./view.ts";
import { clockText, durationText, shortName } from "./format.ts";
import { sizeAt } from "./model.ts";
import type { LaneMark, Model } from "./model.ts";
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
      <h2>
        {bad.length === 0 ? "All complete" : `${bad.length} of ${input.verdicts.length} workloads not complete`}{" "}
        <small>{input.cluster === undefined ? `at the end, ${clockText(shown.model, input.endMs)}` : "now"}</small>
      </h2>
      {[...known, ...others].map((workload) => (
        <Workload key={workload} {...shown} workload={workload} findings={byWorkload.get(workload) ?? []} />
      ))}
      {well > 0 && <p class="muted">{well} more complete</p>}
      {input.findings.length === 0 && <p class="muted">No cause of trouble was found at any moment.</p>}
      <Requests {...shown} />
    </>
  );
}

/** The users' changes, as a starting point if there is no finding. */
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
      {findings.map(([index, finding], place) => (
        <FindingButton key={index} {...{ model, view, change, index, finding }} isFirst={place === 0 && finding.level === "cause"} />
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
const CONFIDENCE = {
  certain: "Certain: the cluster itself reports it.",
  likely: "Likely: concluded, because no object states it.",
} as const;

function FindingButton({
  model,
  view,
  change,
  index,
  finding,
  isFirst,
}: Shown & { readonly index: number; readonly finding: TimelineFinding; readonly isFirst: boolean }): JSX.Element {
  const { cause, level, until, objects, evidence, help, confidence, workload } = finding;
  const isChosen = view.finding === index;
  const { endMs } = model.input;
  const choose = (): void => {
    if (isChosen) return change({ finding: undefined, only: false });
    const closed = new Set(view.closed);
    for (const each of [workload, ...objects])
      for (let lane = model.lanes[each]; lane !== undefined; lane = lane.parent) closed.delete(lane.index);
    const [lane = workload] = objects;
    change({
      ...spanOfFinding(finding, changeBefore(model, finding)?.at, endMs),
      at: until ?? endMs,
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
        <small>{timesText(model, finding)}</small>
      </button>
      {(isChosen || isFirst) && <Impact {...{ model, change, finding }} />}
      {isChosen && (
        <div class="more">
          <p>
            <b>{CONFIDENCE[confidence]}</b>
            {evidence.length > 0 && ` Evidence: ${evidence.join("; ")}`}
          </p>
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

/** How many pods it concerns, and the last change by a user before it. */
function Impact({ model, change, finding }: Pick<Shown, "model" | "change"> & { readonly finding: TimelineFinding }): JSX.Element {
  const { workload, objects, from, until = model.input.endMs } = finding;
  const object = model.input.objects[workload] as TimelineObject; // a finding has one
  const pods = objects.filter((index) => model.input.objects[index]?.kind === "Pod").length;
  // A deleted workload has no size any more.
  const size = sizeAt({ ...object, until: Infinity }, until);
  const parts = [
    ...(pods > 0 ? [`${pods} pod${pods === 1 ? "" : "s"} affected`] : []),
    ...(size === undefined ? [] : [`${size[2]} of ${size[1]} desired pods ready`]),
  ];
  const cause = changeBefore(model, finding);
  const { changed = [] } = model.input.verdicts.find((each) => each.object === workload) ?? {};
  return (
    <dl class="impact">
      {parts.length > 0 && (
        <div>
          <dt>Impact:</dt> <dd>{parts.join(", ")}</dd>
        </div>
      )}
      <div>
        <dt>Change before:</dt>{" "}
        <dd>
          {cause === undefined ? (
            (changed[0] ?? "none recorded")
          ) : (
            <>
              <button type="button" class="link" onClick={() => change({ lane: cause.lane, mark: cause.id, at: cause.at })}>
                {clockText(model, cause.at)} {cause.title}
              </button>
              {cause.change?.by !== undefined && ` by ${cause.change.by}`}, {durationText(from - cause.at)} earlier
            </>
          )}
        </dd>
      </div>
    </dl>
  );
}

function changeBefore({ lanes }: Model, { workload, from }: TimelineFinding): LaneMark | undefined {
  return lanes[workload]?.marks.findLast(({ kind, at }) => kind === "change" && at <= from);
}

/** Which moment each time is, because objects state whole seconds of another clock. */
function timesText(model: Model, { from, until, begin: { clock, what } }: TimelineFinding): string {
  const since = {
    recorded: `since ${clockText(model, from)}${what === undefined ? "" : `, when ${what}`}`,
    stated: `since ${clockText(model, from, 0)}, as the object states in whole seconds`,
    earlier: `since ${what}, before the recording`,
    checked: `found first at ${clockText(model, from)}, may have begun earlier`,
  }[clock];
  return until === undefined ? since : `${since}; found last at ${clockText(model, until)}`;
}
