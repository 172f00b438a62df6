"""What ours say otherwise than Apache Kafka: one sentence for each answer that differs."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator
from typing import Any

from tidelog.model.acl import AccessControlEntry, AclOperation, PatternType, PermissionType, ResourceType
from tidelog.model.principal import Principal
from tidelog.net.address import java_host
from tidelog.security.authorizer import StandardAuthorizer, super_users_of
from tidelog.security.der import SEQUENCE, expect, items
from tidelog.security.distinguished_name import distinguished_name
from tidelog.security.jaas import JaasError, parse_jaas
from tidelog.security.kerberos_names import KerberosNameError, ShortNames
from tidelog.security.principal_rules import PrincipalRules, RuleError

# Words for Java's patterns that Python's cannot say; ours say so when the rules are read.
FOREIGN_PATTERNS = ("\\p{",)
_WORDS = re.compile(r"(_FAILED) '[^']*'")


def authorizer(rows: Iterable[Any]) -> Iterator[str]:
    """Decisions, and the rule that each rests on."""
    for row in rows:
        ours = StandardAuthorizer(super_users_of(row["super_users"]), allow_everyone=row["allow_everyone"])
        ours.follow({number.to_bytes(16, "big"): _acl(acl) for number, acl in enumerate(row["acls"])})
        ours.is_ready = True
        for question, (is_allowed, rule) in zip(row["questions"], row["answers"], strict=True):
            kind, name, address, operation, resource, resource_name = question
            caller = Principal(kind, name), java_host(address), AclOperation[operation], ResourceType[resource]
            if resource_name is None:
                if ours.allows_any(*caller) is not is_allowed:
                    yield f"{question} of {row['acls']}: Kafka says {is_allowed} by type"
            elif (ours.allows(*caller, resource_name), str(ours.rule(*caller, resource_name))) != (is_allowed, rule):
                yield f"{question} of {row['acls']}: {ours.rule(*caller, resource_name)}, Kafka says {rule}"


def _acl(row: list[str]) -> AccessControlEntry:
    kind, name, pattern, principal, host, operation, permission = row
    return AccessControlEntry(
        ResourceType[kind],
        name,
        PatternType[pattern],
        principal,
        host,
        AclOperation[operation],
        PermissionType[permission],
    )


def subjects(rows: Iterable[Any]) -> Iterator[str]:
    for label, der, name in rows:
        (whole,) = items(bytes.fromhex(der))
        if (ours := distinguished_name(expect(whole, SEQUENCE))) != name:
            yield f"{label}: {ours!r}, Java says {name!r}"


def principal_rules(rows: Iterable[Any]) -> Iterator[str]:
    for rules, name, answer in rows:
        ours = _mapped(rules, name)
        expected = None if isinstance(answer, dict) else answer
        if ours != expected and not any(each in rules for each in FOREIGN_PATTERNS):
            yield f"{rules} of {name!r}: {ours!r}, Kafka says {answer!r}"


def _mapped(rules: str, name: str) -> str | None:
    try:
        return PrincipalRules.parse(rules).name(name)
    except RuleError:
        return None


def jaas(rows: Iterable[Any]) -> Iterator[str]:
    """Modules, options and the words of refusals. A key that is no word is lost here, and null there."""
    for text, answer in rows:
        try:
            ours: Any = [[entry.login_module, dict(entry.options)] for entry in parse_jaas(text)]
        except JaasError as error:
            ours = str(error)
        if isinstance(answer, dict):
            # Where there is no name of a module, a class of Java's refuses without a word.
            expected: Any = answer["text"] or "Login module not specified in JAAS config"
        else:
            expected = [[module, _without_null(options)] for module, _, options in answer]
        if ours != expected:
            yield f"{text!r}: {ours!r}, Kafka says {expected!r}"


def _without_null(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key != "<null>"}


def kerberos(rows: Iterable[Any]) -> Iterator[str]:
    """Short names, and the words of refusals but for those of Java's patterns."""
    for realm, rules, name, answer in rows:
        try:
            ours: Any = ShortNames.parse(realm, rules).short_name(name)
        except KerberosNameError as error:
            ours = {"text": str(error)}
        expected = answer
        if isinstance(answer, dict):
            expected = {"text": answer["text"]}
            if answer["refused"] == "PatternSyntaxException" and isinstance(ours, dict):
                continue
        if ours != expected:
            yield f"{rules} of {name!r} in {realm!r}: {ours!r}, Kafka says {answer!r}"


def addresses(rows: Iterable[Any]) -> Iterator[str]:
    for data, text in rows:
        packed = bytes.fromhex(data)
        address = socket.inet_ntop(socket.AF_INET6 if len(packed) == 16 else socket.AF_INET, packed)
        if (ours := java_host(address)) != text:
            yield f"{address}: {ours}, Java says {text}"


def access(rows: Iterable[list[Any]], recorded: Iterable[list[Any]]) -> Iterator[tuple[str, str]]:
    """The request and its caller, and what differs. Each request of Kafka's is to be asked.

    Where Kafka refuses without a word, or prints an object of Java's, ours may say whatever is helpful.
    """
    theirs = {(label, caller): (answer, lines) for label, caller, answer, lines in recorded}
    for label, caller, answer, lines in rows:
        expected, audited = theirs.pop((label, caller))
        if answer != expected and (not _has_free_words(expected) or _wordless(answer) != _wordless(expected)):
            yield f"{label} as {caller}", f"{answer}, Kafka says {expected}"
        if lines != audited:
            yield f"audit of {label} as {caller}", f"{lines}, Kafka says {audited}"
    yield from ((f"{label} as {caller}", "it was not asked") for label, caller in theirs)


def _has_free_words(answer: str) -> bool:
    return "'Request ... needs" in answer or "_FAILED ''" in answer


def _wordless(answer: str) -> str:
    return _WORDS.sub(r"\1", answer)


def sasl(rows: Iterable[tuple[str, list[str]]], recorded: Iterable[list[Any]]) -> Iterator[tuple[str, str]]:
    theirs = dict(recorded)
    for label, notes in rows:
        if notes != (expected := theirs.pop(label)):
            yield label, f"{notes}, Kafka says {expected}"
    yield from ((label, "it was not held") for label in theirs)
