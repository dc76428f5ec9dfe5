/**
 * Restarts a process with a small heap for young objects, because it shares a node with pods.
 *
 * By itself V8 lets the part of the heap in which objects are born grow to 106 MiB, although a node agent keeps next to nothing of
 * what is born there: it looks at every pod again and again, and throws away what it saw. How far that part may grow is decided when
 * a process begins, and npm, npx and `node` itself start us without saying so: so it begins once more, in the same process.
 */

const FLAG = "--max-semi-space-size";

/** Of one of its three thirds, in MiB. While the agent made twice as much, less than 8 cost CPU; now 2 cost what 4 did, and are 4 MiB less. */
export const SMALL_THIRD_MIB = 2;

/**
 * How far the rest of the heap may grow, in percent of what was in use after its last collection. By itself V8 lets it grow to some
 * three times that: with 110 pods PSS was 195 MiB, and 128 MiB so, for a tenth more CPU.
 */
export const LITTLE_GARBAGE = "--heap-growing-percent=40";

/**
 * By itself glibc has threads that allocate at one time do so in places of their own, up to eight times as many as cores. V8's threads
 * compile and collect in some, and leave about 7 of 135 MiB unused with 110 pods. Other C libraries ignore the variable.
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
 * @param thirdMib of that part of the heap
 * @param more further options of V8
 */
export function withSmallYoungHeap(
  { execPath, execArgv, argv, nodeOptions = "" }: Started,
  thirdMib: number,
  ...more: readonly string[]
): readonly string[] | undefined {
  // An underscore is a hyphen to V8.
  if ([...execArgv, nodeOptions].some((text) => text.replaceAll("_", "-").includes(FLAG))) return undefined;
  return [execPath, ...execArgv, `${FLAG}=${thirdMib}`, ...more, ...argv.slice(1)];
}

/** Does not return, unless there is nothing to do, or this Node or system has no execve(2). */
export function beginWithSmallYoungHeap(thirdMib: number, ...more: readonly string[]): void {
  const { execPath, execArgv, argv, env } = process;
  const again = withSmallYoungHeap({ execPath, execArgv, argv, nodeOptions: env["NODE_OPTIONS"] }, thirdMib, ...more);
  if (again !== undefined && process.platform !== "win32") process.execve?.(execPath, again, { ...ONE_ARENA, ...env });
}
