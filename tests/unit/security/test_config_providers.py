"""Values that are looked up elsewhere: Kafka's three providers, what they may look at, and that nothing they find is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.broker.config.server_properties import check_properties, gather_properties, resolve_properties
from tidelog.model.config import ConfigError, Password
from tidelog.security import config_providers
from tidelog.security.config_providers import resolve
from tidelog.storage.properties import parse_properties_text

CLASSES = "org.apache.kafka.common.config.provider."
ENVIRONMENT = {"SECRET": "hush", "OTHER": "other"}


def providers(**parameters: str) -> dict[str, str]:
    """The three providers under the aliases file, env and dir; parameters are named `alias_parameter`."""
    given = {
        "config.providers": "file, env,dir",
        "config.providers.file.class": f"{CLASSES}FileConfigProvider",
        "config.providers.env.class": f"{CLASSES}EnvVarConfigProvider",
        "config.providers.dir.class": f"{CLASSES}DirectoryConfigProvider",
    }
    for name, value in parameters.items():
        alias, _, parameter = name.partition("_")
        given[f"config.providers.{alias}.param.{parameter.replace('_', '.')}"] = value
    return given


def value_of(text: str, **parameters: str) -> str:
    return resolve({**providers(**parameters), "a": text}, ENVIRONMENT, parse_properties_text)["a"]


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "secrets.properties").write_text("token = hush \\\n  hush\nname=s\u00e9cret\nempty=\n")
    (tmp_path / "password").write_text("hush\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner").write_text("hush")
    return tmp_path


def test_a_file_is_a_properties_file_in_utf_8(secrets: Path) -> None:
    path = secrets / "secrets.properties"

    assert value_of(f"${{file:{path}:token}}") == "hush hush"
    assert value_of(f"${{file:{path}:name}}") == "sécret"
    assert value_of(f"${{file:{path}:empty}}") == ""


def test_the_environment_has_no_paths() -> None:
    assert value_of("${env:SECRET}") == "hush"
    assert value_of("${env::SECRET}") == "hush"
    with pytest.raises(ConfigError, match="Path is not supported for EnvVarConfigProvider, invalid value 'x'"):
        value_of("${env:x:SECRET}")


def test_a_directory_has_a_file_for_each_key(secrets: Path) -> None:
    assert value_of(f"${{dir:{secrets}:password}}") == "hush\n"
    for key in ("sub", "absent", "..", "sub/inner", ""):
        text = f"${{dir:{secrets}:{key}}}"
        assert value_of(text) == text
    assert value_of(f"${{dir:{secrets}/password:x}}") == f"${{dir:{secrets}/password:x}}"


def test_values_are_put_in_wherever_they_are_named(secrets: Path) -> None:
    text = f"user=${{env:OTHER}} password=${{dir:{secrets}/sub:inner}}!${{env:OTHER}}"

    assert value_of(text) == "user=other password=hush!other"


@pytest.mark.parametrize("text", ["${vault:a:b}", "${env:ABSENT}", "${env}", "$env:SECRET", "plain", "", "${", "${a:b"])
def test_what_nobody_has_stays_as_it_is(text: str) -> None:
    value = value_of(text)

    assert value == text
    assert not isinstance(value, Password)


def test_what_was_found_is_not_looked_through_again() -> None:
    given = {**providers(), "a": "${env:NESTED}"}

    resolved = resolve(given, {"NESTED": "${env:SECRET}", **ENVIRONMENT}, parse_properties_text)

    assert resolved["a"] == "${env:SECRET}"


def test_an_alias_without_a_class_is_nobody() -> None:
    assert resolve({"config.providers": "x", "a": "${x:y}"}, {}, parse_properties_text)["a"] == "${x:y}"


def test_only_allowed_paths_are_looked_at(secrets: Path) -> None:
    path = secrets / "secrets.properties"
    inside, outside = f"${{file:{path}:name}}", f"${{file:{secrets}/sub/../secrets.properties:name}}"

    assert value_of(inside, file_allowed_paths=f"/usr,{secrets}") == "sécret"
    assert value_of(inside, file_allowed_paths=str(path)) == "sécret"
    assert value_of(outside, file_allowed_paths=f"{secrets}/sub") == outside
    assert value_of(f"${{dir:{secrets}:password}}", dir_allowed_paths=f"{secrets}/sub").startswith("${")


def test_a_path_whose_name_only_begins_like_an_allowed_one_is_not(secrets: Path) -> None:
    (secrets / "subway").mkdir()
    (secrets / "subway" / "key").write_text("hush")
    text = f"${{dir:{secrets}/subway:key}}"

    assert value_of(text, dir_allowed_paths=f"{secrets}/sub") == text


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"file_allowed_paths": "etc"}, "Path etc is not absolute"),
        ({"dir_allowed_paths": "/no/such/place"}, "Path /no/such/place does not exist"),
        ({"env_allowlist_pattern": "("}, "allowlist.pattern is no regular expression"),
    ],
)
def test_parameters_are_checked(parameters: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        value_of("x", **parameters)


def test_the_whole_name_of_a_variable_matches_the_pattern() -> None:
    assert value_of("${env:SECRET}", env_allowlist_pattern="SECRET|X.*") == "hush"
    assert value_of("${env:SECRET}", env_allowlist_pattern="SEC") == "${env:SECRET}"


@pytest.mark.parametrize("allowed", ["none", f"{CLASSES}FileConfigProvider"])
def test_classes_can_be_restricted(allowed: str) -> None:
    given = {
        "config.providers": "env",
        "config.providers.env.class": f"{CLASSES}EnvVarConfigProvider",
        "org.apache.kafka.automatic.config.providers": allowed,
    }

    with pytest.raises(ConfigError, match=r"EnvVarConfigProvider is not allowed. Update 'org.apache.kafka.automatic"):
        resolve(given, {}, parse_properties_text)

    given["org.apache.kafka.automatic.config.providers"] = f"x, {CLASSES}EnvVarConfigProvider"
    assert resolve({**given, "a": "${env:A}"}, {"A": "b"}, parse_properties_text)["a"] == "b"


def test_other_java_classes_do_not_run_here() -> None:
    given = {"config.providers": "v", "config.providers.v.class": "com.example.Vault"}

    with pytest.raises(
        ConfigError, match=r"config.providers names v, which cannot be used: com.example.Vault is a Java class"
    ):
        resolve(given, {}, parse_properties_text)


@pytest.mark.parametrize("text", ["${file:/no/such/file:k}", "${file:/:k}", "${file:\0:k}"])
def test_a_file_that_cannot_be_read_is_one_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match="a cannot be set: Could not read properties from file"):
        value_of(text)


def test_what_is_too_large_is_another_file(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_providers, "FILE_BYTES_MAX", 3)
    monkeypatch.setattr(config_providers, "VALUE_CHARACTERS_MAX", 5)

    with pytest.raises(ConfigError, match="larger than 3 bytes"):
        value_of(f"${{dir:{secrets}:password}}")
    with pytest.raises(ConfigError, match="longer than 5 characters") as told:
        value_of("${env:SECRET}${env:SECRET}")
    assert "hush" not in str(told.value)


# In a node's configuration


def node_values(text: str) -> dict[str, str]:
    lines = [f"{name}={value}" for name, value in providers().items()]
    return resolve_properties(gather_properties("\n".join([*lines, text]).encode()), ENVIRONMENT)


def test_a_node_goes_by_what_was_found_and_shows_it_to_nobody() -> None:
    given = node_values(
        "delegation.token.secret.key=${env:SECRET}\nbroker.rack=${env:OTHER}\nssl.key.password=x${env:SECRET}\n"
    )

    properties = check_properties(given, strict=True)

    values = properties.values
    assert values["delegation.token.secret.key"] == "hush"
    assert values["broker.rack"] == "other"
    assert values.hidden == {"delegation.token.secret.key", "broker.rack", "ssl.key.password"}
    shown = repr(values) + repr(dict(values.given)) + repr(properties) + repr(given)
    assert "hush" not in shown


def test_a_value_that_cannot_be_taken_is_not_told() -> None:
    with pytest.raises(ConfigError) as told:
        check_properties(node_values("num.partitions=${env:SECRET}\n"))

    assert str(told.value) == (
        "Invalid value [hidden] for configuration num.partitions: what was looked up for it is no INT that it may hold"
    )
    assert told.value.__suppress_context__


def test_what_is_written_down_is_what_was_said() -> None:
    given = gather_properties(settings=["broker.rack=${env:OTHER}"])

    assert given == {"broker.rack": "${env:OTHER}"}
