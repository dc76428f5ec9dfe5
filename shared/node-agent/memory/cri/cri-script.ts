/** What the programs in the images of the memory runtime do, since nothing runs. */
import type { ContainerConfig, ExecSyncResponse } from "../../ports/cri-types.ts";

export interface ContainerScript {
  /** Ends by itself so long after its start; absent: runs until it is stopped. */
  readonly exitAfterMs?: number;
  /** With `exitAfterMs`; default 0. */
  readonly exitCode?: number;
  /** Answers on its pod's address from so long after its start; absent: never. */
  readonly readyAfterMs?: number;
  /** From the stop signal to the end, with `stopExitCode` (default 0); `"never"`: only SIGKILL helps. Default 0. */
  readonly stopAfterMs?: number | "never";
  readonly stopExitCode?: number;
  /** The runtime cannot start it: `startContainer` fails with this message. */
  readonly startError?: string;
  /** What it uses; default 0. */
  readonly memoryBytes?: number;
  /** Written when it starts. */
  readonly output?: readonly { readonly stream: "stdout" | "stderr"; readonly text: string }[];
  /** What a command run in it does; default: nothing, exit code 0, at once. */
  readonly exec?: (cmd: readonly string[], runningForMs: number) => Partial<ExecSyncResponse> & { readonly afterMs?: number };
}

export interface ImageScript extends ContainerScript {
  readonly sizeBytes?: number;
  /** Numeric user of the image. */
  readonly uid?: number;
  /** By command and args of the container, joined with spaces: instead of what stands above. */
  readonly commands?: Readonly<Record<string, ContainerScript>>;
}

/** An image that is not there yet and can be pulled. */
export interface RemoteImage extends ImageScript {
  readonly pullMs?: number;
  /** The pull fails with this message. */
  readonly pullError?: string;
}

export function scriptFor(image: ImageScript, { command = [], args = [] }: ContainerConfig): ContainerScript {
  return image.commands?.[[...command, ...args].join(" ")] ?? image;
}
