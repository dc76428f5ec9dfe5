/** The state of the view, kept in the URL's hash so that a link restores it. */
import type { Kind, TimelineFinding } from "../input.ts";
import type { Lane, Model } from "./model.ts";

export interface View {
  /** The visible time span. */
  readonly from: number;
  readonly to: number;
  /** The moment whose state is shown. */
  readonly at: number;
  readonly lane?: number;
  readonly mark?: string;
  readonly finding?: number;
  /** Shows only the objects of the finding. */
  readonly only: boolean;
  readonly text: string;
  readonly kind: Kind | "";
  readonly namespace: string;
  readonly asTable: boolean;
  /** Shows pods below their nodes. */
  readonly byNode: boolean;
  readonly closed: ReadonlySet<number>;
}

export type Change = Partial<{ -readonly [K in keyof View]: View[K] | undefined }>;

export interface Shown {
  readonly model: Model;
  readonly view: View;
  readonly change: (change: Change) => void;
}

/** Factor of one zoom step. */
export const ZOOM = 0.6;
/** The end margin has space for the counts and labels of the last marks. */
const [SPAN_MIN_MS, MARGIN, END_MARGIN] = [20, 0.02, 0.04];
/** Number of lanes above which complete workloads are initially collapsed. */
const OPEN_MAX = 150;
const KINDS: readonly string[] = ["Deployment", "ReplicaSet", "ReplicationController", "Pod"] satisfies Kind[];

export function initialView(model: Model, hash: string): View {
  const { endMs, verdicts } = model.input;
  const values = new URLSearchParams(hash.slice(1));
  const numberOf = (name: string): number | undefined => {
    const text = values.get(name);
    const value = Number(text);
    return text === null || text === "" || !Number.isFinite(value) ? undefined : value;
  };
  const isWell = new Set(verdicts.flatMap(({ object, health }) => (health === "complete" ? [object] : [])));
  const many = model.lanes.length > OPEN_MAX;
  const closed = values.get("closed")?.split(",").map(Number) ?? (many ? [...isWell] : []);
  const lane = numberOf("lane");
  const finding = numberOf("finding");
  const [mark, kind] = [values.get("mark") ?? "", values.get("kind") ?? ""];
  const whole = wholeSpan(endMs);
  const span = spanOf(numberOf("from") ?? whole.from, numberOf("to") ?? whole.to, endMs);
  return {
    ...span,
    at: clamp(numberOf("at") ?? endMs, 0, endMs),
    ...(lane !== undefined && model.lanes[lane] !== undefined && { lane }),
    ...(/^\d+\.[cm]\d+$/.test(mark) && { mark }),
    ...(finding !== undefined && model.input.findings[finding] !== undefined && { finding }),
    only: values.get("only") === "1",
    text: values.get("text") ?? "",
    kind: KINDS.includes(kind) ? (kind as Kind) : "",
    namespace: values.get("namespace") ?? "",
    asTable: values.get("table") === "1",
    byNode: values.get("nodes") === "1",
    closed: new Set(closed.filter((each) => model.lanes[each] !== undefined)),
  };
}

/** @param follows whether to omit the times, so that the link shows the newest state */
export function hashOf(
  { from, to, at, lane, mark, finding, only, text, kind, namespace, asTable, byNode, closed }: View,
  follows: boolean,
): string {
  const times = { from: String(Math.round(from)), to: String(Math.round(to)), at: String(Math.round(at)) };
  const values = new URLSearchParams(follows ? {} : times);
  const set = (name: string, value: string | number | undefined | false): unknown =>
    value === undefined || value === "" || value === false || values.set(name, String(value));
  set("lane", lane);
  set("mark", mark);
  set("finding", finding);
  set("only", only && "1");
  set("text", text);
  set("kind", kind);
  set("namespace", namespace);
  set("table", asTable && "1");
  set("nodes", byNode && "1");
  set("closed", [...closed].join(","));
  return `#${values.toString()}`;
}

export function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}

/** Returns the span of the whole capture with a margin, so that marks at its ends are visible. */
export function wholeSpan(endMs: number): Pick<View, "from" | "to"> {
  const length = Math.max(endMs, SPAN_MIN_MS);
  return { from: -length * MARGIN, to: endMs + length * END_MARGIN };
}

/** Limits the span to the capture. */
export function spanOf(from: number, to: number, endMs: number): Pick<View, "from" | "to"> {
  const whole = wholeSpan(endMs);
  const width = clamp(to - from, SPAN_MIN_MS, whole.to - whole.from);
  const begin = clamp(from, whole.from, whole.to - width);
  return { from: begin, to: begin + width };
}

