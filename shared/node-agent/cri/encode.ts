/** Converts the port's types into CRI messages where they differ. All other messages have the same names and shape. */
import { bytesOfText } from "@deltaloop/base";
import type { AuthConfig, ContainerConfig, ContainerFilter, PodSandboxFilter } from "../ports/cri-types.ts";

export function containerConfig(config: ContainerConfig): object {
  return { ...config, envs: config.envs?.map(({ key, value }) => ({ key, value: bytesOfText(value) })) };
}

/** Only `auth`, which is base64 of `user:password`, can carry bytes that are not valid UTF-8. */
export function authConfig(auth: AuthConfig | undefined): object | undefined {
  if (auth === undefined) return undefined;
  const { username = "", password = "", ...rest } = auth;
  const user = `${username}:${password}`;
  return user.isWellFormed() ? auth : { ...rest, auth: bytesOfText(user).toString("base64") };
}

/** CRI wraps the state in a message, because proto3 cannot distinguish value 0 from an absent value. */
export function wireFilter({ state, ...filter }: PodSandboxFilter | ContainerFilter): object {
  return { ...filter, ...(state !== undefined && { state: { state } }) };
}
