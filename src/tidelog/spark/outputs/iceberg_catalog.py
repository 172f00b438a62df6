"""The catalog that an Iceberg table is in: opened from a target alone, with every error as a refusal or as something that may be
tried again.

    place      the catalog's URI (`http://...` for REST, `sqlite:////...` or another of SQLAlchemy's for SQL), or its name
    table      namespace.table
    options    the catalog's own properties as PyIceberg has them: type, uri, warehouse, credential, s3.endpoint ...
               and `changes_max`, which is ours
    storage    of an object store; taken for the properties s3.* that options do not have

Nothing is read from PyIceberg's own file of settings: a decision is ended by whoever finds it, on another machine too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    NotInstalledError,
    RESTError,
    UnauthorizedError,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from tidelog.spark.errors import OptionError
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError
from tidelog.spark.outputs.staged import Target
from tidelog.spark.outputs.staged_changes import CHANGES_MAX_OPTION
from tidelog.spark.outputs.storage import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, is_denied, s3_settings
from tidelog.spark.secret_references import resolved_text

if TYPE_CHECKING:
    from requests import Session

# PyIceberg waits for a REST catalog for ever.
CATALOG_TIMEOUT_S = 60.0
# Namespaces of catalogs in use have one or two levels.
NAME_PARTS_MAX = 8

_DELETES_METADATA = "write.metadata.delete-after-commit.enabled"
_NAME = "catalog-name"
_NAME_DEFAULT = "default"
_S3_PROPERTIES = {
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token",
    "AWS_REGION": "s3.region",
}


class ConflictError(Exception):
    """Somebody else has changed the table since it was loaded. Not PyIceberg's own, which it would act on by itself."""


class OneTry:
    """A table's catalog for one commit. PyIceberg answers a conflict by rebasing what it has onto the new version, without a
    look at what that is, and in the end by deleting the manifests that it wrote, though a catalog that is asked twice by
    something in between answers "conflict" to what it has done. So a conflict leaves here as another error, which it leaves
    alone."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.snapshots: list[Any] = []
        """Those that a commit was asked to add."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        self.snapshots += [each.snapshot for each in updates if isinstance(each, AddSnapshotUpdate)]
        try:
            return self._catalog.commit_table(table, requirements, updates)
        except CommitFailedException as error:
            raise ConflictError(str(error)) from error


def commit_on_head(table: Table, update: TableUpdate) -> None:
    """One change that makes no snapshot, as long as the main branch is where it was when the table was loaded. ConflictError
    where it is not."""
    head = table.metadata.refs.get(MAIN_BRANCH)
    seen = {"ref": MAIN_BRANCH, "snapshot-id": None if head is None else head.snapshot_id}
    requirements = (AssertTableUUID(uuid=table.metadata.table_uuid), AssertRefSnapshotId.model_validate(seen))
    done = OneTry(table.catalog).commit_table(table, requirements, (update,)).metadata
    if done.properties.get(_DELETES_METADATA, "").lower() != "true":
        return
    # As a transaction of PyIceberg does by itself.
    kept = {each.metadata_file for each in done.metadata_log}
    for path in {each.metadata_file for each in table.metadata.metadata_log} - kept:
        with suppress(OSError):
            table.io.delete(path)


class _TimedRestCatalog(RestCatalog):
    def _create_session(self) -> Session:
        session = super()._create_session()
        session.request = functools.partial(session.request, timeout=CATALOG_TIMEOUT_S)  # type: ignore[method-assign]
        return session


@contextmanager
def opened(target: Target, *, makes_tables: bool = False) -> Iterator[Catalog]:
    """The target's catalog. OutputRefusedError, OutputUnreachableError; also for what is raised while it is open."""
    with translated(target):
        name, properties = catalog_properties(target)
        identifier(target)
        if properties["type"] == "rest":
            catalog: Catalog = _TimedRestCatalog(name, **properties)
        else:
            catalog = SqlCatalog(name, **properties, init_catalog_tables="true" if makes_tables else "false")
        try:
            yield catalog
        finally:
            catalog.close()


