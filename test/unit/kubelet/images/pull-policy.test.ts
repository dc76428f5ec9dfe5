// Would catch: flags whose meaning differs from the kubelet's, and an invalid value that is accepted.
import { Command } from "commander";
import { expect, it } from "vitest";
import { addImagePullFlags, imagePullPolicy } from "../../../../cli/node/node-images.ts";
import type { ImagePullFlags } from "../../../../cli/node/node-images.ts";
import { UsageError } from "../../../../shared/base/usage-error.ts";
import { pullsAtOnce } from "../../../../shared/node-agent/kubelet/images/pull-policy.ts";

function parsed(line: string): ReturnType<typeof imagePullPolicy> {
  const command = addImagePullFlags(new Command("node")).exitOverride();
  command.parse(line.split(" ").filter(Boolean), { from: "user" });
  return imagePullPolicy(command.opts<ImagePullFlags>());
}

const RATE = { registryQps: 5, registryBurst: 10 };
const meant = [
  { line: "", want: { serialize: true, ...RATE }, atOnce: 1 },
  { line: "--serialize-image-pulls", want: { serialize: true, ...RATE }, atOnce: 1 },
  { line: "--serialize-image-pulls=false", want: { serialize: false, ...RATE }, atOnce: Infinity },
  { line: "--serialize-image-pulls=false --max-parallel-image-pulls 3", want: { serialize: false, maxParallel: 3, ...RATE }, atOnce: 3 },
  { line: "--serialize-image-pulls=false --max-parallel-image-pulls 1", want: { serialize: false, maxParallel: 1, ...RATE }, atOnce: 1 },
  { line: "--max-parallel-image-pulls 2", want: { serialize: false, maxParallel: 2, ...RATE }, atOnce: 2 },
  { line: "--max-parallel-image-pulls 1", want: { serialize: true, maxParallel: 1, ...RATE }, atOnce: 1 },
  { line: "--registry-qps 0 --registry-burst 0", want: { serialize: true, registryQps: 0, registryBurst: 0 }, atOnce: 1 },
];
it.each(meant)("[node-agent 230] the flags '$line' allow $atOnce parallel pulls", ({ line, want, atOnce }) => {
  expect(parsed(line)).toEqual(want);
  expect(pullsAtOnce(parsed(line))).toBe(atOnce);
});

const PARALLEL =
  "invalid configuration: maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is set to false";
const refused = [
  ["--registry-burst=-1", "invalid configuration: registryBurst (--registry-burst) -1 must not be a negative number"],
  ["--registry-qps=-1", "invalid configuration: registryPullQPS (--registry-qps) -1 must not be a negative number"],
  ["--max-parallel-image-pulls=0", "invalid configuration: maxParallelImagePulls 0 must be a positive number"],
  ["--serialize-image-pulls --max-parallel-image-pulls=2", PARALLEL],
  [
    "--registry-qps=-1 --serialize-image-pulls=true --max-parallel-image-pulls=2",
    `invalid configuration: registryPullQPS (--registry-qps) -1 must not be a negative number\n${PARALLEL}`,
  ],
  ["--serialize-image-pulls=yes", '--serialize-image-pulls takes true or false, not "yes"'],
] as const;
it.each(refused)("[node-agent 230] rejects the flags %s", (line, message) => {
  expect(() => parsed(line)).toThrow(new UsageError(message));
});
