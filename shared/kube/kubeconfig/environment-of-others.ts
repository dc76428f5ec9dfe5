/** What programs that are not ours are started with: all there is, and nothing that is ours. Some of it are keys and passwords. */
export function environmentOfOthers(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("DELTALOOP_")));
}
