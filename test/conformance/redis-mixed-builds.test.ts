/** An upgrade between two builds that share rows. test/endurance/mixed-builds.test.ts covers rollbacks and other orders. */
import { upgradesThatShareRows } from "../support/upgrades-that-share-rows.ts";

await upgradesThatShareRows({ base: "same-identity", direction: "upgrade", first: "functions" });
