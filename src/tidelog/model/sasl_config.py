"""The configuration keys of SASL: which mechanisms a listener takes, whom it lets in, and for how long.

Names, defaults and ranges are those of Apache Kafka 4.3; the two lists of what OAUTHBEARER may read are system properties there.
Those of `MECHANISM_KEYS` may also be set for one mechanism of a listener (`listener.name.<listener>.<mechanism>.<key>`).
"""

from __future__ import annotations

from tidelog.model.config import ConfigKey, ConfigKeys, ConfigType, UpdateMode, int_key, list_key, long_key, string_key
from tidelog.model.token_login_config import TOKEN_LOGIN_KEYS

_PER_BROKER = UpdateMode.PER_BROKER

VALIDATOR_CLASS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def _text_or_none(name: str, doc: str) -> ConfigKey[str | None]:
    return ConfigKey(name, ConfigType.STRING, None, doc)


SASL_ENABLED_MECHANISMS = list_key(
    "sasl.enabled.mechanisms",
    ("GSSAPI",),
    update_mode=_PER_BROKER,
    doc="The mechanisms that clients may use: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI.",
)
SASL_MECHANISM_INTER_BROKER_PROTOCOL = string_key(
    "sasl.mechanism.inter.broker.protocol",
    "GSSAPI",
    update_mode=_PER_BROKER,
    doc="The mechanism by which brokers log in to each other.",
)
SASL_MECHANISM_CONTROLLER_PROTOCOL = string_key(
    "sasl.mechanism.controller.protocol", "GSSAPI", doc="The mechanism by which nodes log in to controllers."
)
SASL_JAAS_CONFIG: ConfigKey[str | None] = ConfigKey(
    "sasl.jaas.config",
    ConfigType.PASSWORD,
    None,
    "The login of one mechanism on one listener: `username` and `password` are this node's, `user_<name>` whom PLAIN lets in.",
    _PER_BROKER,
)
SASL_KERBEROS_SERVICE_NAME: ConfigKey[str | None] = ConfigKey(
    "sasl.kerberos.service.name",
    ConfigType.STRING,
    None,
    "The first part of the principals that brokers have with GSSAPI, unless `sasl.jaas.config` says it.",
    _PER_BROKER,
)
SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES = list_key(
    "sasl.kerberos.principal.to.local.rules",
    ("DEFAULT",),
    update_mode=_PER_BROKER,
    doc="What principals of Kerberos are called here; the first rule that applies decides. DEFAULT: the first part of the name.",
)
SASL_SERVER_MAX_RECEIVE_SIZE = int_key(
    "sasl.server.max.receive.size",
    524_288,
    doc="How large a request may be before its sender has authenticated.",
)
CONNECTIONS_MAX_REAUTH_MS = long_key(
    "connections.max.reauth.ms",
    0,
    doc="After how long a client of SASL has to authenticate again, on the same connection; 0 for never.",
)
SASL_SERVER_CALLBACK_HANDLER_CLASS: ConfigKey[str | None] = ConfigKey(
    "sasl.server.callback.handler.class",
    ConfigType.CLASS,
    None,
    f"Who checks the tokens of OAUTHBEARER: {VALIDATOR_CLASS} by the keys of who issues them; unset, nobody.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = _text_or_none(
    "sasl.oauthbearer.jwks.endpoint.url", "Where the keys of who issues tokens are read: https://, http:// or file:."
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = long_key(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000, doc="After how long those keys are read again."
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS = long_key(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, doc="The first wait after a failure to read them."
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS = long_key(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000, doc="The longest wait after failures to read them."
)
SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS = int_key(
    "sasl.oauthbearer.clock.skew.seconds", 30, doc="By how much the clock of who issues tokens may differ."
)
SASL_OAUTHBEARER_EXPECTED_AUDIENCE = list_key(
    "sasl.oauthbearer.expected.audience",
    (),
    doc="Of which audiences a token must have one. Without any, a token with an audience is not taken.",
)
SASL_OAUTHBEARER_EXPECTED_ISSUER = _text_or_none(
    "sasl.oauthbearer.expected.issuer", "Who must have issued a token; anybody by default."
)
SASL_OAUTHBEARER_SCOPE_CLAIM_NAME = string_key(
    "sasl.oauthbearer.scope.claim.name", "scope", doc="The claim that holds a token's scope."
)
SASL_OAUTHBEARER_SUB_CLAIM_NAME = string_key(
    "sasl.oauthbearer.sub.claim.name", "sub", doc="The claim that holds the name of a token's user."
)
OAUTHBEARER_ALLOWED_URLS = list_key(
    "org.apache.kafka.sasl.oauthbearer.allowed.urls",
    (),
    doc="The URLs that keys of OAUTHBEARER may be read from, each as it is in `sasl.oauthbearer.jwks.endpoint.url`.",
)
OAUTHBEARER_ALLOWED_FILES = list_key(
    "org.apache.kafka.sasl.oauthbearer.allowed.files",
    (),
    doc="The files that keys of OAUTHBEARER may be read from, each by its absolute path.",
)

LISTENER_SASL_KEYS = ConfigKeys(
    [
        SASL_ENABLED_MECHANISMS,
        SASL_SERVER_MAX_RECEIVE_SIZE,
        SASL_KERBEROS_SERVICE_NAME,
        SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES,
    ]
)
MECHANISM_KEYS = ConfigKeys(
    [
        SASL_JAAS_CONFIG,
        CONNECTIONS_MAX_REAUTH_MS,
        SASL_SERVER_CALLBACK_HANDLER_CLASS,
        SASL_OAUTHBEARER_JWKS_ENDPOINT_URL,
        SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS,
        SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS,
        SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS,
        SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS,
        SASL_OAUTHBEARER_EXPECTED_AUDIENCE,
        SASL_OAUTHBEARER_EXPECTED_ISSUER,
        SASL_OAUTHBEARER_SCOPE_CLAIM_NAME,
        SASL_OAUTHBEARER_SUB_CLAIM_NAME,
        *TOKEN_LOGIN_KEYS.values(),
    ]
)
SASL_KEYS = ConfigKeys(
    [
        *LISTENER_SASL_KEYS.values(),
        *MECHANISM_KEYS.values(),
        SASL_MECHANISM_INTER_BROKER_PROTOCOL,
        SASL_MECHANISM_CONTROLLER_PROTOCOL,
        OAUTHBEARER_ALLOWED_URLS,
        OAUTHBEARER_ALLOWED_FILES,
    ]
)
