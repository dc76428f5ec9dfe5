/** Behaviour of the programs in the images of the memory runtime, which runs nothing. */
import type { ContainerConfig, ExecSyncResponse } from "../../ports/cri-types.ts";

export interface ContainerScript {
  /** Time after which the container exits by itself; absent if it runs until stopped. */
  readonly exitAfterMs?: number;
  /** Exit code with `exitAfterMs`; default 0. */
  readonly exitCode?: number;
  /** Time after its start from which the container serves on its pod's address; absent for never. */
  readonly readyAfterMs?: number;
  /** Time from the stop signal to the exit with `stopExitCode` (default 0); with `"never"`, only SIGKILL ends the container. Default 0. */
  readonly stopAfterMs?: number | "never";
  readonly stopExitCode?: number;
  /** Message with which `startContainer` fails. */
  readonly startError?: string;
  /** Memory usage; default 0. */
  readonly memoryBytes?: number;
  /** Log lines that are written when the container starts. */
  readonly output?: readonly { readonly stream: "stdout" | "stderr"; readonly text: string }[];
  /** The result of a command in the container; default: empty output, exit code 0, no delay. */
  readonly exec?: (cmd: readonly string[], runningForMs: number) => Partial<ExecSyncResponse> & { readonly afterMs?: number };
}

export interface ImageScript extends ContainerScript {
  readonly sizeBytes?: number;
  /** Numeric user of the image. */
  readonly uid?: number;
  /** Overrides by the text of the container's command and args, joined with spaces. */
  readonly commands?: Readonly<Record<string, ContainerScript>>;
}

/** An image in the registry. */
export interface RemoteImage extends ImageScript {
  readonly pullMs?: number;
  /** Message with which the pull fails. */
  readonly pullError?: string;
}

export function scriptFor(image: ImageScript, { command = [], args = [] }: ContainerConfig): ContainerScript {
  return image.commands?.[[...command, ...args].join(" ")] ?? image;
}
