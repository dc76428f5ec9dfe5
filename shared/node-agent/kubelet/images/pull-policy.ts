import type { ImagePullPolicy } from "../types/node-options.ts";

export const DEFAULT_IMAGE_PULLS: ImagePullPolicy = { serialize: true, registryQps: 5, registryBurst: 10 };

/**
 * The default of `serialize`: false if several parallel pulls are configured. Source: v1beta1/defaults.go SetDefaults_KubeletConfiguration.
 */
export function serializesByDefault(maxParallel: number | undefined): boolean {
  return maxParallel === undefined || maxParallel < 2;
}

/** The maximum number of parallel pulls. Source: puller.go newParallelImagePuller. */
export function pullsAtOnce({ serialize, maxParallel = Infinity }: ImagePullPolicy): number {
  return serialize ? 1 : maxParallel;
}

/** Validates the policy with upstream's messages. Source: pkg/kubelet/apis/config/validation/validation.go. */
export function imagePullMistakes({ serialize, maxParallel, registryQps, registryBurst }: ImagePullPolicy): readonly string[] {
  const mistakes = [
    registryBurst < 0 && `registryBurst (--registry-burst) ${registryBurst} must not be a negative number`,
    registryQps < 0 && `registryPullQPS (--registry-qps) ${registryQps} must not be a negative number`,
    maxParallel !== undefined && maxParallel < 1 && `maxParallelImagePulls ${maxParallel} must be a positive number`,
    serialize &&
      maxParallel !== undefined &&
      maxParallel > 1 &&
      "maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is set to false",
  ];
  return mistakes.flatMap((mistake) => (mistake === false ? [] : [`invalid configuration: ${mistake}`]));
}
