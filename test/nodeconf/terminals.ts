/**
 * Terminal sessions as data: kubectl commands and keystrokes. The result of each is a plain value (screen content, exit code, error text,
 * pod status), which is equal for every node that behaves as the kubelet does.
 */
import { join } from "node:path";

import type { ContainerdNode } from "../containerd/containerd.ts";
import { IMAGES } from "../containerd/images.ts";
import type { Cluster } from "../support/e2e.ts";
import { getPod, podEnded, podOf, podReady, podWhere, server, shell } from "../harness/node-processes/pods.ts";
import type { ContainerView } from "../harness/node-processes/pods.ts";
import { openTerminal } from "../support/terminal.ts";
import type { Terminal } from "../support/terminal.ts";
import { NAME } from "../harness/node-processes/compared-node.ts";

/** Turns off echo and prompt, because their position on the screen depends on timing. Afterwards the screen shows only command output. */
const QUIET = "stty -echo; PS1=; echo begin-$((1))\n";
const PROMPT = /\/ # |try pressing enter\.\n/u;

/** Returns the cases by title. They may run concurrently, on the node `NAME`. */
export function terminalCases(
  cluster: Cluster,
  containerd: ContainerdNode,
  kubectl: string,
): Readonly<Record<string, () => Promise<object>>> {
  const terminal = (...args: readonly string[]): Terminal =>
    openTerminal([kubectl, ...args], {
      KUBECONFIG: cluster.plane.adminKubeconfig,
      KUBECACHEDIR: join(containerd.directory, "kubectl"),
      KUBERC: "off",
    });
  /**
   * Types the lines one after the other, each after the response to the previous one.
   * @returns the screen content after QUIET, and the exit code
   */
  const work = async (screen: Terminal, ...lines: readonly (readonly [keys: string, seen: string | RegExp])[]): Promise<object> => {
    await screen.see(PROMPT);
    screen.type(QUIET);
    await screen.see("begin-1\n");
    for (const [keys, seen] of lines) {
      screen.type(keys);
      await screen.see(seen);
    }
    return await told(screen);
  };
  const told = async (screen: Terminal): Promise<object> => {
    const code = await screen.ended;
    return { screen: withoutTimes(screen.screen().split("begin-1\n").at(-1) ?? ""), code };
  };
  /** Runs kubectl without a terminal and returns its exit code and output. */
  const said = async (args: readonly string[], input?: string): Promise<object> => {
    const { code, stdout, stderr } = await cluster.plane.kubectl(args, input === undefined ? {} : { input });
    return { code, stdout: withoutTimes(stdout), stderr: withoutTimes(stderr) };
  };
  const image = `--image=${IMAGES.busybox}`;
  const once = ["--rm", image, "--restart=Never", "--command", "--"];
  const started = async (name: string, container: object): Promise<void> => {
    await cluster.apply(podOf(name, { containers: [container] }));
    await podReady(cluster, name);
  };
  const containersOf = async (name: string, look: (all: readonly ContainerView[]) => boolean): Promise<unknown> => {
    const { status } = await podWhere(cluster, name, "has come so far", ({ status: now }) =>
      look([...(now.containerStatuses ?? []), ...(now.ephemeralContainerStatuses ?? [])]),
    );
    const all = [...(status.containerStatuses ?? []), ...(status.ephemeralContainerStatuses ?? [])];
    return all.map((one) => ({
      ...{ name: one.name, ready: one.ready, started: one.started, restarts: one.restartCount },
      ...{ state: stateOf(one.state), lastState: stateOf(one.lastState) },
    }));
  };
  const ended = (name: string) => (all: readonly ContainerView[]) => all.find((one) => one.name === name)?.state.terminated !== undefined;

  return {
    "run -it, size, both streams, Ctrl-C, an exit code": async () =>
      await work(
        terminal("run", "-it", "by-hand", ...once, "sh"),
        ["stty size; tty\n", /\/dev\/.*\n/u],
        ["echo there >&2\n", "there\n"],
        ["echo sleeping; sleep 600\n", "sleeping\n"],
        ["\x03", "\n"], // interrupts the command, not the shell
        ["echo code-$?\n", /code-\d+\n/u],
        ["exit 3\n", "deleted"],
      ),
    "run -it, Ctrl-C ends the pod's process": async () => {
      const screen = terminal(
        "run",
        "-it",
        "struck",
        ...once,
        "sh",
        "-c",
        'trap "echo struck; exit 9" INT; echo begin-1; while true; do sleep 0.1; done',
      );
      await screen.see("begin-1\n");
      screen.type("\x03");
      return await told(screen);
    },
    "run -it, Ctrl-D ends what reads": async () => {
      const screen = terminal("run", "-it", "reads", ...once, "sh", "-c", "stty -echo; echo begin-1; cat; echo read");
      await screen.see("begin-1\n");
      screen.type("words\n");
      await screen.see("words\n");
      screen.type("\x04");
      return await told(screen);
    },
    "run -it, whoever ran it goes away": async () => {
      const screen = terminal("run", "-it", "left", image, "--restart=Never", "--command", "--", "sh");
      await screen.see(PROMPT);
      screen.type("echo mine-$((7))\n");
      await screen.see("mine-7\n");
      await screen.close();
      const again = await work(terminal("attach", "-it", "left"), ["echo still-$((7))\n", "still-7\n"], ["exit 6\n", ""]);
      return { again, containers: await containersOf("left", ended("left")), phase: (await getPod(cluster, "left"))?.status.phase };
    },
    "run -i of what is piped in": async () => await said(["run", "-i", "piped", ...once, "cat"], "one\ntwo\n"),
    "run -i of much": async () => await said(["run", "-i", "much", ...once, "sh", "-c", "wc -c"], "x".repeat(300_000)),
    "run -it, no such image": async () =>
      await said(
        ["run", "-i", "imageless", "--image=localhost/none:1", "--image-pull-policy=Never", "--restart=Never", "--pod-running-timeout=4s"],
        "",
      ),
    "attach -it twice to one shell": async () => {
      await started("shell", { name: "main", image: IMAGES.busybox, command: ["sh"], stdin: true, tty: true });
      const first = terminal("attach", "-it", "shell");
      await first.see(PROMPT);
      first.type("kept=seven\necho is-$kept\n");
      await first.see("is-seven\n");
      await first.close();
      const second = await work(terminal("attach", "-it", "shell"), ["echo still-$kept; stty size\n", /\d+ \d+\n/u], ["exit 4\n", ""]);
      return { second, containers: await containersOf("shell", ([one]) => one?.restartCount === 1 && one.ready) };
    },
    "attach -i without a terminal, whose container reads once": async () => {
      await started("reader", {
        name: "main",
        image: IMAGES.busybox,
        command: ["sh", "-c", "cat; echo read"],
        stdin: true,
        stdinOnce: true,
      });
      const answer = await said(["attach", "-i", "reader"], "word\n");
      return { answer, containers: await containersOf("reader", ([one]) => one?.restartCount === 1) };
    },
    "attach to what has no terminal and reads nothing": async () => {
      await started("mute", shell("main", "echo hello; sleep 1; echo bye; sleep 3600"));
      const answers = [await said(["attach", "-i", "mute", "-c", "nobody"], "")];
      const screen = terminal("attach", "-it", "mute");
      await screen.see(/did not allocate|press/u);
      await screen.close();
      return { answers, screen: screen.screen() };
    },
    "exec and attach where nothing runs yet": async () => {
      await cluster.apply(podOf("waits", { containers: [{ name: "main", image: "localhost/none:1", imagePullPolicy: "Never" }] }));
      await containersOf("waits", ([one]) => one?.state.waiting?.reason === "ErrImageNeverPull");
      return {
        exec: await said(["exec", "waits", "--", "true"]),
        attach: await said(["attach", "waits"]),
        logs: await said(["logs", "waits"]),
      };
    },
    "exec and attach where all has ended": async () => {
      await cluster.apply(podOf("done", { restartPolicy: "Never", containers: [shell("main", "echo last; exit 6")] }));
      const containers = await containersOf("done", ended("main"));
      await podEnded(cluster, "done");
      return {
        containers,
        exec: await said(["exec", "done", "--", "true"]),
        attach: await said(["attach", "done"]),
        logs: await said(["logs", "done"]),
      };
    },
    "exec where the container is between two starts": async () => {
      await cluster.apply(podOf("crashes", { containers: [shell("main", "exit 8"), shell("other", "sleep 3600")] }));
      await containersOf("crashes", (all) => all.some((one) => one.state.waiting?.reason === "CrashLoopBackOff"));
      return { exec: await said(["exec", "crashes", "-c", "main", "--", "true"]), attach: await said(["attach", "crashes", "-c", "main"]) };
    },
    "exec: codes, a program that is not there, both streams, what is piped in": async () => {
      await started("answers", shell("main", "sleep 3600"));
      const sh = (script: string): readonly string[] => ["exec", "-i", "answers", "--", "sh", "-c", script];
      return {
        code: await said(sh("echo out; echo err >&2; exit 7")),
        killed: await said(sh("kill -9 $$")),
        none: await said(["exec", "answers", "--", "/none"]),
        piped: await said(sh("wc -c"), "x".repeat(300_000)),
        tty: await work(terminal("exec", "-it", "answers", "--", "sh"), ["stty size; exit 5\n", "5"]),
      };
    },
    "debug -it beside a container": async () => {
      await started("patient", server());
      const args = ["debug", "-it", "patient", image, "--target=main", "--container=doctor", "--", "sh"];
      const screen = await work(
        terminal(...args),
        ["tr '\\0' ' ' < /proc/1/cmdline; wget -qO- http://127.0.0.1:8080; stty size; id -u\n", /\d+ \d+\n\d+\n/u],
        ["exit 5\n", ""],
      );
      return { screen, containers: await containersOf("patient", ended("doctor")) };
    },
    "debug -it of a copy": async () => {
      await started("original", server());
      const args = ["debug", "-it", "original", image, "--copy-to=copy", "--share-processes", "--container=doctor", "--", "sh"];
      const screen = await work(terminal(...args), [
        "hostname; wget -qO- http://127.0.0.1:8080; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o '[/]server\\|[/]pause' | sort; exit 2\n",
        "/server",
      ]);
      return { screen, containers: await containersOf("copy", ended("doctor")) };
    },
    "debug -it of the node": async () => {
      const screen = terminal("debug", "-it", `node/${NAME}`, image, "--profile=general", "--", "sh");
      return await work(screen, [
        "ls -d /host/etc /host/proc; test $(ls /proc 2>/dev/null | grep -c '^[0-9]') -gt 20 && echo many; exit 1\n",
        "many",
      ]);
    },
  };
}

/** Replaces the parts that differ between runs. */
function withoutTimes(text: string): string {
  return text
    .replaceAll(/\b[0-9a-f]{64}\b/gu, "ID")
    .replaceAll(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gu, "UID")
    .replaceAll(/\b\d+\.\d+\.\d+\.\d+(?::\d+)?/gu, "ADDRESS")
    .replaceAll(new RegExp(`node-debugger-${NAME}-\\w{5}`, "gu"), "node-debugger");
}

function stateOf({ waiting, running, terminated }: ContainerView["state"]): unknown {
  if (waiting !== undefined) return { waiting: { ...waiting, message: withoutTimes(waiting.message ?? "") } };
  if (terminated === undefined) return running === undefined ? "none" : "running";
  const { exitCode, reason, message } = terminated;
  return { exitCode, reason, message };
}
