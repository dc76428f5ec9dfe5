// Would catch: a start on a version whose objects we do not know or cannot compare, and a version that is rejected because of a
// distribution's suffix.
import { expect, test } from "vitest";

import { unsupported } from "../../../../cli/cluster/kubernetes-versions.ts";

test.each([
  { version: "v1.36.3", why: undefined },
  { version: "v1.35.0", why: undefined },
  { version: "v1.36.99", why: undefined },
  { version: "v1.35.4+k3s1", why: undefined },
  { version: "v1.36.1-eks-1a2b3c4", why: undefined },
  { version: "v1.34.9", why: /older than 1\.35/ },
  { version: "v1.9.1", why: /older/ },
  { version: "v1.31.0+kcp-v0.26.0", why: /older/ },
  { version: "unknown", why: /older/ },
  { version: "v1.37.2", why: undefined },
  { version: "v1.38.0-beta.0", why: /newer than 1\.37/ },
  { version: "v2.0.0", why: /newer/ },
])("unsupported returns $why for $version", ({ version, why }) => {
  if (why === undefined) expect(unsupported(version)).toBeUndefined();
  else expect(unsupported(version)).toMatch(why);
});
