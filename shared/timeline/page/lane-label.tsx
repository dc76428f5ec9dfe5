import type { JSX } from "preact";
import type { Shown } from "./view.ts";
import { heightOf } from "./draw.ts";
import { shortName, stateWords } from "./format.ts";
import { podAt, sizeAt } from "./model.ts";
import type { Lane } from "./model.ts";
import { toggled } from "./view.ts";

interface LabelProps extends Shown {
  readonly lane: Lane;
  readonly top: number;
  readonly place: { readonly index: number; readonly count: number };
  readonly isClosed: boolean;
}

/** Name and state at the moment. */
export function LaneLabel({ lane, view, change, top, place, isClosed }: LabelProps): JSX.Element {
  const { object, depth, index, children, parent } = lane;
  const isSelected = view.lane === index;
  const caret = children.length === 0 ? "" : isClosed ? "▸" : "▾";
  const facts = [
    object.revision === undefined ? "" : `revision ${object.revision}`,
    (object.images ?? []).map((image) => image.split("/").at(-1)).join(", "),
    depth === 0 && object.states === undefined && object.kind !== "Node" ? `-n ${object.namespace}` : "",
  ].filter((fact) => fact !== "");
  const name = parent?.object.kind !== undefined && object.kind === "Pod" ? shortened(object.name, parent.object.name) : shortName(object);
  return (
    <div
      id={`lane-${index}`}
      class={`label ${object.states === undefined ? "owner" : "pod"} ${isSelected ? "selected" : ""}`}
      role="treeitem"
      aria-level={depth + 1}
      aria-setsize={place.count}
      aria-posinset={place.index + 1}
      aria-selected={isSelected}
      {...(children.length > 0 && { "aria-expanded": !isClosed })}
      style={{ top: `${top}px`, height: `${heightOf(lane)}px`, paddingLeft: `${6 + depth * 12}px` }}
      title={shortName(object)}
      onClick={() => change({ lane: index, mark: undefined })}
      onDblClick={() => change({ closed: toggled(view.closed, lane) })}
    >
      <span class="caret" aria-hidden="true" onClick={() => change({ closed: toggled(view.closed, lane) })}>
        {caret}
      </span>
      <span class="name">
        <b>{name}</b>
        {facts.length > 0 && <small>{facts.join(" · ")}</small>}
      </span>
      <StateText lane={lane} at={view.at} />
    </div>
  );
}

/** `…-x2x4z`: what distinguishes a pod from its siblings. */
function shortened(name: string, owner: string): string {
  return name.startsWith(`${owner}-`) ? `…${name.slice(owner.length)}` : name;
}

function StateText({ lane: { object }, at }: { readonly lane: Lane; readonly at: number }): JSX.Element {
  if (object.states !== undefined) {
    const moment = podAt(object, at);
    if (moment === undefined) return <span class="state absent">{at < object.from ? "not created" : "deleted"}</span>;
    return <span class={`state ${moment.state}`}>{moment.reason ?? stateWords(moment.state)}</span>;
  }
  const size = sizeAt(object, at);
  if (size === undefined) return <span class="state absent">{at < object.from ? "not created" : "deleted"}</span>;
  const [, desired, ready] = size;
  return (
    <span class={`state ${ready < desired ? "short" : ""}`}>
      {ready}/{desired} ready
    </span>
  );
}