def catalog_properties(target: Target) -> tuple[str, dict[str, str]]:
    """Name and properties, with secrets in place of references. OptionError, which names what is wrong."""
    found = {name: resolved_text(name, text) for name, text in target.options.items() if name != CHANGES_MAX_OPTION}
    name = found.pop(_NAME, "")
    place = resolved_text("the catalog", target.place)
    if "://" in place:
        found["uri"] = place
    else:
        name = name or place
    uri = found.get("uri", "")
    if "://" not in uri:
        raise OptionError(f"the catalog {target.place or 'without a name'} needs uri=: http://... or sqlite:////PATH")
    kind = found.setdefault("type", "rest" if uri.startswith(("http://", "https://")) else "sql")
    if kind not in {"rest", "sql"}:
        raise OptionError(f"a catalog of type {kind} is not known here: sql and rest are")
    if kind == "sql" and _sqlite_path(uri) == "":
        raise OptionError("a catalog in memory is gone with its process: sqlite:////PATH names a file")
    if kind == "sql":
        _check_absolute(uri, found.get("warehouse", ""))
    for aws, text in s3_settings(target.storage).items():
        if aws in _S3_PROPERTIES:
            found.setdefault(_S3_PROPERTIES[aws], text)
    # A catalog's own rights to a store come with settings that say none of these.
    found.setdefault("s3.connect-timeout", str(CONNECT_TIMEOUT_S))
    found.setdefault("s3.request-timeout", str(REQUEST_TIMEOUT_S))
    found["py-io-impl"] = "pyiceberg.io.pyarrow.PyArrowFileIO"
    return name or _NAME_DEFAULT, found


def _check_absolute(uri: str, warehouse: str) -> None:
    """Whoever ends a batch may be in another directory."""
    path = _sqlite_path(uri)
    if path is not None and not Path(path).is_absolute():
        raise OptionError(f"the path of the catalog {uri} has to be absolute: sqlite:////PATH")
    if warehouse and ":" not in warehouse and not Path(warehouse).is_absolute():
        raise OptionError(f"the warehouse {warehouse} has to be a URL, or an absolute path")


def is_there(target: Target) -> bool:
    """False where the catalog is a file of this machine that nobody has made yet."""
    path = _sqlite_path(catalog_properties(target)[1]["uri"])
    return path is None or Path(path).exists()


def identifier(target: Target) -> tuple[str, ...]:
    """The table's name by its parts. OptionError."""
    parts = tuple(target.table.split("."))
    if len(parts) < 2 or not all(parts) or len(parts) > NAME_PARTS_MAX:
        raise OptionError(f"an Iceberg table is named NAMESPACE.TABLE, not {target.table or 'nothing'}")
    return parts


def loaded(catalog: Catalog, target: Target) -> Table:
    """The table as it is now. OutputRefusedError where there is none."""
    try:
        return catalog.load_table(identifier(target))
    except NoSuchTableError:
        raise OutputRefusedError(f"there is no table {target.table} in the catalog {shown(target)}") from None


def shown(target: Target) -> str:
    """The place for people, without a password that somebody has written into it."""
    try:
        return make_url(target.place).render_as_string(hide_password=True) if "://" in target.place else target.place
    except ArgumentError:
        return target.place.partition("@")[2] or target.place


@contextmanager
def translated(target: Target) -> Iterator[None]:
    """Errors of PyIceberg, and of what it asks, as a refusal or as something that may be tried again."""
    where = f"the table {target.table} of the catalog {shown(target)}"
    try:
        yield
    except (OutputRefusedError, OutputUnreachableError, ConflictError):
        raise
    except OptionError as error:
        raise OutputRefusedError(str(error)) from None
    except (UnauthorizedError, ForbiddenError, BadRequestError) as error:
        raise OutputRefusedError(f"{where} is refused: {_sentence(error)}") from error
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise OutputRefusedError(f"{where} is not there: {_sentence(error)}") from error
    except (ArgumentError, NoSuchModuleError, NoSuchPropertyException, NotInstalledError, ModuleNotFoundError) as error:
        raise OutputRefusedError(f"{where} cannot be opened: {_sentence(error)}") from error
    except (RESTError, CommitFailedException, SQLAlchemyError, OSError) as error:
        if isinstance(error, OSError) and is_denied(error):
            raise OutputRefusedError(f"{where} is refused: {_sentence(error)}") from error
        # requests' errors are OSErrors.
        _raise_unreachable(where, error)


def _raise_unreachable(where: str, error: Exception) -> NoReturn:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    raise OutputUnreachableError(f"{where} cannot be reached: {_sentence(cause)}") from error


def _sentence(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def _sqlite_path(uri: str) -> str | None:
    """None for what is no file of SQLite, empty for one in memory."""
    try:
        url = make_url(uri)
    except ArgumentError:
        return None
    if url.get_backend_name() != "sqlite":
        return None
    return "" if url.database in {None, "", ":memory:"} else url.database
