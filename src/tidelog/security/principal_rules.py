"""`ssl.principal.mapping.rules`: what the holder of a certificate is called.

    rules = PrincipalRules.parse("RULE:^CN=([a-z]+),.*$/$1/L,DEFAULT")
    rules.name("CN=alice,O=Example")                      alice

    RULE:pattern/replacement/[LU]       the pattern must match the whole name; $1 stands for a group; L and U change the case
    DEFAULT                             the name as it is

The first rule that matches decides. As Kafka's `SslPrincipalMapper`, but for the dialect of patterns: it is Python's, which
lacks of Java's classes such as \\p{Lower} and intersections of character classes. As in Java, \\w, \\d, \\s, \\b and (?i) know
the letters, digits and blanks of ASCII alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)
_NAMED_GROUP = re.compile(r"\(\?<(?=[A-Za-z])")


class RuleError(ValueError):
    """Rules that cannot be, or a name that none of them applies to; in Kafka's words."""


class _Rule(NamedTuple):
    text: str
    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(lambda match: _expanded(self.replacement, match), name)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result


class PrincipalRules:
    """The rules of one listener."""

    __slots__ = ("_rules",)

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, text: str) -> PrincipalRules:
        """RuleError says which rule is wrong."""
        rules = []
        for found in _SPLITTER.finditer(text.strip()):
            rule = found[1]
            match = _PARSER.match(rule)
            assert match is not None
            if match.end() != len(rule):
                raise RuleError(f"Invalid rule: `{rule}`, unmatched substring: `{rule[match.end() :]}`")
            if match[1] is not None:
                rules.append(_Rule("DEFAULT", None, "", ""))
            elif match[2] is not None:
                rules.append(_rule(match[2], match[3], match[4]))
        return cls(rules)

    def name(self, distinguished_name: str) -> str:
        """RuleError where no rule applies, which fails the authentication."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        rules = ", ".join(rule.text for rule in self._rules)
        raise RuleError(f"No rules apply to {distinguished_name}, rules [{rules}]")


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        compiled = re.compile(_NAMED_GROUP.sub("(?P<", pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise RuleError(f"Invalid rule: the pattern `{pattern}` cannot be used: {error}") from error
    text = f"RULE:{pattern}/{replacement}" + (f"/{case}" if case else "")
    return _Rule(text, compiled, replacement, case)


def _expanded(replacement: str, match: re.Match[str]) -> str:
    """A replacement in Java's syntax: `$1`, `${name}`, a backslash before a character that is meant as it is.

    A reference beyond the groups is literal text, unless there are no groups at all: that is an error, as in Kafka.
    """
    pieces: list[str] = []
    at = 0
    groups = match.re.groups
    while at < len(replacement):
        char = replacement[at]
        at += 1
        if char == "\\" and at < len(replacement):
            pieces.append(replacement[at])
            at += 1
        elif char != "$":
            pieces.append(char)
        elif replacement[at : at + 1] == "{" and (end := replacement.find("}", at)) > 0:
            name = replacement[at + 1 : end]
            if name not in match.re.groupindex:
                raise RuleError(f"No group with name {{{name}}}")
            pieces.append(match[name] or "")
            at = end + 1
        else:
            at = _reference(replacement, at, groups, match, pieces)
    return "".join(pieces)


def _reference(replacement: str, at: int, groups: int, match: re.Match[str], pieces: list[str]) -> int:
    """The group that `$` and the digits at `at` stand for: as many digits as name a group. Where the text goes on."""
    if not replacement[at : at + 1].isdigit():
        raise RuleError(f"Illegal group reference in the replacement {replacement}")
    number = int(replacement[at])
    if number > groups:
        if not groups:
            raise RuleError(f"No group {number}")
        pieces.append("$")
        return at
    at += 1
    while replacement[at : at + 1].isdigit() and number * 10 + int(replacement[at]) <= groups:
        number = number * 10 + int(replacement[at])
        at += 1
    pieces.append(match[number] or "")
    return at
