/** Follows a running cluster: receives the whole input at the start and after each reconnect, and then updates. */
import type { TimelineInput, TimelineUpdate } from "../input.ts";
import { merged } from "./merge.ts";

/** Time within which updates are shown together. */
const FRAME_MS = 200;
/** Delay after a response that the browser does not retry, for example from a server that has stopped. */
const RECONNECT_MS = 2_000;

type Show = (input: TimelineInput, connection: "live" | "lost") => void;

export function follow(show: Show): void {
  let input: TimelineInput | undefined;
  let isLive = false;
  let timer: number | undefined;
  const later = (): void => {
    timer ??= window.setTimeout(() => {
      timer = undefined;
      if (input !== undefined) show(input, isLive ? "live" : "lost");
    }, FRAME_MS);
  };
  const hear = (next: TimelineInput): void => {
    [input, isLive] = [next, true];
    later();
  };
  const connect = (): void => {
    const source = new EventSource("events");
    source.addEventListener("whole", ({ data }) => hear(JSON.parse(data as string) as TimelineInput)); // server and page have the same version
    source.addEventListener("update", ({ data }) => input && hear(merged(input, JSON.parse(data as string) as TimelineUpdate)));
    source.addEventListener("error", () => {
      isLive = false;
      later();
      if (source.readyState === EventSource.CLOSED) window.setTimeout(connect, RECONNECT_MS);
    });
  };
  connect();
}
