/** A watch that delivers its events late. */
import type { Clock } from "../../../shared/base/clock.ts";
import type { KubeWatch, WatchFrame } from "../../../shared/kube/client/kube.ts";

/** Every line arrives `ms` later, in order. */
export function late(watch: KubeWatch["watch"], clock: Clock, ms: number): KubeWatch["watch"] {
  return async function* (resource, query, signal) {
    const lines: { readonly group: readonly WatchFrame[]; readonly atMs: number }[] = [];
    let [wake, isEnded, failure] = [(): void => undefined, false, undefined as unknown];
    const reading = (async () => {
      for await (const group of watch(resource, query, signal)) {
        lines.push({ group: [...group], atMs: clock.now() + ms });
        wake();
      }
    })()
      .catch((error: unknown) => (failure = error))
      .finally(() => {
        isEnded = true;
        wake();
      });
    for (;;) {
      const first = lines.shift();
      if (first === undefined) {
        if (isEnded) break;
        await new Promise<void>((resolve) => (wake = resolve));
        continue;
      }
      await clock.after(first.atMs - clock.now(), signal);
      yield first.group;
    }
    await reading;
    if (failure !== undefined) throw failure as Error;
  };
}
