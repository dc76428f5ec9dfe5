import type { JSX } from "preact";
import type { Shown } from "./view.ts";
import { clockText, shortName, stateWords } from "./format.ts";
import { podAt, sizeAt } from "./model.ts";
import type { Lane } from "./model.ts";

const ROWS_MAX = 500;

/** The drawing as text: the objects at the moment, and the marks of the drawn time. */
export function Tables({ model, view, change, lanes }: Shown & { readonly lanes: readonly Lane[] }): JSX.Element {
  const marks = lanes
    .flatMap((lane) => lane.marks.filter(({ at }) => at >= view.from && at <= view.to).map((mark) => ({ lane, mark })))
    .toSorted((a, b) => a.mark.at - b.mark.at);
  return (
    <div class="tables" role="region" aria-label="Tables" tabIndex={0}>
      <table>
        <caption>Objects at {clockText(model, view.at)}</caption>
        <thead>
          <tr>
            <th scope="col">Object</th>
            <th scope="col">Namespace</th>
            <th scope="col">State</th>
            <th scope="col">Image or node</th>
          </tr>
        </thead>
        <tbody>
          {lanes.slice(0, ROWS_MAX).map((lane) => (
            <tr key={lane.index}>
              <th scope="row">
                <button type="button" class="link" onClick={() => change({ lane: lane.index, mark: undefined })}>
                  {shortName(lane.object)}
                </button>
              </th>
              <td>{lane.object.namespace}</td>
              <td>{stateAt(lane, view.at)}</td>
              <td>{lane.object.images?.join(", ") ?? lane.object.node ?? ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <table>
        <caption>Marks in the drawn time</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Object</th>
            <th scope="col">Kind</th>
            <th scope="col">What</th>
          </tr>
        </thead>
        <tbody>
          {marks.slice(0, ROWS_MAX).map(({ lane, mark }) => (
            <tr key={mark.id}>
              <td>{clockText(model, mark.at, 3)}</td>
              <td>{shortName(lane.object)}</td>
              <td>{mark.kind}</td>
              <td>
                <button type="button" class="link" onClick={() => change({ lane: lane.index, mark: mark.id, at: mark.at })}>
                  {mark.title}
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {model.input.gaps.length > 0 && (
        <table>
          <caption>Gaps in the watch, without changes</caption>
          <thead>
            <tr>
              <th scope="col">From</th>
              <th scope="col">Until</th>
              <th scope="col">Resource</th>
            </tr>
          </thead>
          <tbody>
            {model.input.gaps.slice(0, ROWS_MAX).map(({ from, until, resource }) => (
              <tr key={`${from} ${resource}`}>
                <td>{clockText(model, from, 3)}</td>
                <td>{clockText(model, until, 3)}</td>
                <td>{resource}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {Math.max(lanes.length, marks.length) > ROWS_MAX && <p class="muted">Only the first {ROWS_MAX} rows are shown: filter or zoom in.</p>}
    </div>
  );
}

function stateAt({ object }: Lane, at: number): string {
  const pod = podAt(object, at);
  if (pod !== undefined) return pod.reason ?? stateWords(pod.state);
  const size = sizeAt(object, at);
  if (size === undefined) return at < object.from ? "not created" : "deleted";
  return `${size[2]} of ${size[1]} ready, ${size[3]} available`;
}
