/** The fields of a kubeconfig. Source: client-go tools/clientcmd/api/v1/types.go. */
import * as v from "valibot";

import { issueText } from "./issue-text.ts";

const text = v.nullish(v.string(), "");
const flag = v.nullish(v.boolean(), false);
const Cluster = v.object({
  server: text,
  "tls-server-name": text,
  "insecure-skip-tls-verify": flag,
  "certificate-authority": text,
  "certificate-authority-data": text,
  "proxy-url": text,
  extensions: v.nullish(v.array(v.object({ name: v.string(), extension: v.nullish(v.unknown()) })), []),
});
export const User = v.object({
  "client-certificate": text,
  "client-certificate-data": text,
  "client-key": text,
  "client-key-data": text,
  token: text,
  tokenFile: text,
  as: text,
  "as-uid": text,
  "as-groups": v.nullish(v.array(v.string()), []),
  "as-user-extra": v.nullish(v.record(v.string(), v.array(v.string())), {}),
  username: text,
  password: text,
  "auth-provider": v.nullish(v.unknown()),
  exec: v.nullish(v.unknown()),
});
const Context = v.object({ cluster: text, user: text, namespace: text });
const Kubeconfig = v.object({
  clusters: v.nullish(v.array(v.object({ name: v.string(), cluster: v.nullish(Cluster, {}) })), []),
  users: v.nullish(v.array(v.object({ name: v.string(), user: v.nullish(User, {}) })), []),
  contexts: v.nullish(v.array(v.object({ name: v.string(), context: v.nullish(Context, {}) })), []),
  "current-context": text,
});
export type Kubeconfig = v.InferOutput<typeof Kubeconfig>;
export type User = v.InferOutput<typeof User>;
export type Cluster = v.InferOutput<typeof Cluster>;

/**
 * Source: client-go tools/clientcmd/api/v1/conversion.go, which rejects repeated names.
 *
 * @throws {Error} with `what` and the problem, never with the content
 */
export function kubeconfigFrom(value: unknown, what: string): Kubeconfig {
  const config = v.safeParse(Kubeconfig, value);
  if (!config.success) throw new Error(`${what}: ${issueText(config.issues[0])}`);
  for (const list of ["clusters", "users", "contexts"] as const) {
    const repeated = config.output[list].find(({ name }, i, all) => all.findIndex((each) => each.name === name) !== i);
    if (repeated !== undefined) throw new Error(`${what}: ${list} has two entries named "${repeated.name}": rename one of them`);
  }
  return config.output;
}

/** Whether `text` is a single word that a header can carry. Source: RFC 6750, section 2.1. */
export function isToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text);
}

/** The fields of a kubeconfig file that are not empty. */
export function kubeconfigFields({ clusters, users, contexts, "current-context": current }: Kubeconfig): object {
  return {
    apiVersion: "v1",
    kind: "Config",
    clusters: clusters.map(({ name, cluster }) => ({ name, cluster: withoutEmpty(cluster) })),
    users: users.map(({ name, user }) => ({ name, user: withoutEmpty(user) })),
    contexts: contexts.map(({ name, context }) => ({ name, context: withoutEmpty(context) })),
    "current-context": current,
  };
}

function withoutEmpty(fields: object): object {
  const isEmpty = (value: unknown): boolean =>
    value === "" ||
    value === false ||
    value === null ||
    value === undefined ||
    (typeof value === "object" && Object.keys(value).length === 0);
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => !isEmpty(value)));
}
