"""Asks Apache Kafka's classes the questions of the tables, and puts the answers beside them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess
from tests.support.security_tables import authorizer_cases, jaas_cases, kerberos_cases, subject_cases

COMPAT = REPOSITORY / "tests" / "compat"
AUTHORIZER_CASES = 100
JAAS_TEXTS = 600
KERBEROS_QUESTIONS = 1000
ADDRESSES = [
    bytes(4), bytes([127, 0, 0, 1]), bytes([255] * 4), bytes([10, 0, 0, 1]), bytes(16), bytes([0] * 15 + [1]), bytes([255] * 16),
    bytes.fromhex("20010db8000000000000000000000010"), bytes.fromhex("fe80000000000000020000fffe000001"),
    bytes.fromhex("00000000000000000000ffff0a000001"), bytes.fromhex("0000000000000000000000000a000001"),
    bytes.fromhex("0064ff9b0000000000000000c0000201"), bytes.fromhex("00010002000300040005000600070008"),
]  # fmt: skip


def authorizer_oracle(kafka: ApacheKafka) -> JavaProcess:
    return JavaProcess(kafka, COMPAT / "AuthorizerOracle.java")


def text_oracle(kafka: ApacheKafka) -> JavaProcess:
    return JavaProcess(kafka, COMPAT / "SecurityTextOracle.java")


def authorizer(oracle: JavaProcess, seeds: range = range(AUTHORIZER_CASES)) -> Iterator[Any]:
    for seed in seeds:
        asked = authorizer_cases.case(seed)
        yield {**asked, "answers": oracle.ask(asked)}


def subjects(oracle: JavaProcess) -> Iterator[Any]:
    """[a label, DER in hex, the name]."""
    for label, der in subject_cases.SUBJECTS.items():
        yield [label, der.hex(), oracle.ask({"do": "subject", "der": der.hex()})]


def principal_rules(oracle: JavaProcess) -> Iterator[Any]:
    """[rules, name, what they make of it]; the names are those of the subjects."""
    names = [name for _, _, name in subjects(oracle) if isinstance(name, str)]
    for rules in subject_cases.RULES:
        for name in names:
            yield [rules, name, oracle.ask({"do": "map", "rules": rules, "name": name})]


def jaas(oracle: JavaProcess, count: int = JAAS_TEXTS, seed: int = 1) -> Iterator[Any]:
    """[text, its entries or the refusal]."""
    for text in jaas_cases.texts(count, seed):
        yield [text, oracle.ask({"do": "jaas", "text": text})]


def kerberos(oracle: JavaProcess, count: int = KERBEROS_QUESTIONS, seed: int = 2) -> Iterator[Any]:
    """[realm, rules, name, the short name or the refusal]."""
    for each in kerberos_cases.questions(count, seed):
        yield [each["realm"], each["rules"], each["name"], oracle.ask({"do": "kerberos", **each})]


def addresses(oracle: JavaProcess) -> Iterator[Any]:
    """[the bytes of an address in hex, its text]."""
    random = Random(3)
    drawn = [bytes(random.choice([0, 0, 1, 255, random.randrange(256)]) for _ in range(16)) for _ in range(40)]
    for each in [*ADDRESSES, *drawn]:
        yield [each.hex(), oracle.ask({"do": "address", "bytes": each.hex()})]
