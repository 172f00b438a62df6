"""pyarrow, which only the extra `arrow` installs: what needs it says so, rather than fail to import."""

from __future__ import annotations

from tidelog.client.errors import MissingExtraError


def require_arrow(call: str) -> None:
    """MissingExtraError where there is no pyarrow."""
    try:
        import pyarrow as pa  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError(f"{call} needs pyarrow: pip install 'tidelog[arrow]'") from error
