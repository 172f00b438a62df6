"""Files where a pipeline stages and writes: a directory of this machine, or an object store, by one narrow interface over
Arrow's.

    storage = Storage.at("s3://bucket/tables/orders", {"AWS_ENDPOINT_URL": ..., "AWS_ACCESS_KEY_ID": ...})

Settings of an object store have the names that its own tools have, the same for staging, Delta and checkpoints; what is not
said is taken from the environment, as those tools do. Values may be references to secrets; they are resolved here, and kept
nowhere.

A write is there in whole or not at all: on this machine under another name first, in an object store by the store itself.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from tidelog.spark.errors import OptionError
from tidelog.spark.secret_references import resolved_text

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem

# ruff: noqa: PLC0415 - Arrow's file systems are loaded by whoever stages or ends

# What Arrow's own file system for S3 is told, by the names of the store's tools.
_S3_NAMES = {
    "AWS_ACCESS_KEY_ID": "access_key",
    "AWS_SECRET_ACCESS_KEY": "secret_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_REGION": "region",
}
_ENDPOINT = "AWS_ENDPOINT_URL"
_REGION = "AWS_REGION"
# Delta's library wants to be told that http will do; here the endpoint's own scheme says it.
_S3_OTHERS = frozenset({_ENDPOINT, "AWS_ALLOW_HTTP", "AWS_S3_ALLOW_UNSAFE_RENAME", "AWS_CONDITIONAL_PUT"})
_PART = ".part"
# Of one request to a store. Without them Arrow asks on for as long as nobody answers.
CONNECT_TIMEOUT_S = 10
REQUEST_TIMEOUT_S = 60
REQUEST_TRIES_MAX = 5
# Answers of a store, and of what keeps a directory, that are no better the next time: by Arrow's name, by HTTP and by the system.
_DENIED = re.compile(
    r"ACCESS_DENIED|AccessDenied|Forbidden|Unauthorized|[Pp]ermission denied|\bHTTP 40[13]\b|\b40[13] "
)
_DENIED_ERRNOS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class StoredFile(NamedTuple):
    """One that is there."""

    path: str
    """Relative to the storage's place."""
    bytes: int
    modified_s: float


class Storage:
    """One directory, and all below it. Paths are relative to it, with slashes."""

    def __init__(self, system: FileSystem, root: str, *, is_local: bool) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self._is_local = is_local

    @classmethod
    def at(cls, place: str, settings: Mapping[str, str] | None = None) -> Storage:
        """OptionError for a place or a setting that nobody knows."""
        from pyarrow import fs

        # Java writes a file's URI with one slash.
        scheme = urlsplit(place).scheme if "://" in place or place.startswith("file:/") else ""
        if scheme in {"", "file"}:
            path = urlsplit(place).path if scheme else place
            return cls(fs.LocalFileSystem(), str(Path(path).absolute()), is_local=True)
        if scheme in {"s3", "s3a"}:
            return cls(_s3(settings or {}), place.partition("://")[2], is_local=False)
        raise OptionError(f"{place} is neither a directory nor s3://BUCKET/...: no other store is known here")

    def open_output(self, path: str) -> NativeFile:
        """To be closed by the caller. The name is the final one: whoever needs a whole file writes under a name that nobody
        reads."""
        full = self._full(path)
        if self._is_local:
            Path(full).parent.mkdir(parents=True, exist_ok=True)
        return self._system.open_output_stream(full)

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this machine."""
        return self._is_local

    def write(self, path: str, content: bytes, *, is_durable: bool = True) -> None:
        """Never seen in part. On return it survives a loss of power, unless that is not asked for."""
        full = self._full(path)
        if not self._is_local:
            with self._system.open_output_stream(full) as file:
                file.write(content)
            return
        place = Path(full)
        place.parent.mkdir(parents=True, exist_ok=True)
        # Two may write one file at once, and neither must see the other's half.
        made = place.with_name(f".{place.name}.{uuid.uuid4().hex[:12]}{_PART}")
        try:
            with made.open("wb") as file:
                file.write(content)
                file.flush()
                if is_durable:
                    os.fsync(file.fileno())
            made.replace(place)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
        if is_durable:
            _sync_directory(place.parent)

    def read(self, path: str, *, bytes_max: int) -> bytes:
        """FileNotFoundError; OSError for one that is larger."""
        with self._system.open_input_stream(self._full(path)) as file:
            content = bytes(file.read(bytes_max + 1))
        if len(content) > bytes_max:
            raise OSError(f"{path} has more than {bytes_max} bytes")
        return content

    def sync(self, path: str) -> None:
        """Have a file that was written by `open_output` survive a loss of power, on this machine."""
        if not self._is_local:
            return
        full = Path(self._full(path))
        descriptor = os.open(full, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _sync_directory(full.parent)

    def sync_all(self, paths: Iterable[str]) -> None:
        """The same for files that anybody has written, with all directories that lead to them. What is gone is passed over."""
        if not self._is_local:
            return
        directories: set[Path] = set()
        root = Path(self._root)
        for path in paths:
            with suppress(FileNotFoundError):
                self.sync(path)
            directories |= {each for each in Path(self._full(path)).parent.parents if each.is_relative_to(root)}
        # The innermost of each is done.
        for directory in sorted(directories):
            _sync_directory(directory)

    def move(self, source: str, target: str) -> None:
        """Atomic on this machine; an object store copies. What is there under the new name is replaced. FileNotFoundError."""
        full = self._full(target)
        if self._is_local:
            Path(full).parent.mkdir(parents=True, exist_ok=True)
            Path(self._full(source)).replace(full)
            _sync_directory(Path(full).parent)
            return
        try:
            self._system.copy_file(self._full(source), full)
        except OSError:
            # Arrow has no error of its own for a source that is not there.
            if self.size(source) is None:
                raise FileNotFoundError(f"{source} is not there") from None
            raise
        self._system.delete_file(self._full(source))

    def try_writing(self, path: str) -> None:
        """Write a file and take it back, for whoever wants to know before rows are there. OSError, for which `is_denied` tells
        whether it is a right; one that may be written and not deleted stays."""
        self.write(path, b"")
        with suppress(OSError):
            self.delete(path)

    def has(self, path: str) -> bool:
        from pyarrow import fs

        return bool(self._system.get_file_info(self._full(path)).type != fs.FileType.NotFound)

    def size(self, path: str) -> int | None:
        """None where there is no such file."""
        from pyarrow import fs

        info = self._system.get_file_info(self._full(path))
        return None if info.type != fs.FileType.File else int(info.size)

    def delete(self, path: str) -> bool:
        """Whether it was there."""
        try:
            self._system.delete_file(self._full(path))
        except FileNotFoundError:
            return False
        return True

    def delete_directory(self, path: str) -> None:
        """With all that is in it: for a directory that nobody else writes to. A store has none, but Arrow leaves an empty object
        in place of each that it has deleted a file of."""
        with suppress(FileNotFoundError):
            self._system.delete_dir(self._full(path))

    def files(self, below: str = "") -> Iterator[StoredFile]:
        """All files below a directory; none where it is not there."""
        from pyarrow import fs

        chosen = fs.FileSelector(self._full(below), allow_not_found=True, recursive=True)
        for info in self._system.get_file_info(chosen):
            if info.type == fs.FileType.File:
                path = info.path.removeprefix(self._root).lstrip("/")
                yield StoredFile(path, int(info.size), float(info.mtime.timestamp()) if info.mtime else 0.0)

    @property
    def system(self) -> FileSystem:
        """Arrow's, for its own readers and writers; paths then begin with `root`."""
        return self._system

    @property
    def root(self) -> str:
        return self._root

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root


