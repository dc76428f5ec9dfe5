/**
 * A cluster in Parameter Store as one role sees it: a JSON text with the cluster's name, whether it is paused, and a kubeconfig with the
 * credentials of this role only. Functions parse it without a YAML parser.
 *
 * CV1 a value counts only for the cluster id in its parameter's name, which is a hash of the cluster's name, server and CA (KD1). So
 *     credentials are used for the server and CA that they came with, even if another client can write parameters.
 * CV2 credentials are in the text: files and programs are rejected, whatever is allowed. A problem quotes nothing of the text.
 */
import { messageOf } from "../../objects/errors.ts";
import { kubeconfigFields, kubeconfigFrom } from "../schema.ts";
import type { Kubeconfig } from "../schema.ts";
import { clusterId, isClusterName } from "./directory.ts";
import { inlineCredentials } from "./inline-access.ts";
import { vetKubeconfig } from "./vet.ts";
import type { Allowance } from "./vet.ts";

const PLACE = /^ssm:(\/[\w.-]+)+$/;

export interface ClusterValue {
  readonly name: string;
  readonly isPaused: boolean;
  readonly config: Kubeconfig;
}

export interface ListedValue extends ClusterValue {
  readonly kind: "listed";
  readonly cid: string;
  readonly server: string;
}

export interface RejectedValue {
  readonly kind: "rejected";
  /** The cluster id if the text has no name of its own. */
  readonly name: string;
  readonly isPaused: boolean;
  readonly problems: readonly string[];
}

export function clusterValueText({ name, isPaused, config }: ClusterValue): string {
  return JSON.stringify({ name, paused: isPaused, kubeconfig: kubeconfigFields(config) });
}

/** The same value, paused or not; undefined if that changes nothing or the text is no value. */
export function pausedText(text: string, paused: boolean): string | undefined {
  const value = parsed(text);
  return value === undefined || value.paused === paused ? undefined : JSON.stringify({ ...value, paused });
}

/** Whether the value is paused; undefined if the text is no value. */
export function isPausedText(text: string): boolean | undefined {
  return parsed(text)?.paused;
}

/** The path of a role's parameters below a place, `ssm:/deltaloop/prod/clusters`. @throws {Error} for an invalid place */
export function parameterPath(place: string, role: string): string {
  if (!PLACE.test(place)) throw new Error(`${place}: write ssm:/PATH`);
  return `${place.slice("ssm:".length)}/${role}`;
}

/** Parses and vets a value, without the addresses of its server's name. */
export function parseClusterValue(text: string, cid: string, allowed: ReadonlySet<Allowance>): ListedValue | RejectedValue {
  const rejected = (name: string, isPaused: boolean, problems: readonly string[]): RejectedValue => ({
    ...{ kind: "rejected", name, isPaused, problems },
  });
  const value = parsed(text);
  if (value === undefined) return rejected(cid, false, ["is not a cluster's value: write it with deltaloop cluster add"]);
  const { name, paused: isPaused } = value;
  if (!isClusterName(name)) return rejected(cid, isPaused, ["its name is not a DNS label"]);
  try {
    const config = kubeconfigFrom(value.kubeconfig, "kubeconfig");
    const problems = vetKubeconfig(config, new Set([...allowed].filter((each) => each !== "exec")));
    if (problems.length > 0) return rejected(name, isPaused, problems);
    if (clusterId(name, config) !== cid) return rejected(cid, isPaused, ["is the value of another cluster: its name, server or CA differ"]); // CV1: nor does it take the name
    inlineCredentials(config, "");
    return { kind: "listed", cid, name, isPaused, config, server: config.clusters[0]?.cluster.server ?? "" };
  } catch (error) {
    return rejected(name, isPaused, [messageOf(error)]);
  }
}

interface Parsed {
  readonly name: string;
  readonly paused: boolean;
  readonly kubeconfig: unknown;
}

function parsed(text: string): Parsed | undefined {
  try {
    const { name, paused, kubeconfig, ...rest } = JSON.parse(text) as { readonly [F in keyof Parsed]?: unknown }; // null throws, as it should
    if (typeof name !== "string" || typeof paused !== "boolean" || Object.keys(rest).length > 0) return undefined;
    return { name, paused, kubeconfig };
  } catch {
    return undefined; // the error would quote the value
  }
}
