/** The text of a replay. */
import { CONTROLLER_INFO } from "@deltaloop/kube/objects";
import type { UserRequest, ReplayedSync } from "@deltaloop/replay/replay";
import { objectName } from "../explain/subject.ts";
import { describeTrace } from "../explain/describe.ts";
import { since } from "../command/moment.ts";
import { printable } from "@deltaloop/base/output";
import { Repeats } from "./repeats.ts";

export interface ReplayTextOptions {
  readonly all?: true;
  readonly verbose?: true;
  readonly why?: true;
}

/** Limit of reasons printed for one sync. */
const REASONS_MAX = 3;

/** One block for each sync; repeats of a key are folded. */
export class ReplayText {
  readonly #startMs: number;
  readonly #repeats = new Repeats();

  constructor(startMs: number) {
    this.#startMs = startMs;
  }

  of(sync: ReplayedSync, { all, verbose, why }: ReplayTextOptions): string {
    const lines = decisionLines(sync, verbose === true, why === true);
    const when = this.#since(sync.atMs);
    const { isNews, before } = this.#repeats.next(name(sync), lines, when);
    if (all !== true && (!isNews || (lines === "" && before === undefined))) return "";
    const said = before === undefined || all ? "" : `${INDENT}${printable(name(sync))}: ${before}\n`;
    if (lines === "" && all !== true) return said;
    return `${said}${clockTime(sync.atMs)} ${when} ${printable(`${name(sync)}: ${reasonsOf(sync)}`)}\n${lines}`;
  }

  user({ atMs, kind, resource, namespace, name }: UserRequest, status: number): string {
    const answer = status < 300 ? "" : `, answered ${status}`;
    return `${clockTime(atMs)} ${this.#since(atMs)} ${printable(`user: ${kind} ${objectName(resource, name)} -n ${namespace}${answer}`)}\n`;
  }

  rest(): string {
    return [...this.#repeats.rest()].map(([key, said]) => `${INDENT}${printable(key)}: ${said}\n`).join("");
  }

  #since(atMs: number): string {
    return since(atMs, this.#startMs).padStart(9);
  }
}

const INDENT = " ".repeat(23);

function name({ controller, key }: ReplayedSync): string {
  const [namespace = "", object = ""] = key.split("/");
  return `${objectName(CONTROLLER_INFO[controller].primary, object)} -n ${namespace}`;
}

/** Formats a time in UTC, like the times in the capture. */
function clockTime(atMs: number): string {
  return new Date(atMs).toISOString().slice(11, 23);
}

function reasonsOf({ reasons }: ReplayedSync): string {
  if (reasons.length === 0) return "a delayed requeue or a retry";
  const more = reasons.length - REASONS_MAX;
  return reasons.slice(0, REASONS_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function decisionLines({ lines, error }: ReplayedSync, verbose: boolean, why: boolean): string {
  const undecided = lines.flatMap((line) => (line.kind === "notDecided" ? [line.what] : []));
  // A live list repeats reasons.
  const said = new Set([
    ...lines.filter(({ kind }) => kind !== "notDecided" && (why || kind !== "reason")).map(describeTrace),
    ...(verbose && undecided.length > 0 ? [`not decided: ${undecided.join(", ")}`] : []),
    ...(error === undefined ? [] : [`error: ${printable(error)}`]),
  ]);
  return [...said].map((line) => `${INDENT}${line}\n`).join("");
}
