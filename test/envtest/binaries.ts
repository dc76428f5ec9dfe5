import { symlink } from "node:fs/promises";
import { join } from "node:path";

import { KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";
import { answerOf, buildFlags, go, isExecutable } from "./go-program.ts";
import { builtOfRelease, COMPARED_VERSION, releaseModule } from "./release-module.ts";

/** Paths of the six programs, all executable. */
export interface ControlPlaneBinaries {
  readonly etcd: string;
  /** Restores a snapshot of etcd. */
  readonly etcdutl: string;
  readonly kubeApiserver: string;
  readonly kubectl: string;
  readonly kubeControllerManager: string;
  readonly kubeScheduler: string;
}

const PROGRAMS = {
  etcd: "etcd",
  etcdutl: "etcdutl",
  kubeApiserver: "kube-apiserver",
  kubectl: "kubectl",
  kubeControllerManager: "kube-controller-manager",
  kubeScheduler: "kube-scheduler",
} as const satisfies Record<keyof ControlPlaneBinaries, string>;

/**
 * The programs of a control plane: those in `KUBEBUILDER_ASSETS` if that is set (the convention of controller-runtime's envtest) and the
 * tests compare the pinned release; otherwise our own build of `control-plane/`, which is built once and kept in the user's cache folder.
 * Returns `{ missing }`, a one-line reason, if the programs are absent and cannot be built; a suite prints it and skips. `openssl`, which
 * creates the certificates, is also required.
 */
export async function controlPlaneBinaries(): Promise<ControlPlaneBinaries | { readonly missing: string }> {
  if ((await answerOf("openssl", ["version"])) === undefined) {
    return { missing: "the control plane needs the `openssl` command for its certificates (Debian: apt-get install openssl)" };
  }
  const assets = process.env["KUBEBUILDER_ASSETS"];
  if (assets === undefined || assets === "" || COMPARED_VERSION !== KUBERNETES_VERSION) return await builtBinaries();
  return await givenBinaries(assets);
}

async function givenBinaries(folder: string): Promise<ControlPlaneBinaries | { readonly missing: string }> {
  const absent: string[] = [];
  for (const program of Object.values(PROGRAMS)) {
    if (!(await isExecutable(join(folder, program)))) absent.push(program);
  }
  if (absent.length === 0) return binariesIn(folder);
  const hint = "envtest's own archives hold only etcd, kube-apiserver and kubectl; unset the variable to have all six built";
  return { missing: `KUBEBUILDER_ASSETS=${folder} has no ${absent.join(", no ")} (${hint})` };
}

/** Our own build of a release; it is built only once. */
export async function builtBinaries(version = COMPARED_VERSION): Promise<ControlPlaneBinaries | { readonly missing: string }> {
  const module = await releaseModule("control-plane", version);
  const flags = buildFlags(version);
  const what = {
    name: "control plane",
    takes: "about 5 minutes",
    module,
    files: [join(module, "main.go")],
    flags,
    program: PROGRAMS.kubectl,
    async build(folder: string) {
      await go(module, ["build", ...flags, "-o", join(folder, "control-plane"), "."]);
      for (const program of Object.values(PROGRAMS)) await symlink("control-plane", join(folder, program));
    },
  };
  const built = await builtOfRelease(what, version);
  return "missing" in built ? built : binariesIn(built.folder);
}

function binariesIn(folder: string): ControlPlaneBinaries {
  return {
    etcd: join(folder, PROGRAMS.etcd),
    etcdutl: join(folder, PROGRAMS.etcdutl),
    kubeApiserver: join(folder, PROGRAMS.kubeApiserver),
    kubectl: join(folder, PROGRAMS.kubectl),
    kubeControllerManager: join(folder, PROGRAMS.kubeControllerManager),
    kubeScheduler: join(folder, PROGRAMS.kubeScheduler),
  };
}
