/** Converts the port's types into CRI messages where they differ. All other messages have the same names and shape. */
import type { ContainerConfig, ContainerFilter, PodSandboxFilter } from "../ports/cri-types.ts";

export function containerConfig(config: ContainerConfig): object {
  return { ...config, envs: config.envs?.map(({ key, value }) => ({ key, value: Buffer.from(value, "utf8") })) };
}

/** CRI wraps the state in a message, because proto3 cannot tell value 0 from an absent value. */
export function podSandboxFilter({ state, ...filter }: PodSandboxFilter): object {
  return { ...filter, ...(state !== undefined && { state: { state } }) };
}

export function containerFilter({ state, ...filter }: ContainerFilter): object {
  return { ...filter, ...(state !== undefined && { state: { state } }) };
}