/** @param factor below 1 zooms in; the time `around` keeps its position */
export function zoomed({ from, to }: View, factor: number, around: number, endMs: number): Pick<View, "from" | "to"> {
  const width = Math.max((to - from) * factor, SPAN_MIN_MS);
  const begin = around - ((around - from) * width) / (to - from);
  return spanOf(begin, begin + width, endMs);
}

/** Whether the selected moment and span are at the end, so that they follow a running cluster. */
export function follows({ at, to }: View, { input: { endMs } }: Model): boolean {
  return at >= endMs && to >= endMs;
}

/** Returns the view after an update. It stays at the end if it was there, and keeps its finding. */
export function followed(view: View, before: Model, after: Model): View {
  const [was, is] = [before.input, after.input];
  if (was.startMs !== is.startMs) {
    const { text, kind, namespace, asTable, byNode, only } = view;
    return { ...initialView(after, ""), text, kind, namespace, asTable, byNode, only };
  }
  const by = is.endMs - was.endMs;
  const isWhole = view.from <= wholeSpan(was.endMs).from;
  const span = isWhole ? wholeSpan(is.endMs) : spanOf(view.from + by, view.to + by, is.endMs);
  const chosen = view.finding === undefined ? undefined : was.findings[view.finding];
  const { finding: _, ...rest } = view;
  const index =
    chosen === undefined ? -1 : is.findings.findIndex(({ workload, cause }) => workload === chosen.workload && cause === chosen.cause);
  // Node lanes come after the object lanes, so new objects shift the indexes of node lanes.
  const moved = (lane: number): number => (lane < was.objects.length ? lane : lane + is.objects.length - was.objects.length);
  return {
    ...rest,
    ...(view.lane !== undefined && { lane: moved(view.lane) }),
    closed: new Set([...view.closed].map(moved)),
    ...(view.to >= was.endMs && span),
    ...(view.at >= was.endMs && { at: is.endMs }),
    ...(index !== -1 && { finding: index }),
  };
}

/** Returns the span of a finding with a margin, including the preceding change unless it is much earlier. */
export function spanOfFinding({ from, until }: TimelineFinding, changeMs: number | undefined, endMs: number): Pick<View, "from" | "to"> {
  const end = until ?? endMs;
  const begin = changeMs !== undefined && from - changeMs < 2 * (end - from) ? changeMs : from;
  const margin = Math.max((end - begin) * 0.25, endMs * 0.02, 500);
  return spanOf(begin - margin, end + margin, endMs);
}

/** The visible lanes in order: those that match the filter, and their owners, without lanes below a collapsed lane. */
export function visibleLanes({ order, input }: Model, { text, kind, namespace, finding, only, closed }: View): readonly Lane[] {
  const needle = text.trim().toLowerCase();
  const chosen = only && finding !== undefined ? input.findings[finding] : undefined;
  const objects = chosen && new Set([chosen.workload, ...chosen.objects]);
  const matches = ({ index, object, marks }: Lane): boolean =>
    (namespace === "" || object.namespace === namespace) &&
    (kind === "" || object.kind === kind) &&
    (objects === undefined || objects.has(index)) &&
    (needle === "" || textOf(object).includes(needle) || marks.some(({ title }) => title.toLowerCase().includes(needle)));
  const isFiltered = needle !== "" || kind !== "" || namespace !== "" || objects !== undefined;
  const shown = new Set<Lane>();
  for (const lane of order) {
    if (isFiltered && !matches(lane)) continue;
    for (let each: Lane | undefined = lane; each !== undefined && !shown.has(each); each = each.parent) shown.add(each);
  }
  const isHidden = ({ parent }: Lane): boolean => parent !== undefined && (closed.has(parent.index) || isHidden(parent));
  return order.filter((lane) => shown.has(lane) && !isHidden(lane));
}

function textOf({ kind, namespace, name, images = [], node = "", states = [] }: Lane["object"]): string {
  return [kind, namespace, name, ...images, node, ...states.flatMap(([, state, reason = ""]) => [state, reason])].join(" ").toLowerCase();
}

export function toggled(closed: ReadonlySet<number>, { index, children }: Lane): ReadonlySet<number> {
  if (children.length === 0) return closed;
  const next = new Set(closed);
  if (!next.delete(index)) next.add(index);
  return next;
}
