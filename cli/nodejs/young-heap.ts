/**
 * Restarts a process with a small young generation, because it shares a node with pods.
 *
 * By default V8 lets the young generation grow to 106 MiB, although a node agent keeps almost none of the objects allocated there: each
 * check of a pod creates garbage only. The limit must be set at process start, and npm, npx and `node` start this program without it.
 * So the program replaces itself by execve in the same process.
 */

const FLAG = "--max-semi-space-size";

/** Size of one of its three parts, in MiB. A size of 2 costs as little CPU as 4 and saves 4 MiB. */
export const SMALL_THIRD_MIB = 2;

/**
 * How far the rest of the heap may grow, in percent of what was in use after its last collection. V8's default is about three times that:
 * with 110 pods PSS was 195 MiB, and with this limit 128 MiB for a tenth more CPU.
 */
export const LITTLE_GARBAGE = "--heap-growing-percent=40";

/**
 * By default glibc gives concurrently allocating threads separate arenas, up to eight per core. V8's compiler and collector threads leave
 * about 7 of 135 MiB unused in them with 110 pods. Other C libraries ignore the variable.
 */
const ONE_ARENA = { MALLOC_ARENA_MAX: "1" };

interface Started {
  readonly execPath: string;
  readonly execArgv: readonly string[];
  readonly argv: readonly string[];
  readonly nodeOptions: string | undefined;
}

/**
 * The command line to restart with; undefined if the size is set already.
 *
 * @param thirdMib size of one third of the young generation
 * @param more further V8 options
 */
export function withSmallYoungHeap(
  { execPath, execArgv, argv, nodeOptions = "" }: Started,
  thirdMib: number,
  ...more: readonly string[]
): readonly string[] | undefined {
  // An underscore equals a hyphen in options of V8.
  if ([...execArgv, nodeOptions].some((text) => text.replaceAll("_", "-").includes(FLAG))) return undefined;
  return [execPath, ...execArgv, `${FLAG}=${thirdMib}`, ...more, ...argv.slice(1)];
}

/** Replaces the process and does not return, unless the size is already set or execve(2) is unavailable. */
export function beginWithSmallYoungHeap(thirdMib: number, ...more: readonly string[]): void {
  const { execPath, execArgv, argv, env } = process;
  const again = withSmallYoungHeap({ execPath, execArgv, argv, nodeOptions: env["NODE_OPTIONS"] }, thirdMib, ...more);
  if (again !== undefined && process.platform !== "win32") process.execve?.(execPath, again, { ...ONE_ARENA, ...env });
}
