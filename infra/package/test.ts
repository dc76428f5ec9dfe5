export * from "@deltaloop/test-kit";
