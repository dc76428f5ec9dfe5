import type { KubeReader, KubeWriter } from "../client/kube.ts";
import { createCalls } from "./calls.ts";
import type { KubeHttpConfig } from "./config.ts";
import { createReader } from "./reader.ts";
import { createWriter } from "./writer.ts";

/** One API server as one component without watches: without streams, a function's bundle is smaller. */
export function createKubeCalls(config: KubeHttpConfig): KubeReader & KubeWriter {
  const calls = createCalls(config);
  return { ...createReader(calls), ...createWriter(calls) };
}
