/** The runtime port on a real dockerd (test/docker). */
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { expect, it } from "vitest";

import { createDockerCri } from "../../shared/docker/docker.ts";
import { isUnavailable } from "../../shared/node-agent/ports/cri-error.ts";
import { criConformance } from "../conformance/cri.ts";
import { IMAGES } from "../containerd/images.ts";
import { CNI_PLUGINS } from "../containerd/programs.ts";
import { startDockerd } from "../docker/dockerd.ts";
import { ensureDockerd } from "../docker/programs.ts";
import { realRuntime } from "../harness/node-processes/runtime-under-test.ts";

const ABSENT = "127.0.0.1:1/none:1";

const dockerd = ensureDockerd();
if ("missing" in dockerd) {
  process.stderr.write(`!!!!  dockerd cannot run: ${dockerd.missing}\n`);
  it.skip(`cri on a real dockerd: ${dockerd.missing}`);
} else {
  suites(dockerd.program);
}

function suites(program: string): void {
  criConformance("a real dockerd", async () => {
    const node = await startDockerd(program);
    const cri = createDockerCri({
      endpoint: node.endpoint,
      pauseImage: IMAGES.pause,
      cni: { confDir: node.cniConfDir, binDirs: [CNI_PLUGINS] },
      stateDir: join(node.directory, "sandboxes"),
    });
    const logDirectory = join(node.directory, "pods", "suite");
    mkdirSync(logDirectory, { recursive: true });
    return {
      ...realRuntime({ cgroupParent: node.cgroupParent, logDirectory }),
      cri,
      absentImage: ABSENT,
      async restart() {
        await node.kill();
        expect(await cri.status().catch(isUnavailable)).toBe(true);
        await node.restart();
      },
      async close() {
        cri.close();
        expect([readdirSync(join(node.directory, "sandboxes")), readdirSync(logDirectory)]).toEqual([[], []]);
        await node.stop();
      },
    };
  });
}
