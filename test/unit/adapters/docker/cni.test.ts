/** CNI plugins for Docker's pods: input, order, release and rejections. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { addressesOf, createCni } from "../../../../shared/docker/cni.ts";
import type { PortMapping } from "../../../../shared/node-agent/ports/cri-types.ts";

let folder: string;
let confDir: string;
let binDir: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "deltaloop-cni-"));
  [confDir, binDir] = [join(folder, "conf"), join(folder, "bin")];
  for (const one of [confDir, binDir]) mkdirSync(one);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const POD = { containerId: "5a", netns: "/proc/7/ns/net", metadata: { name: "web", namespace: "shop", uid: "u1", attempt: 0 } };
const PORT: PortMapping = { protocol: "TCP", containerPort: 80, hostPort: 8080 };

const cni = () => createCni({ confDir, binDirs: [join(folder, "none"), binDir] });
const configure = (name: string, content: object | string): void =>
  writeFileSync(join(confDir, name), typeof content === "string" ? content : JSON.stringify(content));
/** Writes a plugin that records its input and prints `answer`. */
const plugin = (type: string, answer: string, code = 0): void => {
  const script = `#!/bin/sh\necho "$CNI_COMMAND ${type} $CNI_CONTAINERID $CNI_NETNS $CNI_IFNAME $CNI_ARGS" >> ${folder}/calls\ncat >> ${folder}/calls\necho >> ${folder}/calls\necho '${answer}'\nexit ${code}\n`;
  writeFileSync(join(binDir, type), script);
  chmodSync(join(binDir, type), 0o755);
};
/** Returns, for each plugin call, its environment and its standard input. */
const calls = (): readonly string[] => readFileSync(join(folder, "calls"), "utf8").trimEnd().split("\n");
const commands = (): readonly string[] =>
  calls().flatMap((line, index) => (index % 2 === 0 ? [line.split(" ").slice(0, 2).join(" ")] : []));
const inputs = (): readonly object[] => calls().flatMap((line, index) => (index % 2 === 1 ? [JSON.parse(line) as object] : []));

const LIST = {
  cniVersion: "1.0.0",
  name: "pods",
  plugins: [
    { type: "bridge", bridge: "b0" },
    { type: "ports", capabilities: { portMappings: true } },
  ],
};

describe("the pod network of Docker [node-agent 409]", () => {
  it("calls the plugins in order, each with the previous result, and in reverse order for the removal", async () => {
    configure("10-pods.conflist", LIST);
    plugin("bridge", '{"ips":[{"address":"10.1.0.2/24"},{"address":"fd00::2/64"}]}');
    plugin("ports", '{"ips":[{"address":"10.1.0.2/24"},{"address":"fd00::2/64"}],"ports":1}');
    const attachment = await cni().add(POD, [PORT, { protocol: "UDP", containerPort: 53 }]);
    expect(addressesOf(attachment.result)).toEqual(["10.1.0.2", "fd00::2"]);
    await cni().remove({ containerId: "5a", metadata: POD.metadata }, attachment);
    expect(commands()).toEqual(["ADD bridge", "ADD ports", "DEL ports", "DEL bridge"]);
    expect(calls()[0]).toBe(
      "ADD bridge 5a /proc/7/ns/net eth0 IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=5a;K8S_POD_UID=u1",
    );
    const [bridge, ports, , gone] = inputs();
    expect(bridge).toEqual({ cniVersion: "1.0.0", name: "pods", type: "bridge", bridge: "b0" });
    expect(ports).toMatchObject({
      prevResult: { ips: [{ address: "10.1.0.2/24" }, { address: "fd00::2/64" }] },
      runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp", hostIP: "" }] },
    });
    expect(gone).toMatchObject({ prevResult: { ports: 1 } });
    expect(calls()[6]).toContain("DEL bridge 5a  eth0"); // its namespace is deleted
  });

  it("the pod's network is released when a later plugin fails, and the error has the plugin's message", async () => {
    configure("10-pods.conflist", LIST);
    plugin("bridge", "{}");
    plugin("ports", '{"code":7,"msg":"no more ports","details":"8080"}', 1);
    await expect(cni().add(POD, [])).rejects.toThrow("no more ports; 8080");
    expect(commands().slice(0, 2)).toEqual(["ADD bridge", "ADD ports"]);
    expect(commands()).toContain("DEL ports");
  });

  it("the pod network uses the first valid configuration in the directory", async () => {
    expect(await cni().problem()).toContain("cni config uninitialized");
    configure("20-later.conflist", { ...LIST, name: "later" });
    configure("05-broken.conf", "{");
    configure("06-empty.conflist", { name: "empty", plugins: [] });
    configure("07-notes.txt", { ...LIST, name: "notes" });
    configure("10-one.conf", { cniVersion: "0.3.1", name: "one", type: "bridge", mtu: 9 });
    expect(await cni().problem()).toBeUndefined();
    expect(await cni().network()).toEqual({ cniVersion: "0.3.1", name: "one", plugins: [{ type: "bridge", mtu: 9 }] });
  });

  it("rejects host ports without portmap, and plugins that are missing or have invalid names", async () => {
    configure("10-pods.conf", { name: "pods", type: "bridge" });
    await expect(cni().add(POD, [PORT])).rejects.toMatchObject({ code: "Unimplemented", message: expect.stringContaining("pods") });
    await expect(cni().add(POD, [])).rejects.toThrow('failed to find plugin "bridge"');
    configure("10-pods.conf", { name: "pods", type: "../bridge" });
    await expect(cni().add(POD, [])).rejects.toThrow("invalid CNI plugin name");
  });
});
