/**
 * Checks the Node version. Plain JavaScript without new syntax, like run.js and cli/deltaloop.js: the old Node versions that they reject
 * must be able to parse them.
 */

/** Required by undici and commander; this version also strips types. */
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
