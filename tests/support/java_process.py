"""A Java program of ours beside the tests: one JVM, one JSON line in, one JSON line out."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.apache_kafka import TOOL_JVM, ApacheKafka, KafkaError


class JavaProcess:
    """Runs a single-file Java program over the jars of an installation, and asks it questions until it is closed."""

    def __init__(self, kafka: ApacheKafka, source: Path, *arguments: str, jvm: tuple[str, ...] = TOOL_JVM) -> None:
        self._process = subprocess.Popen(
            kafka.command(str(source), *arguments, jvm=jvm),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, question: dict[str, Any]) -> Any:
        """The answer to one question; KafkaError with the exception's class and message if the program answers with one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise KafkaError("the Java program ended; its last words are on standard error") from None
        line = self._process.stdout.readline()
        if not line:
            raise KafkaError("the Java program ended; its last words are on standard error")
        answer = json.loads(line)
        if "error" in answer:
            raise KafkaError(answer["error"])
        return answer["ok"]

    def close(self) -> None:
        """Ends the program: the end of its input is its sign to go, and one that does not go is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
