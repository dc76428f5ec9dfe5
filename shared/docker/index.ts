export { createDockerCri } from "./docker.ts";
export type { DockerCri, DockerCriOptions } from "./docker.ts";
