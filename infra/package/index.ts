export * from "@deltaloop/sdk";
