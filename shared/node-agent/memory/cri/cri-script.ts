/** Behaviour of the programs in the images of the memory runtime, which runs nothing. */
import type { ContainerConfig, ExecSyncResponse } from "../../ports/cri-types.ts";

export interface ContainerScript {
  /** Exits by itself after this time; absent: runs until stopped. */
  readonly exitAfterMs?: number;
  /** With `exitAfterMs`; default 0. */
  readonly exitCode?: number;
  /** Serves on its pod's address from this time after its start; absent: never. */
  readonly readyAfterMs?: number;
  /** Time from the stop signal to the exit with `stopExitCode` (default 0); `"never"`: only SIGKILL ends it. Default 0. */
  readonly stopAfterMs?: number | "never";
  readonly stopExitCode?: number;
  /** `startContainer` fails with this message. */
  readonly startError?: string;
  /** Memory usage; default 0. */
  readonly memoryBytes?: number;
  /** Log lines written at its start. */
  readonly output?: readonly { readonly stream: "stdout" | "stderr"; readonly text: string }[];
  /** The result of a command in the container; default: empty output, exit code 0, no delay. */
  readonly exec?: (cmd: readonly string[], runningForMs: number) => Partial<ExecSyncResponse> & { readonly afterMs?: number };
}

export interface ImageScript extends ContainerScript {
  readonly sizeBytes?: number;
  /** Numeric user of the image. */
  readonly uid?: number;
  /** Overrides by the container's command and args, joined with spaces. */
  readonly commands?: Readonly<Record<string, ContainerScript>>;
}

/** An image in the registry. */
export interface RemoteImage extends ImageScript {
  readonly pullMs?: number;
  /** The pull fails with this message. */
  readonly pullError?: string;
}

export function scriptFor(image: ImageScript, { command = [], args = [] }: ContainerConfig): ContainerScript {
  return image.commands?.[[...command, ...args].join(" ")] ?? image;
}
