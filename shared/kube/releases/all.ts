/** Every known release, for capture, explain, shadow mode and import. */
import { RELEASED } from "./acting.ts";
import { nextRelease } from "./release.ts";
import type { Release } from "./release.ts";
import { BEHAVIOUR as behaviour38 } from "./v1.38/behaviour.ts";
import { POD_TEMPLATE_TYPES as types38 } from "./v1.38/pod-template-types.ts";

export const ALL_RELEASES: readonly Release[] = [
  ...RELEASED,
  ...RELEASED.slice(-1).map((last) => nextRelease(last, { name: "1.38", types: types38, behaviour: behaviour38 })),
];
