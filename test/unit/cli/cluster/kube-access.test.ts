/** Catches: a process that is started later and uses a different cluster from the running processes. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, it } from "vitest";

import { pinContext } from "../../../../shared/kube/kubeconfig/kube-access.ts";
import { UsageError } from "../../../../shared/base/usage-error.ts";

it("returns the requested context, else the current one, else none", async () => {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-kube-access-"));
  try {
    const kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, JSON.stringify({ "current-context": "a" }));
    expect(await pinContext({ kubeconfig })).toEqual({ kubeconfig, context: "a" });
    expect(await pinContext({ kubeconfig, context: "b" })).toEqual({ kubeconfig, context: "b" });
    await writeFile(kubeconfig, "{}");
    expect(await pinContext({ kubeconfig })).toEqual({ kubeconfig });
    await expect(pinContext({ kubeconfig: join(folder, "none") })).rejects.toThrow(UsageError);
  } finally {
    await rm(folder, { recursive: true });
  }
});
