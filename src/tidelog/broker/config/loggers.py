"""The levels of this process's loggers, in Kafka's words: what `kafka-configs --entity-type broker-loggers` shows and sets.

Kafka has TRACE below Python's DEBUG, and says FATAL for CRITICAL. Levels are not kept: a restart begins with the configured ones.
Nodes that share a process share its loggers.
"""

from __future__ import annotations

import logging

ROOT_LOGGER = "root"

_LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
LEVEL_NAMES = tuple(sorted(_LEVELS))


def logger_levels() -> dict[str, str]:
    """Every logger that there is, with the level that counts for it, which may be an ancestor's."""
    levels = {ROOT_LOGGER: _level_name(logging.getLogger().getEffectiveLevel())}
    known = logging.getLogger().manager.loggerDict
    for name in sorted(known):
        logger = known[name]
        # A name that is only the beginning of others' names has no logger.
        if isinstance(logger, logging.Logger):
            levels[name] = _level_name(logger.getEffectiveLevel())
    return levels


def logger_exists(name: str) -> bool:
    return name == ROOT_LOGGER or isinstance(logging.getLogger().manager.loggerDict.get(name), logging.Logger)


def set_level(name: str, level: str) -> None:
    """Give a logger that exists one of `LEVEL_NAMES`."""
    _logger(name).setLevel(_LEVELS[level])


def unset_level(name: str) -> None:
    """Leave a logger that exists to its ancestors' level."""
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT_LOGGER else logging.getLogger(name)


def _level_name(level: int) -> str:
    """Kafka's name for a level: that of the nearest one below, where Kafka has none for it."""
    fitting = [name for name, each in _LEVELS.items() if each <= level]
    return fitting[-1] if fitting else "TRACE"
