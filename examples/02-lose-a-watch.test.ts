// 2. A protocol is a step function over a state that could be stored: here, the Reflector's next request after a lost watch.
import { expect, test } from "vitest";
import { startReflector, stepReflector } from "../shared/kube/list-watch/reflector.ts";
import { KubeApiError } from "../shared/kube/client/errors.ts";

test("resumes after a lost connection, lists again after an expired version, and watches from the list's version", () => {
  let [state, next] = startReflector(undefined);
  expect(next).toMatchObject({ do: "list" });

  [state, next] = stepReflector(state, { kind: "listed", rv: "100" }, 0, 0);
  expect(next).toMatchObject({ do: "watch", rv: "100" });

  [state, next] = stepReflector(state, { kind: "accepted", rv: "117" }, 0, 0);
  [state, next] = stepReflector(state, { kind: "closed", clean: false, events: 1, openMs: 60_000 }, 0, 0);
  expect(next).toMatchObject({ do: "watch", rv: "117", afterMs: 800 });

  const expired = new KubeApiError({ code: 410, reason: "Expired" });
  [state, next] = stepReflector(state, { kind: "refused", error: expired, inStream: false }, 0, 0);
  expect(next).toMatchObject({ do: "list", rv: "117", afterMs: 0 });

  [state, next] = stepReflector(state, { kind: "listed", rv: "240" }, 0, 0);
  expect(next).toMatchObject({ do: "watch", rv: "240" });
});
