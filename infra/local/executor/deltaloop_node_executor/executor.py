"""
An execution environment of a function, which LocalStack starts, invokes one at a time, keeps warm and stops.

E1 An environment is at most one Node process. LocalStack decides how many environments there are and how long an idle one lives.
E2 After a timeout or a crash the process is gone; the next invocation of the environment starts a fresh one, as Lambda does.
E3 Every invocation is answered: by the handler, or as Sandbox.Timedout, Runtime.ExitError or an init error.
E4 An environment that is stopped, as by an update of its function, finishes its invocation first. One that LocalStack started
   while it stopped the others of the same version, and so overlooked, ends after the invocation it was started for.
"""

import datetime
import json
import logging
import threading
import time

from localstack import config
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

from deltaloop_node_executor.process import NodeProcess

LOG = logging.getLogger(__name__)

# Lambda's own limit for everything outside the handler.
INIT_SECONDS_MAX = 10.0


# Revisions of functions that were replaced or deleted (E4).
_ended_revisions = set()


class NodeRuntimeExecutor(RuntimeExecutor):
    def __init__(self, id, function_version):
        super().__init__(id, function_version)
        self._lock = threading.Lock()
        self._invoking = threading.Lock()
        self._environment = {}
        self._process = None
        self._stopped = False

    def start(self, env_vars):
        self._environment = {name: str(value) for name, value in env_vars.items()}
        error = self._fresh_process()
        if error is not None:
            raise StatusErrorException("the function could not be loaded", payload=json.dumps(error).encode())

    def stop(self):
        with self._lock:
            self._stopped = True
        # An invocation ends by itself, at its timeout at the latest; reading its log may take a moment longer.
        finished = self._invoking.acquire(timeout=INIT_SECONDS_MAX + self.function_version.config.timeout)
        self._end_process()
        if finished:
            self._invoking.release()

    def _end_process(self):
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()

    def invoke(self, payload):
        with self._invoking:
            try:
                return self._invoke(payload)
            finally:
                if self.function_version.config.internal_revision in _ended_revisions:
                    self._end_process()

    def _invoke(self, payload):
        request_id = payload["invoke-id"]
        process = self._process
        if process is None or not process.alive():
            error = self._fresh_process()
            if error is not None:
                return self._result(request_id, error, f"START RequestId: {request_id}\n")
            process = self._process
        timeout_s = self.function_version.config.timeout
        started = time.monotonic()
        process.say(f"START RequestId: {request_id} Version: {self.function_version.id.qualifier}")
        answer = process.ask(
            {
                "id": request_id,
                "arn": payload["invoked-function-arn"],
                "trace": payload["trace-id"],
                "deadlineMs": int(time.time() * 1000 + timeout_s * 1000),
                "payload": payload["payload"],
            },
            timeout_s,
        )
        elapsed_ms = (time.monotonic() - started) * 1000
        if answer is None:
            timed_out = process.alive()
            process.kill()
            answer = {"error": self._ended(request_id, timed_out, timeout_s, process)}
            process.say(f"{_now()} {request_id} {answer['error']['errorMessage']}")
        process.say(f"END RequestId: {request_id}")
        process.say(f"REPORT RequestId: {request_id} Duration: {elapsed_ms:.2f} ms Memory Size: {self.function_version.config.memory_size} MB")
        logs = process.take_logs()
        if "error" in answer:
            return self._result(request_id, answer["error"], logs)
        return InvocationResult(request_id, answer["result"].encode(), is_error=False, logs=logs)

    def _fresh_process(self):
        """Starts a process and waits until it has loaded the handler. Returns the error when it could not."""
        version = self.function_version
        process = NodeProcess(
            name=version.id.function_name,
            code=str(version.config.code.get_unzipped_code_location()),
            memory_mb=version.config.memory_size,
            environment=self._environment,
        )
        with self._lock:
            if self._stopped:
                process.kill()
                return {"errorType": "Runtime.ExitError", "errorMessage": "the environment was stopped"}
            self._process = process
        ready = process.answer(INIT_SECONDS_MAX)
        if ready is not None and "error" not in ready:
            return None
        process.kill()
        if ready is None:
            return {"errorType": "Runtime.ExitError", "errorMessage": f"the function did not load: {process.ending()}"}
        return ready["error"]

    def _ended(self, request_id, timed_out, timeout_s, process):
        if timed_out:
            return {"errorType": "Sandbox.Timedout", "errorMessage": f"RequestId: {request_id} Error: Task timed out after {timeout_s:.2f} seconds"}
        return {"errorType": "Runtime.ExitError", "errorMessage": f"RequestId: {request_id} Error: Runtime exited with error: {process.ending()}"}

    def _result(self, request_id, error, logs):
        return InvocationResult(request_id, json.dumps(error).encode(), is_error=True, logs=logs)

    def get_logs(self):
        process = self._process
        return "" if process is None else process.take_logs()

    # The process runs on the same machine as LocalStack.
    def get_address(self):
        return config.GATEWAY_LISTEN[0].host

    def get_endpoint_from_executor(self):
        host = config.GATEWAY_LISTEN[0].host
        return f"[{host}]" if ":" in host else host

    def get_runtime_endpoint(self):
        return f"http://{self.get_endpoint_from_executor()}:{config.GATEWAY_LISTEN[0].port}/_localstack_lambda/{self.id}"

    @classmethod
    def prepare_version(cls, function_version):
        if function_version.config.code:
            function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version):
        """Keeps the code, which the next version shares after a configuration change. LocalStack removes unused code."""
        _ended_revisions.add(function_version.config.internal_revision)


def _now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
