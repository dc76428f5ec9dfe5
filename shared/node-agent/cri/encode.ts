/** Where the port's types differ from CRI's messages on the way out. Everything else goes as it is: same names, same shape. */
import type { ContainerConfig, ContainerFilter, PodSandboxFilter } from "../ports/cri-types.ts";

export function containerConfig(config: ContainerConfig): object {
  return { ...config, envs: config.envs?.map(({ key, value }) => ({ key, value: Buffer.from(value, "utf8") })) };
}

/** A state is wrapped, because the first one's number is 0 and would not be seen. */
export function podSandboxFilter({ state, ...filter }: PodSandboxFilter): object {
  return { ...filter, ...(state !== undefined && { state: { state } }) };
}

export function containerFilter({ state, ...filter }: ContainerFilter): object {
  return { ...filter, ...(state !== undefined && { state: { state } }) };
}
