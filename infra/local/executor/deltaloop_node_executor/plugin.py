"""What LocalStack finds under LAMBDA_RUNTIME_EXECUTOR=deltaloop-node. It is loaded early, so the executor is imported late."""

from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin


class NodeRuntimeExecutorPlugin(RuntimeExecutorPlugin):
    name = "deltaloop-node"

    def load(self, *args, **kwargs):
        from deltaloop_node_executor.executor import NodeRuntimeExecutor

        return NodeRuntimeExecutor
