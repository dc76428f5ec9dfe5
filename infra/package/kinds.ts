export * from "@deltaloop/sdk/kinds";
