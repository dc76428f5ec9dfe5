/** Scripts that describe how the programs in images behave, because the memory runtime runs no programs. */
import type { ContainerConfig, ExecSyncResponse } from "../../ports/cri-types.ts";

export interface ContainerScript {
  /** Time after which the container exits by itself. If absent, it runs until it is stopped. */
  readonly exitAfterMs?: number;
  /** Exit code after `exitAfterMs`. Default: 0. */
  readonly exitCode?: number;
  /** Time after the container's start from which it serves on its pod's address. If absent, it never serves. */
  readonly readyAfterMs?: number;
  /**
   * Time from the stop signal to the exit with `stopExitCode` (default: 0). With `"never"`, only SIGKILL ends the container. Default: 0.
   */
  readonly stopAfterMs?: number | "never";
  readonly stopExitCode?: number;
  /** The message with which `startContainer` fails. */
  readonly startError?: string;
  /** Memory usage. Default: 0. */
  readonly memoryBytes?: number;
  /** Log lines that are written when the container starts. */
  readonly output?: readonly { readonly stream: "stdout" | "stderr"; readonly text: string }[];
  /** Returns the result of a command in the container. Default: empty output, exit code 0, no delay. */
  readonly exec?: (cmd: readonly string[], runningForMs: number) => Partial<ExecSyncResponse> & { readonly afterMs?: number };
}

export interface ImageScript extends ContainerScript {
  readonly sizeBytes?: number;
  /** Numeric user id of the image. */
  readonly uid?: number;
  /** Overrides for containers with this command line: command and args, joined with spaces. */
  readonly commands?: Readonly<Record<string, ContainerScript>>;
}

/** An image in the registry. */
export interface RemoteImage extends ImageScript {
  readonly pullMs?: number;
  /** The message with which the pull fails. */
  readonly pullError?: string;
}

export function scriptFor(image: ImageScript, { command = [], args = [] }: ContainerConfig): ContainerScript {
  return image.commands?.[[...command, ...args].join(" ")] ?? image;
}
