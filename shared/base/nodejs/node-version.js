/**
 * Which Node this program runs on. Plain JavaScript of the oldest kind, as run.js and cli/deltaloop.js are: the Node that they
 * turn away must be able to read them.
 */

/** What undici and commander need; it also strips types. */
const LEAST = [22, 19];

/**
 * Why `version` (as in process.versions.node) cannot run this program, in one line, or undefined.
 *
 * @param {string} version
 * @returns {string | undefined}
 */
export function tooOld(version) {
  const [major, minor] = version.split(".").map(Number);
  if (major > LEAST[0] || (major === LEAST[0] && minor >= LEAST[1])) return undefined;
  return `needs Node ${LEAST.join(".")} or newer, and this is ${version}`;
}
