"""JAAS text: what Kafka's own parser makes of it, down to its words. The odd cases were run with kafka-clients 4.3.1."""

from __future__ import annotations

import pytest

from tidelog.security.jaas import JaasError, jaas_entry, parse_jaas


def test_an_entry_has_a_module_and_its_options() -> None:
    entry = jaas_entry(
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password=\'a"b\' user_x=y;'
    )

    assert entry.login_module == "org.apache.kafka.common.security.plain.PlainLoginModule"
    assert entry.options == {"username": "broker", "password": 'a"b', "user_x": "y"}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("m OPTIONAL;", {}),
        ("m Sufficient a=b-c_d.e$;", {"a": "b-c_d.e$"}),
        (r'm required a="x\ty\n\"\\";', {"a": 'x\ty\n"\\'}),
        (r'm required a="\101\7\477";', {"a": "A\x07'7"}),
        (r'm required a="\q";', {"a": "q"}),
        ("m required // all of this\n a=b;", {"a": "b"}),
        ("m required /* a=b; */ c=d;", {"c": "d"}),
        ("m required a=b / the rest of the line; c=d;\n;", {"a": "b"}),
        ("m required a='é€';", {"a": "é€"}),
        ("m required é=b;", {"é": "b"}),
        ("m required a=b a=c;", {"a": "c"}),
        ("m required a='b\n;", {"a": "b"}),
        ("m required 'a key'=b;", {"a key": "b"}),
        ("m required a= b ;", {"a": "b"}),
    ],
)
def test_options_are_read_as_javas_tokenizer_reads_them(text: str, options: dict[str, str]) -> None:
    assert jaas_entry(text).options == options


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Login module not specified in JAAS config"),
        ("// nothing", "Login module not specified in JAAS config"),
        ("m", "Login module control flag not specified in JAAS config"),
        ("m ;", "Login module control flag is not available in the JAAS config"),
        ("m maybe;", "Invalid login module control flag 'maybe' in JAAS config"),
        ("m required a=5;", "Value not specified for key 'a' in JAAS config"),
        ("m required a=-5;", "Value not specified for key 'a' in JAAS config"),
        ("m required a=.x;", "Value not specified for key 'a' in JAAS config"),
        ("m required a=5x;", "Value not specified for key 'a' in JAAS config"),
        ("m required a;", "Value not specified for key 'a' in JAAS config"),
        ("m required a=", "Value not specified for key 'a' in JAAS config"),
        ("m required a b=c;", "Value not specified for key 'a' in JAAS config"),
        ("m required 7;", "Value not specified for key 'null' in JAAS config"),
        ("m required", "JAAS config entry not terminated by semi-colon"),
        ("m required a=b", "JAAS config entry not terminated by semi-colon"),
        ("m required a=b; n required;", "JAAS config property contains 2 login modules, should be 1 module"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "JndiLoginModule is not allowed."),
        ("com.sun.security.auth.module.LdapLoginModule required;", "LdapLoginModule is not allowed."),
    ],
)
def test_what_is_wrong_is_said_in_kafkas_words(text: str, problem: str) -> None:
    with pytest.raises(JaasError) as refused:
        jaas_entry(text)

    assert str(refused.value).endswith(problem)


def test_a_file_may_have_several_entries() -> None:
    assert [each.login_module for each in parse_jaas("m required; n optional a=b;")] == ["m", "n"]


def test_an_entry_does_not_show_its_options() -> None:
    assert "secret" not in repr(jaas_entry('m required password="secret";'))
