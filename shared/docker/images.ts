/** CRI's ImageService on Docker. Source: pkg/kubelet/dockershim docker_image.go, libdocker/helpers.go (Kubernetes v1.23). */
import type Docker from "dockerode";

import { CriError, isNotFound, textOfBytes } from "@deltaloop/node-agent/ports";
import type { AuthConfig, Cri } from "@deltaloop/node-agent/ports";
import { callDocker, ifExists } from "./connection.ts";
import { image as criImage } from "./container-status.ts";

export type DockerImages = Pick<Cri, "imageStatus" | "pullImage" | "removeImage" | "listImages" | "imageFsInfo">;

const REFERENCE = /^(?<repository>.+?)(?::(?<tag>[\w][\w.-]*))?(?:@(?<digest>[\w.+-]+:[\da-f]+))?$/u;

export function createImages(docker: Docker): DockerImages {
  const imageOf = async (name: string): Promise<Docker.ImageInspectInfo | undefined> => {
    const found = await ifExists(callDocker(() => docker.getImage(name).inspect()));
    return found !== undefined && isMeant(name, found) ? found : undefined;
  };
  return {
    async imageStatus({ image }) {
      const found = await imageOf(image);
      return found && criImage(found, found.Config?.User ?? "");
    },

    async pullImage({ image }, { auth, signal } = {}) {
      const { repository = image, tag = "latest", digest } = REFERENCE.exec(image)?.groups ?? {};
      const credentials = registryAuth(auth);
      const from = { fromImage: repository, tag: digest ?? tag };
      try {
        const options = { timeoutMs: Number.POSITIVE_INFINITY, ...(signal && { signal }) };
        await callDocker(async (abortSignal) => {
          await pulled(await docker.createImage(credentials, { ...from, abortSignal }));
        }, options);
      } catch (error) {
        if (!(error instanceof CriError) || error.code === "Canceled") throw error;
        throw new CriError(error.code, `failed to pull image "${image}": ${error.message}`, { cause: error });
      }
      const found = await imageOf(image);
      if (found === undefined) throw new CriError("NotFound", `image "${image}" not found after it was pulled`);
      return found.Id;
    },

    /** Removes all names of the image, and then the image. Fails if a container uses the image. */
    async removeImage({ image }) {
      const found = await imageOf(image);
      if (found === undefined) return;
      const names = [...(found.RepoTags ?? []), ...(found.RepoDigests ?? [])];
      for (const name of names.length > 0 ? names : [found.Id]) {
        await callDocker((abortSignal) => docker.getImage(name).remove({ abortSignal })).catch((error: unknown) => {
          if (!isNotFound(error)) throw error; // the image was removed together with another of its names
        });
      }
    },

    listImages: async () => (await callDocker((abortSignal) => docker.listImages({ abortSignal }))).map((one) => criImage(one)),

    /** Counts shared layers once per image, because exact numbers need `docker system df`, which walks all layers. */
    async imageFsInfo() {
      const info = (await callDocker(() => docker.info())) as { readonly DockerRootDir: string }; // moby api: SystemInfo
      const images = await callDocker((abortSignal) => docker.listImages({ abortSignal }));
      const usedBytes = images.reduce((sum, { Size }) => sum + Size, 0);
      return [{ timestampMs: Date.now(), mountpoint: info.DockerRootDir, usedBytes, inodesUsed: 0 }];
    },
  };
}

/** Whether Docker found the image by its name: a name without a tag may also be a prefix of another image's id. */
function isMeant(name: string, { Id, RepoTags, RepoDigests }: Docker.ImageInspectInfo): boolean {
  if (name === Id || `sha256:${name}` === Id) return true;
  const { repository = name, tag = "latest", digest } = REFERENCE.exec(name)?.groups ?? {};
  const short = familiar(repository);
  if (digest !== undefined) return (RepoDigests ?? []).some((one) => one.endsWith(`@${digest}`) && familiar(one).startsWith(`${short}@`));
  return (RepoTags ?? []).some((one) => familiar(one) === `${short}:${tag}`);
}

/** `docker.io/library/nginx` → `nginx`: shortens names on Docker Hub as Docker does. */
function familiar(name: string): string {
  return name.replace(/^(?:index\.)?docker\.io\//u, "").replace(/^library\//u, "");
}

/**
 * Returns the credentials for a request header. Must not be logged. @throws {CriError} for a value that is not UTF-8, because Docker's
 * JSON cannot carry it. Source: moby api AuthConfig.
 */
function registryAuth(auth: AuthConfig | undefined): object | undefined {
  if (auth === undefined) return undefined;
  const [username, ...password] = auth.auth === undefined ? [] : textOfBytes(Buffer.from(auth.auth, "base64")).split(":");
  const user = { username: auth.username ?? username ?? "", password: auth.password ?? password.join(":") };
  for (const [field, value] of Object.entries(user))
    if (!value.isWellFormed())
      throw new CriError(
        "InvalidArgument",
        `the ${field} for registry ${auth.serverAddress ?? ""} is not valid UTF-8, and Docker cannot pass it unchanged`,
      );
  return {
    ...user,
    ...(auth.serverAddress !== undefined && { serveraddress: auth.serverAddress }),
    ...(auth.identityToken !== undefined && { identitytoken: auth.identityToken }),
    ...(auth.registryToken !== undefined && { registrytoken: auth.registryToken }),
  };
}

/** Waits for the end of a pull. Docker reports the progress as JSON lines, one of which may be an error. */
async function pulled(progress: NodeJS.ReadableStream): Promise<void> {
  let rest = "";
  for await (const chunk of progress as AsyncIterable<Buffer>) {
    const lines = (rest + chunk.toString("utf8")).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) throwIfFailed(line);
  }
  throwIfFailed(rest);
}

function throwIfFailed(line: string): void {
  if (line.trim() === "") return;
  const { error } = JSON.parse(line) as { readonly error?: string }; // the Docker API sends CreateImageInfo
  if (error !== undefined) throw new CriError("Unknown", error);
}
