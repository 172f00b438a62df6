"""Logins of Kerberos as the options of Java's login module name them; tests/compat/test_kerberos.py shows that they are good."""

from __future__ import annotations

import sys

import pytest

from tidelog.security.kerberos_login import KerberosLogin, KerberosLoginError, acceptor, default_realm, initiator

KEYTAB = {"useKeyTab": "true", "keyTab": "/k.keytab", "principal": "kafka/h@R", "storeKey": "true"}


@pytest.mark.parametrize(
    ("options", "service_name", "login"),
    [
        ({**KEYTAB, "serviceName": "kafka"}, None, KerberosLogin("kafka", "kafka/h@R", "/k.keytab", None)),
        ({**KEYTAB, "keyTab": "FILE:/k"}, "kafka", KerberosLogin("kafka", "kafka/h@R", "/k", None)),
        ({"useTicketCache": "TRUE"}, "kafka", KerberosLogin("kafka", None, None, None)),
        (
            {"useTicketCache": "true", "ticketCache": "/tmp/cc", "principal": "a@R", "serviceName": "kafka"},
            "kafka",
            KerberosLogin("kafka", "a@R", None, "/tmp/cc"),
        ),
    ],
)
def test_a_login_is_what_the_options_say(
    options: dict[str, str], service_name: str | None, login: KerberosLogin
) -> None:
    assert KerberosLogin.of(options, service_name) == login


@pytest.mark.parametrize(
    ("options", "service_name", "problem"),
    [
        (KEYTAB, None, "No serviceName defined in either JAAS or Kafka config"),
        ({**KEYTAB, "serviceName": "a"}, "b", "value in JAAS file a, value in Kafka config b"),
        ({}, "kafka", "nobody is asked for a password here"),
        ({"useKeyTab": "true"}, "kafka", "needs keyTab, a file, and principal"),
        ({"useKeyTab": "true", "keyTab": "/k"}, "kafka", "needs keyTab, a file, and principal"),
        ({**KEYTAB, "useTicketCache": "true"}, "kafka", "are both true"),
    ],
)
def test_a_login_that_cannot_be_is_told(options: dict[str, str], service_name: str | None, problem: str) -> None:
    with pytest.raises(KerberosLoginError, match=problem):
        KerberosLogin.of(options, service_name)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    login = KerberosLogin.of(KEYTAB, "kafka")

    for needs_it in (lambda: acceptor(login), lambda: initiator(login), default_realm):
        with pytest.raises(KerberosLoginError, match=r"pip install 'tidelog\[kerberos\]'"):
            needs_it()
