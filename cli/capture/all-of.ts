/** Several observers of the first read of a capture, in their order. */
import type { Census } from "@deltaloop/replay/capture";

export function allOf(...censuses: readonly Census[]): Census {
  return {
    begin() {
      for (const each of censuses) each.begin();
    },
    see(record) {
      for (const each of censuses) each.see(record);
    },
    seeEvidence(record) {
      for (const each of censuses) each.seeEvidence?.(record);
    },
    end() {
      for (const each of censuses) each.end?.();
    },
  };
}
