/**
 * The pods that the API server has bound to this node (node-agent §2.4): a list and a watch with `spec.nodeName=<node>`, resumed
 * and listed again as the Reflector says. The host starts it once it has read its own Node.
 *
 * A1 what is emitted is the whole list as of one resourceVersion: after each list, and after each group of events that arrived
 *    together and changed something.
 * A2 nothing is emitted before the first list is complete, and nothing because a connection was lost.
 * A3 a pod that cannot be understood is named in the log and left as it was; its neighbours go on.
 */
import { startReflector, stepReflector } from "../../cache/reflector.ts";
import type { ReflectorInput, ReflectorState, ReflectorStep } from "../../cache/reflector.ts";
import { parseWatchLine } from "../../cache/watch-line.ts";
import type { Resource } from "../../api/resources.ts";
import { objectKey } from "../../api/resources.ts";
import { parseNodePod } from "../../kubelet/pod.ts";
import type { NodePod } from "../../kubelet/pod.ts";
import { describeError } from "../../ports/describe-error.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeWatch } from "../../ports/kube.ts";
import type { Log } from "../../ports/log.ts";
import type { Random } from "../../ports/random.ts";

export interface ApiSourceOptions {
  readonly kube: KubeWatch<Resource>;
  readonly nodeName: string;
  readonly emit: (pods: readonly NodePod[]) => void;
  readonly log: Log;
  readonly clock: Clock;
  readonly random: Random;
}

const PAGE_SIZE = 500;
const WATCH_SECONDS_MIN = 300;

/** Runs until `signal` aborts. Source: pkg/kubelet/config/apiserver.go NewSourceApiserver, client-go tools/cache/undelta_store.go. */
export async function runApiSource(options: ApiSourceOptions, signal: AbortSignal): Promise<void> {
  await new ApiSource(options).run(signal);
}

class ApiSource {
  readonly #options: ApiSourceOptions;
  readonly #fieldSelector: string;
  /** By `namespace/name`. */
  #pods = new Map<string, NodePod>();
  #state: ReflectorState;
  #step: ReflectorStep;

  constructor(options: ApiSourceOptions) {
    this.#options = options;
    this.#fieldSelector = `spec.nodeName=${options.nodeName}`;
    [this.#state, this.#step] = startReflector(undefined);
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const step = this.#step;
      if (step.do === "continue") throw new Error("a request ended without saying how");
      this.#options.log.debug(step.do === "list" ? "listing" : "watching", {
        resource: "pods",
        why: step.why,
        rv: step.rv,
        afterMs: step.afterMs,
      });
      if (step.afterMs > 0) await this.#options.clock.after(step.afterMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      await (step.do === "list" ? this.#list(step.rv, signal) : this.#watch(step.rv, signal));
    }
  }

  #next(input: ReflectorInput): ReflectorStep {
    [this.#state, this.#step] = stepReflector(this.#state, input, this.#options.clock.now(), this.#options.random.next());
    return this.#step;
  }

  async #list(rv: string | undefined, signal: AbortSignal): Promise<void> {
    const { kube, log } = this.#options;
    const from = rv === undefined ? {} : ({ resourceVersion: rv, resourceVersionMatch: "NotOlderThan" } as const);
    const base = { fieldSelector: this.#fieldSelector, limit: PAGE_SIZE };
    try {
      const pods = new Map<string, NodePod>();
      let page = await kube.listPage("pods", { ...base, ...from }, signal);
      const { resourceVersion } = page;
      for (;;) {
        for (const item of page.items) this.#keep(pods, item);
        if (page.continue === undefined) break;
        page = await kube.listPage("pods", { ...base, continue: page.continue }, signal);
      }
      if (signal.aborted) return;
      this.#pods = pods;
      this.#emit();
      this.#next({ kind: "listed", rv: resourceVersion });
    } catch (error) {
      if (signal.aborted) return;
      log.warn("list failed", { resource: "pods", error: describeError(error) });
      this.#next({ kind: "listFailed", error });
    }
  }

  async #watch(rv: string, signal: AbortSignal): Promise<void> {
    const { clock, kube, random, log } = this.#options;
    const timeoutSeconds = WATCH_SECONDS_MIN + Math.floor(random.next() * (WATCH_SECONDS_MIN + 1));
    const query = { fieldSelector: this.#fieldSelector, resourceVersion: rv, allowWatchBookmarks: true, timeoutSeconds };
    const openedMs = clock.now();
    let events = 0;
    let opened = false;
    try {
      for await (const lines of kube.watch("pods", query, signal)) {
        if (signal.aborted) return;
        opened = true;
        events += lines.length;
        if (!this.#lines(lines)) return;
      }
      if (!signal.aborted) this.#next({ kind: "closed", clean: true, events, openMs: clock.now() - openedMs });
    } catch (error) {
      if (signal.aborted) return;
      log.info("watch ended", { resource: "pods", error: describeError(error) });
      this.#next(
        opened ? { kind: "closed", clean: false, events, openMs: clock.now() - openedMs } : { kind: "refused", error, inStream: false },
      );
    }
  }

  /** Takes in what arrived together. @returns whether the watch goes on */
  #lines(lines: readonly string[]): boolean {
    const { log } = this.#options;
    let changed = false;
    let goesOn = true;
    for (const text of lines) {
      const line = parseWatchLine(text);
      if (line.kind === "change" && line.rv !== undefined) {
        changed = (line.type === "D" ? this.#drop(line.object) : this.#keep(this.#pods, line.object)) || changed;
        this.#next({ kind: "accepted", rv: line.rv });
      } else if (line.kind === "bookmark" && line.rv !== undefined) {
        this.#next({ kind: "accepted", rv: line.rv });
      } else if (line.kind === "error") {
        log.info("watch refused in the stream", { resource: "pods", code: line.error.code, reason: line.error.reason });
        goesOn = this.#next({ kind: "refused", error: line.error, inStream: true }).do === "continue";
      } else {
        const why = line.kind === "undecodable" ? line.why : "an event without a resourceVersion";
        log.error("watch line cannot be decoded, the stream resumes before it", { resource: "pods", rv: this.#state.rv, why });
        goesOn = this.#next({ kind: "undecodable" }).do === "continue";
      }
      if (!goesOn) break;
    }
    if (changed) this.#emit();
    return goesOn;
  }

  /** @returns whether it was understood */
  #keep(pods: Map<string, NodePod>, object: unknown): boolean {
    const { namespace, name } = nameOf(object);
    try {
      const pod = parseNodePod(object);
      pods.set(objectKey(pod.metadata.namespace, pod.metadata.name), pod);
      return true;
    } catch (error) {
      this.#options.log.error("a pod from the API server cannot be understood", {
        pod: `${namespace}/${name}`,
        error: describeError(error),
      });
      const known = this.#pods.get(objectKey(namespace, name));
      if (known !== undefined) pods.set(objectKey(namespace, name), known);
      return false;
    }
  }

  #drop(object: unknown): boolean {
    const { namespace, name } = nameOf(object);
    return this.#pods.delete(objectKey(namespace, name));
  }

  #emit(): void {
    this.#options.emit([...this.#pods.values()]);
  }
}

function nameOf(object: unknown): { readonly namespace: string; readonly name: string } {
  // As far as it has one; what is no pod is named by "undefined".
  const metadata = (object as { readonly metadata?: { readonly namespace?: unknown; readonly name?: unknown } } | null)?.metadata;
  return { namespace: String(metadata?.namespace), name: String(metadata?.name) };
}
