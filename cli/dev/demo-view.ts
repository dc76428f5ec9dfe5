/** The demo's view: an image that is redrawn on a terminal, plain lines elsewhere. */
import type { JsonObject } from "@deltaloop/base";
import { printable } from "@deltaloop/base/output";
import { movesCursor, shortened } from "../output/terminal.ts";

export interface Scene {
  readonly step: string;
  readonly elapsedMs: number;
  readonly stack: string;
  readonly deployment: DeploymentLine | undefined;
  readonly replicaSets: readonly ReplicaSetLine[];
  /** Newest last. */
  readonly activity: readonly string[];
  readonly lag: string;
}

export interface DeploymentLine {
  readonly name: string;
  readonly desired: number;
  readonly updated: number;
  readonly ready: number;
  readonly unavailable: number;
}

export interface ReplicaSetLine {
  readonly name: string;
  readonly image: string;
  readonly desired: number;
  readonly pods: readonly ("ready" | "running" | "pending" | "terminating")[];
}

const GLYPHS = { ready: "●", running: "◐", pending: "○", terminating: "×" } as const;
const ACTIVITY_LINES = 10;
const CLEAR_TO_END = "\x1b[J";
const CLEAR_LINE = "\x1b[K";

export interface DemoView {
  show(scene: Scene): void;
  /** Prints a permanent line. */
  say(line: string): void;
}

export function demoView(out: NodeJS.WriteStream): DemoView {
  return movesCursor(out) ? terminalView(out) : lineView(out);
}

function terminalView(out: NodeJS.WriteStream): DemoView {
  const { draw, say } = redrawn(out);
  return { show: (scene) => draw(picture(scene)), say };
}

/** An image on a terminal, which replaces the last one, below permanent lines. */
export function redrawn(out: NodeJS.WriteStream): { draw(lines: readonly string[]): void; say(line: string): void } {
  let drawn = 0;
  const erase = (): void => {
    if (drawn > 0) out.write(`\x1b[${drawn}A`);
    drawn = 0;
  };
  return {
    draw(picture) {
      const lines = picture.map((line) => shortened(printable(line), out.columns - 1));
      erase();
      out.write(lines.map((line) => `${line}${CLEAR_LINE}\n`).join("") + CLEAR_TO_END);
      drawn = lines.length;
    },
    say(line) {
      erase();
      out.write(`${line}${CLEAR_LINE}\n${CLEAR_TO_END}`);
    },
  };
}

function picture(scene: Scene): readonly string[] {
  const { deployment, replicaSets, activity } = scene;
  const head = deployment
    ? `Deployment ${deployment.name}   ${deployment.desired} desired   ${deployment.updated} updated   ${deployment.ready} ready   ${deployment.unavailable} unavailable`
    : "no Deployment yet";
  const sets = replicaSets.map(
    (rs) =>
      `  ReplicaSet ${rs.name}  ${rs.image}  ${String(rs.desired).padStart(2)} desired  ${rs.pods.map((pod) => GLYPHS[pod]).join("")}`,
  );
  return [
    "",
    `${scene.step}   ${(scene.elapsedMs / 1000).toFixed(1)} s   ${scene.stack}`,
    "",
    head,
    ...sets,
    "  ○ pending  ◐ running  ● ready  × terminating",
    "",
    "Activity of watchers and functions",
    ...activity.slice(-ACTIVITY_LINES).map((line) => `  ${line}`),
    "",
    scene.lag,
  ];
}

/** Prints only changes, to keep a log short. */
function lineView(out: NodeJS.WriteStream): DemoView {
  let shown = 0;
  let last = "";
  return {
    show({ activity, deployment, replicaSets }) {
      for (const line of activity.slice(shown)) out.write(`    ${line}\n`);
      shown = activity.length;
      const state = [
        deployment && `${deployment.updated}/${deployment.desired} updated, ${deployment.ready} ready`,
        ...replicaSets.map((rs) => `${rs.name} ${rs.pods.map((pod) => GLYPHS[pod]).join("")}`),
      ].join("   ");
      if (state !== last) out.write(`  ${state}\n`);
      last = state;
    },
    say: (line) => void out.write(`${line}\n`),
  };
}

export function deploymentLine(object: JsonObject): DeploymentLine {
  const { metadata, spec, status } = object as unknown as {
    metadata: { name: string };
    spec: { replicas?: number };
    status?: Record<string, number | undefined>;
  }; // the in-memory API server returns objects of this form
  const count = (name: string): number => status?.[name] ?? 0;
  return {
    name: metadata.name,
    desired: spec.replicas ?? 1,
    updated: count("updatedReplicas"),
    ready: count("readyReplicas"),
    unavailable: count("unavailableReplicas"),
  };
}
