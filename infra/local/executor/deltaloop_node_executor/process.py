"""
A Node process that runs bootstrap.mjs, and the three pipes to it.

stdin  one JSON line for each invocation; the process exits when it closes, so none outlives LocalStack
fd N   answers: one JSON line when the handler is loaded, then one for each invocation
stdout and stderr   the function's log; a line of NUL and the invocation's id marks the end of the invocation's log
"""

import json
import logging
import os
import queue
import subprocess
import threading
from pathlib import Path

LOG = logging.getLogger("deltaloop.function")

BOOTSTRAP = Path(__file__).resolve().parent.parent / "bootstrap.mjs"
# V8's heap gets this share of the function's memory, about as in Lambda; the process needs the rest.
HEAP_SHARE = 0.9
# Time to read an invocation's log, which is in the pipe before the answer.
LOG_SECONDS_MAX = 1.0
LOG_LINES_MAX = 10_000


class NodeProcess:
    def __init__(self, name, code, memory_mb, environment):
        self._name = name
        self._answers = queue.Queue()
        self._log_lines = []
        self._log_lock = threading.Lock()
        self._log_end = threading.Event()
        self._log_end_id = None
        reader, writer = os.pipe()
        try:
            self._child = subprocess.Popen(
                [
                    os.environ["DELTALOOP_LOCAL_NODE"],
                    f"--max-old-space-size={int(memory_mb * HEAP_SHARE)}",
                    str(BOOTSTRAP),
                    str(writer),
                ],
                cwd=code,
                # Without LocalStack's own environment.
                env={**environment, "PATH": os.defpath, "LAMBDA_TASK_ROOT": code},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(writer,),
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        LOG.info("%s: environment started, pid %d", name, self._child.pid)
        threading.Thread(target=self._read_answers, args=(reader,), daemon=True).start()
        threading.Thread(target=self._read_log, daemon=True).start()

    def alive(self):
        return self._child.poll() is None

    def ending(self):
        """How the process ended, as Lambda words it."""
        code = self._child.poll()
        if code is None:
            return "still running"
        return f"signal: {-code}" if code < 0 else f"exit status {code}"

    def kill(self):
        self._child.kill()
        self._child.wait()
        try:
            self._child.stdin.close()
        except OSError:
            pass  # unread input is lost

    def ask(self, question, timeout_s):
        """The answer, or None when it took too long or the process ended."""
        self._log_end_id = question["id"]
        self._log_end.clear()
        try:
            self._child.stdin.write(json.dumps(question).encode() + b"\n")
            self._child.stdin.flush()
        except (OSError, ValueError):
            self._child.wait()
            return None
        answer = self.answer(timeout_s)
        if answer is not None:
            self._log_end.wait(LOG_SECONDS_MAX)
        return answer

    def answer(self, timeout_s):
        """The next line on the answers' pipe; None after `timeout_s`, or when the process has ended."""
        try:
            answer = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if answer is None:
            self._child.wait()
        return answer

    def say(self, line):
        """A line of Lambda's own among the function's."""
        LOG.info("%s: %s", self._name, line)
        with self._log_lock:
            self._log_lines.append(line)
            del self._log_lines[:-LOG_LINES_MAX]

    def take_logs(self):
        with self._log_lock:
            lines, self._log_lines = self._log_lines, []
        return "".join(f"{line}\n" for line in lines)

    def _read_answers(self, reader):
        with os.fdopen(reader, "rb") as pipe:
            for line in pipe:
                self._answers.put(json.loads(line))
        self._answers.put(None)

    def _read_log(self):
        for raw in self._child.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            text, mark, ended = line.partition("\0")
            if text or not mark:
                self.say(text)
            if mark and ended == self._log_end_id:
                self._log_end.set()
