/** One cluster of a kubeconfig as a file of its own, which refers to no other file. Source: client-go tools/clientcmd/api/helpers.go FlattenConfig. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";

import { messageOf } from "../objects/errors.ts";
import { stringifyYaml } from "../yaml/yaml.ts";
import { readKubeconfig } from "./kubeconfig.ts";
import { kubeconfigFields } from "./schema.ts";
import type { Kubeconfig } from "./schema.ts";

type Cluster = Kubeconfig["clusters"][number]["cluster"];
type User = Kubeconfig["users"][number]["user"];

/**
 * The cluster of `context` (default: the current one) with all contexts of this cluster and their users. With `embed`, files are read and
 * embedded; otherwise the references stay as they are.
 *
 * @throws {Error} naming the missing context, or the field whose file cannot be read
 */
export async function flattenKubeconfig(
  path: string,
  { context, embed }: { readonly context?: string; readonly embed: boolean },
): Promise<Kubeconfig> {
  const { clusters, users, contexts, "current-context": current } = await readKubeconfig(path);
  const name = context ?? current;
  const chosen = contexts.find((each) => each.name === name)?.context;
  if (chosen === undefined) throw new Error(`${path} has no context "${name}": name another with --context`);
  const kept = contexts.filter((each) => each.context.cluster === chosen.cluster);
  const keptUsers = new Set(kept.map((each) => each.context.user));
  return {
    clusters: await Promise.all(
      clusters
        .filter((each) => each.name === chosen.cluster)
        .map(async (each) => ({ name: each.name, cluster: embed ? await embeddedCluster(each.cluster, each.folder) : each.cluster })),
    ),
    users: await Promise.all(
      users
        .filter((each) => keptUsers.has(each.name))
        .map(async (each) => ({ name: each.name, user: embed ? await embeddedUser(each.user, each.folder) : each.user })),
    ),
    contexts: kept,
    "current-context": name,
  };
}

async function embeddedCluster(cluster: Cluster, folder: string): Promise<Cluster> {
  return { ...cluster, ...(await data("certificate-authority", cluster, folder)) };
}

async function embeddedUser(user: User, folder: string): Promise<User> {
  const token =
    user.tokenFile === "" ? {} : { token: (await content("tokenFile", user.tokenFile, folder)).toString().trim(), tokenFile: "" };
  return { ...user, ...(await data("client-certificate", user, folder)), ...(await data("client-key", user, folder)), ...token };
}

/** Inline data takes precedence over a file. */
async function data<F extends string>(
  field: F,
  fields: Readonly<Record<F | `${F}-data`, string>>,
  folder: string,
): Promise<Readonly<Record<string, string>>> {
  if (fields[field] === "") return {};
  const inline = fields[`${field}-data`];
  return { [field]: "", [`${field}-data`]: inline !== "" ? inline : (await content(field, fields[field], folder)).toString("base64") };
}

async function content(field: string, file: string, folder: string): Promise<Buffer> {
  return await readFile(resolve(folder, file)).catch((cause: unknown) => {
    throw new Error(`${field} cannot be read: ${messageOf(cause)}`, { cause });
  });
}

/** The text of a kubeconfig file, without empty fields. */
export function kubeconfigText(config: Kubeconfig): string {
  return stringifyYaml(kubeconfigFields(config));
}