def s3_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What is said of an object store, with secrets in place of references, and endpoint and region from the environment where
    nothing is said. OptionError for a setting that nobody knows."""
    unknown = sorted(set(settings) - set(_S3_NAMES) - _S3_OTHERS)
    if unknown:
        known = ", ".join(sorted({*_S3_NAMES, *_S3_OTHERS}))
        raise OptionError(f"there is no setting {unknown[0]} of an object store; known are {known}")
    found = {name: resolved_text(name, text) for name, text in settings.items()}
    for name, variable in ((_ENDPOINT, _ENDPOINT), (_REGION, _REGION), (_REGION, "AWS_DEFAULT_REGION")):
        if name not in found and variable in os.environ:
            found[name] = os.environ[variable]
    if _ENDPOINT in found and urlsplit(found[_ENDPOINT]).scheme not in {"http", "https"}:
        raise OptionError(f"{_ENDPOINT} has to begin with http:// or https://")
    if _ENDPOINT in found:
        # Without one, libraries ask Amazon where the bucket is, which is no help with a store of one's own.
        found.setdefault(_REGION, "us-east-1")
    return found


def _s3(settings: Mapping[str, str]) -> FileSystem:
    from pyarrow import fs

    found = s3_settings(settings)
    arguments: dict[str, Any] = {ours: found[name] for name, ours in _S3_NAMES.items() if name in found}
    if _ENDPOINT in found:
        split = urlsplit(found[_ENDPOINT])
        arguments["scheme"], arguments["endpoint_override"] = split.scheme, split.netloc
    # One request for a small file, and not one each to begin an upload, to send its only part and to complete it.
    arguments["allow_delayed_open"] = True
    arguments["connect_timeout"], arguments["request_timeout"] = CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S
    arguments["retry_strategy"] = fs.AwsStandardS3RetryStrategy(max_attempts=REQUEST_TRIES_MAX)
    return fs.S3FileSystem(**arguments)


def is_denied(error: BaseException) -> bool:
    """Whether a right is missing, which is there no sooner by waiting."""
    if isinstance(error, OSError) and error.errno in _DENIED_ERRNOS:
        return True
    return _DENIED.search(str(error)) is not None


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
