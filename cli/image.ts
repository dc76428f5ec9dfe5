/** The command of the image (infra/image): the watcher, the token renewer, and commands that operators run in it. */
import { runVerbs } from "./command/run-verbs.ts";

await runVerbs({
  "Commands:": {
    watch: async () => (await import("./watch.ts")).registerWatch,
    doctor: async () => (await import("./doctor.ts")).registerDoctor,
    resume: async () => (await import("./resume.ts")).registerResume,
    rotate: async () => (await import("./rotate.ts")).registerRotate,
    keys: async () => (await import("./keys.ts")).registerKeys,
    capture: async () => (await import("./capture.ts")).registerCapture,
    shadow: async () => (await import("./shadow.ts")).registerShadow,
  },
});
