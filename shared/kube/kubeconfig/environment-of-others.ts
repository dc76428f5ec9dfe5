/** Environment of third-party programs: this process's without deltaloop's variables, some of which are keys and passwords. */
export function environmentOfOthers(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("DELTALOOP_")));
}
