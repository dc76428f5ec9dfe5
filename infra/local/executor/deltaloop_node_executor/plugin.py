"""The plugin that LocalStack loads for LAMBDA_RUNTIME_EXECUTOR=deltaloop-node. LocalStack loads it early, so it imports the executor lazily."""

from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin


class NodeRuntimeExecutorPlugin(RuntimeExecutorPlugin):
    name = "deltaloop-node"

    def load(self, *args, **kwargs):
        from deltaloop_node_executor.executor import NodeRuntimeExecutor

        return NodeRuntimeExecutor
