/** The command of the watcher's image (infra/image): the watcher, and the verbs that its operator runs there. */
import { runVerbs } from "./command/run-verbs.ts";

await runVerbs({
  "Commands:": {
    watch: async () => (await import("./watch.ts")).registerWatch,
    doctor: async () => (await import("./doctor.ts")).registerDoctor,
    resume: async () => (await import("./resume.ts")).registerResume,
    keys: async () => (await import("./keys.ts")).registerKeys,
    capture: async () => (await import("./capture.ts")).registerCapture,
    shadow: async () => (await import("./shadow.ts")).registerShadow,
  },
});
