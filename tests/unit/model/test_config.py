from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tidelog.model.config import (
    INT_MAX,
    LONG_MAX,
    ConfigError,
    ConfigKey,
    ConfigKeys,
    ConfigType,
    bool_key,
    double_key,
    int_key,
    list_key,
    long_key,
    string_key,
)

BYTES = int_key("segment.bytes", 1024, at_least=14, doc="d")
AGE = long_key("retention.ms", 7, at_least=-1, doc="d")
RATIO = double_key("ratio", 0.5, at_least=0, at_most=1, doc="d")
ON = bool_key("preallocate", False, doc="d")
POLICY = list_key("cleanup.policy", ("delete",), choices=("compact", "delete"), doc="d")
KIND = string_key("kind", "a", choices=("a", "b"), doc="d")
SECRET = ConfigKey(
    "password", ConfigType.PASSWORD, "", "d", valid=lambda value: None if len(value) > 3 else "too short"
)
KEYS = ConfigKeys([BYTES, AGE, RATIO, ON, POLICY, KIND, SECRET])


def test_values_have_their_keys_type_and_defaults() -> None:
    values = KEYS.parse({"segment.bytes": " 2048 ", "preallocate": "TRUE", "cleanup.policy": "compact, delete"})

    assert values[BYTES] == 2048
    assert values[ON] is True
    assert values[POLICY] == ("compact", "delete")
    assert values[AGE] == 7
    assert values["ratio"] == 0.5
    assert set(values.given) == {"segment.bytes", "preallocate", "cleanup.policy"}


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("segment.bytes", "13", "at least 14"),
        ("segment.bytes", str(INT_MAX + 1), "Not a number of type INT"),
        ("segment.bytes", "1_000", "Not a number"),
        ("segment.bytes", "١٢٣", "Not a number"),
        ("segment.bytes", "9" * 5000, "Not a number"),
        ("segment.bytes", "", "Not a number"),
        ("retention.ms", "-2", "at least -1"),
        ("retention.ms", str(LONG_MAX + 1), "Not a number of type LONG"),
        ("ratio", "1.5", "no more than 1"),
        ("ratio", "nan", "Not a number"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        (
            "cleanup.policy",
            "compact,remove",
            "value remove for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("kind", "c", "String must be one of: a, b"),
    ],
)
def test_a_bad_value_is_named_with_its_key(name: str, text: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KEYS.parse({name: text})
    assert part in str(caught.value)
    assert name in str(caught.value)


def test_an_unknown_key_gets_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"Unknown configuration segment\.byte; did you mean segment\.bytes\?"):
        KEYS.parse({"segment.byte": "1"})
    with pytest.raises(ConfigError, match=r"Unknown configuration zzz$"):
        KEYS.parse({"zzz": "1"})


def test_a_secret_is_never_shown() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value \[hidden\] for configuration password: too short"):
        KEYS.parse({"password": "abc"})


def test_ranges_read_as_in_kafkas_documentation() -> None:
    assert BYTES.range_text == "[14,...,2147483647]"
    assert RATIO.range_text == "[0,...,1]"
    assert POLICY.range_text == "[compact, delete]"
    assert ON.range_text == ""


@given(st.integers(14, INT_MAX), st.booleans(), st.floats(0, 1), st.lists(st.sampled_from(["compact", "delete"])))
def test_what_is_formatted_is_parsed_back(size: int, on: bool, ratio: float, policy: list[str]) -> None:
    assert BYTES.parse(BYTES.format(size)) == size
    assert ON.parse(ON.format(on)) == on
    assert RATIO.parse(RATIO.format(ratio)) == ratio
    assert POLICY.parse(POLICY.format(tuple(policy))) == tuple(policy)
