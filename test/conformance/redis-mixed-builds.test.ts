/** An upgrade between two builds that share rows. The other direction and orders: test/endurance/mixed-builds.test.ts. */
import { upgradesThatShareRows } from "../support/upgrades-that-share-rows.ts";

await upgradesThatShareRows({ base: "same-identity", direction: "upgrade", first: "functions" });
