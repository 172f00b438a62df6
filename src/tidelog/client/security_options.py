"""How a client proves who it is and knows whom it talks to: Kafka's `security.protocol`, `ssl.*` and `sasl.*` as keywords.

    Producer(bootstrap_servers="broker:9093", security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512",
             sasl_username="alice", sasl_password=..., ssl_truststore_location="ca.pem")

Beside Kafka's names there are `sasl_username` and `sasl_password`, which librdkafka and Python's other clients have too, and two
ways to bring a token for OAUTHBEARER. Two things are otherwise than in Java. Without a trust store the certificates of the system
are trusted, not those of a JVM. And the type of a store is told from its file where it is not given.

An option that another one makes meaningless is refused: whoever sets a password expects it to be used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from tidelog.client.errors import ConfigError
from tidelog.client.option_kinds import (
    declared,
    flag,
    function,
    number,
    option,
    optional_text,
    secret,
    whole,
    word,
    words,
)
from tidelog.model.token_names import (
    ASSERTION_ALGORITHMS,
    BEARER_RETRIEVER,
    CREDENTIALS_RETRIEVER,
    DEFAULT_RETRIEVER,
    FILE_RETRIEVER,
    RETRIEVERS,
    RS256,
    retriever_names,
)

PLAINTEXT = "PLAINTEXT"
PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")

OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"
_WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*_WITH_PASSWORD, OAUTHBEARER, GSSAPI)

STORE_TYPES = ("JKS", "PKCS12", "PEM")

Token = str | tuple[str, float]
"""What a callback returns: a token, or a token and the time at which it ends, in seconds since 1970."""

# What a SHORT of Kafka's is allowed to be here.
_REFRESH_PERIOD_MAX_S = 900
_REFRESH_BUFFER_MAX_S = 3600

_ASSERTION = "sasl_oauthbearer_assertion_"
_ENDPOINT = (
    "sasl_oauthbearer_token_endpoint_url",
    "sasl_oauthbearer_client_credentials_client_id",
    "sasl_oauthbearer_client_credentials_client_secret",
)


def _check_mechanism(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or value.upper() not in MECHANISMS:
        raise ConfigError(f"{name} is {value!r}; it can be {' or '.join(MECHANISMS)}")
    return value.upper()


def _check_store_type(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or value.upper() not in STORE_TYPES:
        raise ConfigError(f"{name} is {value!r}; it can be {' or '.join(STORE_TYPES)}")
    return value.upper()


def _check_identification(name: str, value: object) -> str:
    # Kafka's default, and the only algorithm that it or Java has beside none.
    if not isinstance(value, str) or value.lower() not in {"https", ""}:
        raise ConfigError(f"{name} is {value!r}; it can be 'https', or '' to accept a certificate of any host")
    return value.lower()


def _check_retriever(name: str, value: object) -> str:
    if not isinstance(value, str) or value.strip() not in RETRIEVERS:
        raise ConfigError(
            f"{name} names a class of Java, which cannot be loaded here; it can be {retriever_names()} of Kafka's, "
            f"each as in {DEFAULT_RETRIEVER}"
        )
    return value.strip()


_TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")


def _check_tls_version(name: str, value: object) -> str:
    if value == "TLS":
        # Java's name for whatever is newest.
        return _TLS_VERSIONS[-1]
    if not isinstance(value, str) or value not in _TLS_VERSIONS:
        raise ConfigError(f"{name} is {value!r}; it can be {' or '.join(_TLS_VERSIONS)}")
    return value


@dataclass(frozen=True, kw_only=True)
class SecurityOptions:
    """What producer, consumer and admin have in common. Names and defaults are Kafka's but where the line says otherwise."""

    security_protocol: str = word(
        PLAINTEXT, PROTOCOLS, doc="What the listener speaks: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."
    )
    ssl_truststore_location: str | None = optional_text(
        doc="A file with the authorities to trust (JKS, PKCS12 or PEM); without one, those of the system."
    )
    ssl_truststore_type: str | None = option(
        None, _check_store_type, doc="JKS, PKCS12 or PEM; None to tell it from the file."
    )
    ssl_truststore_password: str | None = secret(doc="The password of ssl_truststore_location; PEM has none.")
    ssl_truststore_certificates: str | None = secret(doc="The authorities to trust as PEM text, instead of a file.")
    ssl_keystore_location: str | None = optional_text(
        doc="A file with this client's certificate and key (JKS, PKCS12 or PEM), where the cluster asks for one."
    )
    ssl_keystore_type: str | None = option(
        None, _check_store_type, doc="JKS, PKCS12 or PEM; None to tell it from the file."
    )
    ssl_keystore_password: str | None = secret(doc="The password of ssl_keystore_location; PEM has none.")
    ssl_key_password: str | None = secret(doc="The password of the key itself, where it has one of its own.")
    ssl_keystore_key: str | None = secret(doc="This client's key as PEM text, instead of a file.")
    ssl_keystore_certificate_chain: str | None = secret(doc="This client's certificates as PEM text, its own first.")
    ssl_endpoint_identification_algorithm: str = option(
        "https",
        _check_identification,
        doc="'https': a certificate must be of the host that was connected to. '' accepts any, and so any impostor.",
    )
    ssl_protocol: str = option("TLSv1.3", _check_tls_version, doc="The highest version of TLS.")
    ssl_enabled_protocols: tuple[str, ...] = words(_TLS_VERSIONS, doc="The versions of TLS that will do.")
    ssl_cipher_suites: tuple[str, ...] = words((), doc="The cipher suites that will do, by IANA's names; () for all.")
    sasl_mechanism: str | None = option(
        None,
        _check_mechanism,
        doc="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI, which is Kafka's default.",
    )
    sasl_username: str | None = optional_text(doc="Whom to log in as, with PLAIN and SCRAM.")
    sasl_password: str | None = secret(doc="The password for that.")
    sasl_jaas_config: str | None = secret(doc="Both as Kafka writes them, or what OAUTHBEARER or GSSAPI needs.")
    sasl_kerberos_service_name: str | None = optional_text(
        doc="The first part of the brokers' principals, with GSSAPI; 'kafka' in most clusters."
    )
    sasl_oauthbearer_token: str | None = secret(doc="A token that does not change. Tidelog's own.")
    sasl_oauthbearer_token_callback: Callable[[], Token] | None = function(  # noqa: RUF009
        doc="Returns a token, or a token and when it ends in seconds since 1970. On a thread of its own. Tidelog's own."
    )
    sasl_oauthbearer_token_endpoint_url: str | None = optional_text(
        doc="Where tokens are asked for: https://, or file: and a path."
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = optional_text(doc="Whom to ask for a token as.")
    sasl_oauthbearer_client_credentials_client_secret: str | None = secret(doc="The secret that belongs to it.")
    sasl_oauthbearer_scope: str | None = optional_text(doc="What the token should be good for.")
    sasl_oauthbearer_header_urlencode: bool = flag(
        False, doc="Whether id, secret and scope are sent in a URL's encoding, which RFC 6749 asks for and few need."
    )
    sasl_oauthbearer_jwt_retriever_class: str = option(
        DEFAULT_RETRIEVER,
        _check_retriever,
        doc="Kafka's name for how a token is got: DefaultJwtRetriever, ClientCredentialsJwtRetriever, FileJwtRetriever or "
        "JwtBearerJwtRetriever, which exchanges an assertion for it.",
    )
    sasl_oauthbearer_assertion_file: str | None = optional_text(
        doc="A file with an assertion, a signed JWT that says who this is, instead of an id and a secret."
    )
    sasl_oauthbearer_assertion_private_key_file: str | None = optional_text(
        doc="A file with the key (PEM, PKCS#8) that assertions are signed with."
    )
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = secret(doc="The passphrase of that key.")
    sasl_oauthbearer_assertion_template_file: str | None = optional_text(
        doc="A file with the header and the payload of assertions, as JSON."
    )
    sasl_oauthbearer_assertion_algorithm: str = word(
        RS256, ASSERTION_ALGORITHMS, doc="What assertions are signed with: RS256 or ES256."
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = optional_text(doc="Whom assertions are for: their claim aud.")
    sasl_oauthbearer_assertion_claim_exp_seconds: int = whole(300, at_most=86_400, doc="How long an assertion is good.")
    sasl_oauthbearer_assertion_claim_iss: str | None = optional_text(
        doc="Who issues them, mostly the client's id; with it an assertion takes the place of the secret."
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = flag(False, doc="Whether each has an id of its own, jti.")
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = whole(
        60, at_most=3600, doc="How long before now an assertion begins to be good."
    )
    sasl_oauthbearer_assertion_claim_sub: str | None = optional_text(doc="Whom they are about: their claim sub.")
    sasl_login_connect_timeout_ms: int = whole(
        10_000, at_least=1, doc="How long connecting to the token's endpoint may take; without end in Kafka."
    )
    sasl_login_read_timeout_ms: int = whole(
        10_000, at_least=1, doc="How long the endpoint may be silent; without end in Kafka."
    )
    sasl_login_retry_backoff_ms: int = whole(100, doc="The wait after the first failure there; each one doubles it.")
    sasl_login_retry_backoff_max_ms: int = whole(10_000, doc="How long a token is tried for.")
    sasl_login_refresh_window_factor: float = number(
        0.8, at_least=0.5, at_most=1.0, doc="The part of a token's time after which the next is asked for."
    )
    sasl_login_refresh_window_jitter: float = number(
        0.05, at_least=0.0, at_most=0.25, doc="And up to so much more of it, by chance."
    )
    sasl_login_refresh_min_period_seconds: int = whole(
        60, at_most=_REFRESH_PERIOD_MAX_S, doc="The shortest time between two tokens, if they live so long."
    )
    sasl_login_refresh_buffer_seconds: int = whole(
        300, at_most=_REFRESH_BUFFER_MAX_S, doc="How long before its end a token is replaced, if it lives so long."
    )

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def login_name(self) -> str:
        """How sentences name the way in: `SASL_SSL with SCRAM-SHA-512`."""
        return f"{self.security_protocol} with {self.sasl_mechanism}" if self.uses_sasl else self.security_protocol


class SecurityArguments(TypedDict, total=False):
    """The keyword arguments that `SecurityOptions` are parsed from, as type checkers see them."""

    security_protocol: str
    ssl_truststore_location: str | None
    ssl_truststore_type: str | None
    ssl_truststore_password: str | None
    ssl_truststore_certificates: str | None
    ssl_keystore_location: str | None
    ssl_keystore_type: str | None
    ssl_keystore_password: str | None
    ssl_key_password: str | None
    ssl_keystore_key: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_endpoint_identification_algorithm: str
    ssl_protocol: str
    ssl_enabled_protocols: str | list[str] | tuple[str, ...]
    ssl_cipher_suites: str | list[str] | tuple[str, ...]
    sasl_mechanism: str | None
    sasl_username: str | None
    sasl_password: str | None
    sasl_jaas_config: str | None
    sasl_kerberos_service_name: str | None
    sasl_oauthbearer_token: str | None
    sasl_oauthbearer_token_callback: Callable[[], Token] | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_jwt_retriever_class: str
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_assertion_algorithm: str
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_login_connect_timeout_ms: int
    sasl_login_read_timeout_ms: int
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int


def secret_names() -> frozenset[str]:
    """The options that are shown to nobody."""
    return frozenset(each.name for each in fields(SecurityOptions) if declared(each).is_secret)


def check_security(options: SecurityOptions) -> None:
    """ConfigError for the first option that does not fit the others, in one sentence."""
    _check_used(options)
    _check_tls(options)
    if options.uses_sasl:
        _check_login(options)


def _given(options: SecurityOptions, prefix: str) -> list[str]:
    return [each.name for each in fields(SecurityOptions) if each.name.startswith(prefix) and _is_given(options, each)]


def _is_given(options: SecurityOptions, field: Any) -> bool:
    return bool(getattr(options, field.name) != field.default)


def _check_used(options: SecurityOptions) -> None:
    """What the protocol leaves unused was meant for another one."""
    protocol = options.security_protocol
    sasl = _given(options, "sasl_")
    if sasl and not options.uses_sasl:
        raise ConfigError(f"{sasl[0]} needs security_protocol SASL_SSL or SASL_PLAINTEXT, and it is {protocol}")
    # The token's endpoint may be behind TLS where the cluster is not.
    asks_endpoint = options.sasl_oauthbearer_token_endpoint_url is not None
    ssl = _given(options, "ssl_")
    if ssl and not options.uses_tls and not asks_endpoint:
        raise ConfigError(f"{ssl[0]} needs security_protocol SSL or SASL_SSL, and it is {protocol}")


def _check_tls(options: SecurityOptions) -> None:
    unknown = [each for each in options.ssl_enabled_protocols if each not in _TLS_VERSIONS]
    if unknown or not options.ssl_enabled_protocols:
        named = repr(unknown[0]) if unknown else "empty"
        raise ConfigError(f"ssl_enabled_protocols is {named}; it can name {' and '.join(_TLS_VERSIONS)}")
    if min(options.ssl_enabled_protocols) > options.ssl_protocol:
        raise ConfigError(f"ssl_protocol is {options.ssl_protocol}, which ssl_enabled_protocols does not have")
    for store, text_options in (
        ("truststore", ("ssl_truststore_certificates",)),
        ("keystore", ("ssl_keystore_key", "ssl_keystore_certificate_chain")),
    ):
        _check_store(options, store, text_options)
    has_key = options.ssl_keystore_key is not None
    if has_key != (options.ssl_keystore_certificate_chain is not None):
        given, missing = ("key", "certificate_chain") if has_key else ("certificate_chain", "key")
        raise ConfigError(
            f"ssl_keystore_{given} needs ssl_keystore_{missing}: a certificate is of no use without its key"
        )
    if options.ssl_key_password is not None and not has_key and options.ssl_keystore_location is None:
        raise ConfigError("ssl_key_password is given, and no key: set ssl_keystore_location or ssl_keystore_key")


def _check_store(options: SecurityOptions, store: str, text_options: tuple[str, ...]) -> None:
    prefix = f"ssl_{store}"
    location: str | None = getattr(options, f"{prefix}_location")
    kind: str | None = getattr(options, f"{prefix}_type")
    password: str | None = getattr(options, f"{prefix}_password")
    in_text = [each for each in text_options if getattr(options, each) is not None]
    if in_text and location is not None:
        raise ConfigError(f"{in_text[0]} and {prefix}_location are both given: one of them says it")
    if in_text and kind not in {None, "PEM"}:
        raise ConfigError(f"{in_text[0]} is PEM, and {prefix}_type is {kind}")
    if password is not None and (in_text or kind == "PEM"):
        with_key = "; ssl_key_password is for the key in it" if store == "keystore" else ""
        raise ConfigError(f"{prefix}_password is given, and PEM has no password{with_key}")
    if password is not None and location is None:
        raise ConfigError(f"{prefix}_password is given, and {prefix}_location is not")


def _check_login(options: SecurityOptions) -> None:
    mechanism = options.sasl_mechanism
    protocol = options.security_protocol
    if mechanism is None:
        raise ConfigError(f"security_protocol is {protocol}, and sasl_mechanism is not set: {', '.join(MECHANISMS)}")
    if options.sasl_password is not None and options.sasl_username is None:
        raise ConfigError("sasl_password is given, and sasl_username is not")
    if options.sasl_username is not None and options.sasl_jaas_config is not None:
        raise ConfigError("sasl_username and sasl_jaas_config are both given: one of them says it")
    if mechanism in _WITH_PASSWORD:
        if options.sasl_jaas_config is None and options.sasl_password is None:
            raise ConfigError(f"{mechanism} needs sasl_username and sasl_password, or sasl_jaas_config")
    elif options.sasl_username is not None:
        raise ConfigError(f"sasl_username is of no use with {mechanism}")
    if mechanism == GSSAPI:
        if options.sasl_kerberos_service_name is None and options.sasl_jaas_config is None:
            raise ConfigError("GSSAPI needs sasl_kerberos_service_name, or sasl_jaas_config that says it")
    elif options.sasl_kerberos_service_name is not None:
        raise ConfigError(f"sasl_kerberos_service_name needs sasl_mechanism GSSAPI, and it is {mechanism}")
    tokens = _given(options, "sasl_oauthbearer_")
    if mechanism == OAUTHBEARER:
        _check_token_source(options)
    elif tokens:
        raise ConfigError(f"{tokens[0]} needs sasl_mechanism OAUTHBEARER, and it is {mechanism}")
    if options.sasl_login_retry_backoff_max_ms < options.sasl_login_retry_backoff_ms:
        raise ConfigError(
            f"sasl_login_retry_backoff_max_ms is {options.sasl_login_retry_backoff_max_ms}; "
            f"it can be sasl_login_retry_backoff_ms ({options.sasl_login_retry_backoff_ms}) or more"
        )


def _check_token_source(options: SecurityOptions) -> None:
    """One place that tokens come from. A JAAS configuration may hold the credentials for the endpoint."""
    url = options.sasl_oauthbearer_token_endpoint_url
    sources = [
        name
        for name in ("sasl_oauthbearer_token", "sasl_oauthbearer_token_callback", "sasl_oauthbearer_token_endpoint_url")
        if getattr(options, name) is not None
    ]
    if len(sources) > 1:
        raise ConfigError(f"{sources[0]} and {sources[1]} are both given: one of them brings the token")
    if not sources and options.sasl_jaas_config is None:
        raise ConfigError(
            "OAUTHBEARER needs sasl_oauthbearer_token_endpoint_url, sasl_oauthbearer_token_callback, "
            "sasl_oauthbearer_token or sasl_jaas_config"
        )
    if url is not None:
        if not url.lower().startswith(("https://", "http://", "file:/")):
            raise ConfigError(
                f"sasl_oauthbearer_token_endpoint_url is {url!r}; it begins with https://, http:// or file:/"
            )
        retriever = options.sasl_oauthbearer_jwt_retriever_class
        is_file = url.lower().startswith("file:")
        if (is_file and retriever in (CREDENTIALS_RETRIEVER, BEARER_RETRIEVER)) or (
            not is_file and retriever == FILE_RETRIEVER
        ):
            raise ConfigError(
                f"sasl_oauthbearer_token_endpoint_url is {'a file' if is_file else 'no file'}, which is not for "
                f"sasl_oauthbearer_jwt_retriever_class {retriever.rpartition('.')[2]}"
            )
        if is_file:
            return
        if "@" in url.partition("//")[2].partition("/")[0]:
            raise ConfigError(
                "sasl_oauthbearer_token_endpoint_url names a user; sasl_oauthbearer_client_credentials_* are for that"
            )
        if _uses_assertion(options):
            return
        missing = next((each for each in _ENDPOINT[1:] if not getattr(options, each)), None)
        if missing is not None and options.sasl_jaas_config is None:
            raise ConfigError(f"sasl_oauthbearer_token_endpoint_url needs {missing}")
        return
    unused = [each for each in (*_ENDPOINT[1:], "sasl_oauthbearer_scope") if getattr(options, each) is not None]
    unused += _given(options, _ASSERTION) + _given(options, "sasl_oauthbearer_jwt_")
    if unused:
        raise ConfigError(f"{unused[0]} needs sasl_oauthbearer_token_endpoint_url")


def _uses_assertion(options: SecurityOptions) -> bool:
    """Whether an assertion says who the client is. What it leaves unused is refused, where Kafka ignores it."""
    is_bearer = options.sasl_oauthbearer_jwt_retriever_class == BEARER_RETRIEVER
    has_file = options.sasl_oauthbearer_assertion_file is not None
    given = _given(options, _ASSERTION)
    if not (is_bearer or has_file or options.sasl_oauthbearer_assertion_claim_iss is not None):
        if given:
            raise ConfigError(
                f"{given[0]} needs sasl_oauthbearer_assertion_file or sasl_oauthbearer_assertion_claim_iss: "
                "an assertion takes the place of the secret with one of them"
            )
        return False
    if has_file and len(given) > 1:
        other = next(each for each in given if each != "sasl_oauthbearer_assertion_file")
        raise ConfigError(f"{other} is of no use with sasl_oauthbearer_assertion_file, which has a whole assertion")
    if not has_file and options.sasl_oauthbearer_assertion_private_key_file is None:
        raise ConfigError(
            "an assertion needs sasl_oauthbearer_assertion_private_key_file to be signed, or sasl_oauthbearer_assertion_file"
        )
    if options.sasl_oauthbearer_client_credentials_client_secret is not None:
        raise ConfigError(
            "sasl_oauthbearer_client_credentials_client_secret is of no use with an assertion: one of them says who this is"
        )
    if is_bearer and options.sasl_oauthbearer_client_credentials_client_id is not None:
        raise ConfigError(
            "sasl_oauthbearer_client_credentials_client_id is of no use with JwtBearerJwtRetriever: the assertion says it"
        )
    return True
