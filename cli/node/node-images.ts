/** Options of `deltaloop node` for images. */
import type { Command } from "commander";
import { DEFAULT_IMAGE_PULLS, imagePullMistakes, serializesByDefault } from "@deltaloop/node-agent/kubelet";
import type { ImagePullPolicy } from "@deltaloop/node-agent/kubelet";
import { trueOrFalse, UsageError, wholeNumber } from "@deltaloop/base";

/** Options as commander parses them. */
export interface ImagePullFlags {
  readonly serializeImagePulls?: boolean;
  readonly maxParallelImagePulls?: number;
  readonly registryQps: number;
  readonly registryBurst: number;
  readonly imageCredentialProviderConfig?: string;
  readonly imageCredentialProviderBinDir?: string;
}

const INT32 = { min: -(2 ** 31), max: 2 ** 31 - 1 };

/** Names and defaults are the kubelet's; the kubelet has --max-parallel-image-pulls only as a field of its configuration. Source: cmd/kubelet/app/options/options.go. */
export function addImagePullFlags(command: Command): Command {
  return command
    .optionsGroup("Images:")
    .option(
      "--serialize-image-pulls [boolean]",
      "pull images one at a time (default: true, unless --max-parallel-image-pulls is above 1)",
      trueOrFalse("--serialize-image-pulls"),
    )
    .option(
      "--max-parallel-image-pulls <n>",
      "maximum parallel image pulls, if they are not serialized (default: unlimited)",
      wholeNumber("--max-parallel-image-pulls", INT32),
    )
    .option(
      "--registry-qps <n>",
      "image pulls per second; 0 for no limit",
      wholeNumber("--registry-qps", INT32),
      DEFAULT_IMAGE_PULLS.registryQps,
    )
    .option(
      "--registry-burst <n>",
      "burst of image pulls, if --registry-qps is above 0",
      wholeNumber("--registry-burst", INT32),
      DEFAULT_IMAGE_PULLS.registryBurst,
    )
    .option("--image-credential-provider-config <path>", "configuration of credential provider plugins: a file or a directory")
    .option("--image-credential-provider-bin-dir <folder>", "directory of the credential provider plugins");
}

/** Validates the options for pulls. @throws {UsageError} with upstream's message */
export function imagePullPolicy({
  serializeImagePulls,
  maxParallelImagePulls: maxParallel,
  registryQps,
  registryBurst,
}: ImagePullFlags): ImagePullPolicy {
  const policy = {
    serialize: serializeImagePulls ?? serializesByDefault(maxParallel),
    ...(maxParallel !== undefined && { maxParallel }),
    registryQps,
    registryBurst,
  };
  const mistakes = imagePullMistakes(policy);
  if (mistakes.length > 0) throw new UsageError(mistakes.join("\n"));
  return policy;
}
