/**
 * Preloaded into the processes of a profiled `dev`: SIGUSR2 starts a CPU profile, the next one writes it to $PROFILES_FOLDER as
 * `<pid>.cpuprofile`. A profile of `--cpu-prof` is written at exit, which a process on a busy machine may not reach before it is killed.
 */
import { renameSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector";
import { join } from "node:path";

const session = new Session();
session.connect();
let runs = false;

process.on("SIGUSR2", () => {
  if (runs)
    session.post("Profiler.stop", (_error, { profile }) => {
      const file = join(process.env["PROFILES_FOLDER"] ?? "", String(process.pid));
      writeFileSync(file, JSON.stringify(profile));
      renameSync(file, `${file}.cpuprofile`); // complete
    });
  else {
    session.post("Profiler.enable");
    session.post("Profiler.start");
  }
  runs = !runs;
});
