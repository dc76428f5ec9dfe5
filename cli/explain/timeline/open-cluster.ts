/** `deltaloop explain --context NAME --open`: the timeline of a namespace, live. */
import { UsageError } from "@deltaloop/base";
import { consoleLog } from "@deltaloop/base/output";
import { createClient, createWatch } from "@deltaloop/kube/http";
import { untilSignalled } from "@deltaloop/local/processes";
import { untilListed } from "../../cluster/startup.ts";
import { clusterOf } from "../live.ts";
import type { LiveFlags } from "../live.ts";
import { wantedBy } from "../subject.ts";
import { clusterOptions, openLivePage, openText } from "./open-page.ts";

/**
 * Serves the timeline of a running cluster. @param object in kubectl's form: the page initially shows only objects with this name; empty
 * for all objects
 */
export async function openCluster(object: string, flags: LiveFlags & { readonly redact: boolean }): Promise<void> {
  const other = (["watch", "output", "all"] as const).find((name) => flags[name] !== undefined);
  if (other !== undefined) throw new UsageError(`--open shows everything on the page: leave out --${other}`);
  const wanted = object === "" ? undefined : wantedBy(object, flags.namespace);
  const { config, namespace } = await clusterOf(wanted?.namespace, flags);
  const { server } = config;
  const log = consoleLog("", "warn");
  await untilListed(config, { ...flags, namespace }, log); // reports a missing right before it opens the page
  const kube = createWatch(createClient(config), namespace);
  const explainOptions = clusterOptions(flags);
  const page = await openLivePage({ source: `namespace ${namespace}`, server, kube, isWhole: !flags.redact, explainOptions, log });
  process.stdout.write(openText(wanted === undefined ? page.url : `${page.url}#text=${encodeURIComponent(wanted.name)}`));
  await page.run(untilSignalled());
}
