import { describe, expect, it } from "vitest";

import { Triggers } from "../../../cli/own/triggers.ts";

const KEY = { controller: "website", key: "default/a" };
const REPORT = { ...KEY, writes: [], isShadow: false, durationMs: 1, failures: 0 };

describe("why a sync has run", () => {
  it("is what was noted before its start; a change during the sync belongs to the next one", () => {
    const triggers = new Triggers([]);
    triggers.enqueued(KEY.controller, KEY.key, "created");
    triggers.starts(KEY.controller, KEY.key);
    triggers.enqueued(KEY.controller, KEY.key, "changed");
    expect(triggers.take(REPORT)).toBe("created");
    triggers.starts(KEY.controller, KEY.key);
    expect(triggers.take(REPORT)).toBe("changed");
    triggers.starts(KEY.controller, KEY.key);
    expect(triggers.take(REPORT)).toBe("own write or requeue");
  });

  it("is kept from a sync that ended without a report", () => {
    const triggers = new Triggers([]);
    triggers.enqueued(KEY.controller, KEY.key, "created");
    triggers.starts(KEY.controller, KEY.key);
    triggers.starts(KEY.controller, KEY.key);
    expect(triggers.take(REPORT)).toBe("created");
  });
});
