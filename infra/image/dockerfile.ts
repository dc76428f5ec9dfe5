/** A Dockerfile that builds the same image with a container engine: `docker build dist/image`. */
import type { ImageConfig } from "./oci-archive.ts";

/** Returns the Dockerfile. ADD unpacks the layers in its folder; the engine sets TARGETARCH. */
export function dockerfile({ entrypoint, env = [], command = [], user, labels = {} }: ImageConfig): string {
  return `FROM scratch
ARG TARGETARCH
ADD debian-\${TARGETARCH}.tar.gz /
ADD node-\${TARGETARCH}.tar.gz /
ADD deltaloop.tar.gz /
${Object.entries(labels)
  .map(([name, value]) => `LABEL ${name}=${JSON.stringify(value)}\n`)
  .join("")}${env.map((variable) => `ENV ${variable}\n`).join("")}WORKDIR /
USER ${user}
ENTRYPOINT ${JSON.stringify(entrypoint)}
CMD ${JSON.stringify(command)}
`;
}
