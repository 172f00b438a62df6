"""The configuration keys by which a node gets the tokens that it logs in to other nodes with (OAUTHBEARER).

Names, defaults and ranges are those of Apache Kafka 4.3. The time-outs have no default there, so that a login may wait for ever.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKey, ConfigKeys, ConfigType, UpdateMode, bool_key, double_key, int_key, long_key
from tidelog.model.token_names import ASSERTION_ALGORITHMS, DEFAULT_RETRIEVER, RETRIEVERS, RS256, retriever_names

LOGIN_CLASS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"

_PER_BROKER = UpdateMode.PER_BROKER


def _text_or_none(name: str, doc: str, kind: ConfigType = ConfigType.STRING) -> ConfigKey[str | None]:
    return ConfigKey(name, kind, None, doc)


def _seconds(name: str, default: int, at_most: int, doc: str) -> ConfigKey[int]:
    return ConfigKey(name, ConfigType.SHORT, default, doc, _PER_BROKER, at_least=0, at_most=at_most)


def _handler_problem(text: str | None) -> str | None:
    known = (text or "").strip() in ("", LOGIN_CLASS)
    return None if known else f"it names a Java class, which does not run here; only {LOGIN_CLASS} is known"


def _retriever_problem(text: str) -> str | None:
    known = text.strip() in RETRIEVERS
    return None if known else f"it names a Java class, which does not run here; only {retriever_names()} are known"


def _algorithm_problem(text: str) -> str | None:
    return None if text.upper() in ASSERTION_ALGORITHMS else "String must be one of (case insensitive): ES256, RS256"


SASL_LOGIN_CALLBACK_HANDLER_CLASS: ConfigKey[str | None] = ConfigKey(
    "sasl.login.callback.handler.class",
    ConfigType.CLASS,
    None,
    f"Where this node's own token of OAUTHBEARER comes from: {LOGIN_CLASS} from a token endpoint or a file; unset, from the"
    " options of its login, signed by nobody.",
    valid=_handler_problem,
)
SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL = _text_or_none(
    "sasl.oauthbearer.token.endpoint.url", "Where tokens are got: https:// or http://, or the file: that one is in."
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID = _text_or_none(
    "sasl.oauthbearer.client.credentials.client.id", "The node's id at the provider of tokens."
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET = _text_or_none(
    "sasl.oauthbearer.client.credentials.client.secret",
    "The node's secret at the provider of tokens.",
    ConfigType.PASSWORD,
)
SASL_OAUTHBEARER_SCOPE = _text_or_none("sasl.oauthbearer.scope", "The scope that a token is asked for.")
SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS: ConfigKey[str] = ConfigKey(
    "sasl.oauthbearer.jwt.retriever.class",
    ConfigType.CLASS,
    DEFAULT_RETRIEVER,
    "How a token is got, by the names of Kafka's classes: with an id and a secret or an assertion, from a file, or in exchange"
    " for an assertion (JwtBearerJwtRetriever). DefaultJwtRetriever tells by the URL.",
    valid=_retriever_problem,
)
SASL_OAUTHBEARER_ASSERTION_ALGORITHM: ConfigKey[str] = ConfigKey(
    "sasl.oauthbearer.assertion.algorithm",
    ConfigType.STRING,
    RS256,
    "The algorithm that assertions are signed with: RS256 or ES256.",
    valid=_algorithm_problem,
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_AUD = _text_or_none(
    "sasl.oauthbearer.assertion.claim.aud", "The claim `aud` of assertions."
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_EXP_SECONDS = int_key(
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    300,
    at_least=0,
    at_most=86_400,
    doc="How long an assertion is good.",
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_ISS = _text_or_none(
    "sasl.oauthbearer.assertion.claim.iss",
    "The claim `iss` of assertions. With it an assertion takes the place of the secret.",
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_JTI_INCLUDE = bool_key(
    "sasl.oauthbearer.assertion.claim.jti.include", False, doc="Whether each assertion has an id of its own, `jti`."
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_NBF_SECONDS = int_key(
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    60,
    at_least=0,
    at_most=3600,
    doc="How long before now an assertion begins to be good.",
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_SUB = _text_or_none(
    "sasl.oauthbearer.assertion.claim.sub", "The claim `sub` of assertions."
)
SASL_OAUTHBEARER_ASSERTION_FILE = _text_or_none(
    "sasl.oauthbearer.assertion.file", "A file with a whole assertion, which goes before the keys that make one."
)
SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE = _text_or_none(
    "sasl.oauthbearer.assertion.private.key.file", "The file of the key (PEM, PKCS#8) that assertions are signed with."
)
SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_PASSPHRASE = _text_or_none(
    "sasl.oauthbearer.assertion.private.key.passphrase", "The passphrase of that key.", ConfigType.PASSWORD
)
SASL_OAUTHBEARER_ASSERTION_TEMPLATE_FILE = _text_or_none(
    "sasl.oauthbearer.assertion.template.file", "A file with the header and the payload of assertions, as JSON."
)
SASL_LOGIN_CONNECT_TIMEOUT_MS: ConfigKey[int | None] = ConfigKey(
    "sasl.login.connect.timeout.ms",
    ConfigType.INT,
    None,
    "How long a connection to the provider of tokens may take to be made; ten seconds by default.",
)
SASL_LOGIN_READ_TIMEOUT_MS: ConfigKey[int | None] = ConfigKey(
    "sasl.login.read.timeout.ms",
    ConfigType.INT,
    None,
    "How long an answer of the provider of tokens may take; ten seconds by default.",
)
SASL_LOGIN_RETRY_BACKOFF_MS = long_key(
    "sasl.login.retry.backoff.ms", 100, doc="The wait after the first failure to get a token; each one doubles it."
)
SASL_LOGIN_RETRY_BACKOFF_MAX_MS = long_key(
    "sasl.login.retry.backoff.max.ms", 10_000, doc="How long a token is tried for before a login fails."
)
SASL_LOGIN_REFRESH_WINDOW_FACTOR = double_key(
    "sasl.login.refresh.window.factor",
    0.8,
    at_least=0.5,
    at_most=1.0,
    update_mode=_PER_BROKER,
    doc="Which part of a token's life passes before the next one is got.",
)
SASL_LOGIN_REFRESH_WINDOW_JITTER = double_key(
    "sasl.login.refresh.window.jitter",
    0.05,
    at_least=0.0,
    at_most=0.25,
    update_mode=_PER_BROKER,
    doc="How much of its life is added to that by chance, at most.",
)
SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS = _seconds(
    "sasl.login.refresh.min.period.seconds", 60, 900, "How long a token is kept at least before the next one is got."
)
SASL_LOGIN_REFRESH_BUFFER_SECONDS = _seconds(
    "sasl.login.refresh.buffer.seconds", 300, 3600, "How long before its end the next one is got at the latest."
)

TOKEN_LOGIN_KEYS = ConfigKeys(
    [
        SASL_LOGIN_CALLBACK_HANDLER_CLASS,
        SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL,
        SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID,
        SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET,
        SASL_OAUTHBEARER_SCOPE,
        SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS,
        SASL_OAUTHBEARER_ASSERTION_ALGORITHM,
        SASL_OAUTHBEARER_ASSERTION_CLAIM_AUD,
        SASL_OAUTHBEARER_ASSERTION_CLAIM_EXP_SECONDS,
        SASL_OAUTHBEARER_ASSERTION_CLAIM_ISS,
        SASL_OAUTHBEARER_ASSERTION_CLAIM_JTI_INCLUDE,
        SASL_OAUTHBEARER_ASSERTION_CLAIM_NBF_SECONDS,
        SASL_OAUTHBEARER_ASSERTION_CLAIM_SUB,
        SASL_OAUTHBEARER_ASSERTION_FILE,
        SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE,
        SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_PASSPHRASE,
        SASL_OAUTHBEARER_ASSERTION_TEMPLATE_FILE,
        SASL_LOGIN_CONNECT_TIMEOUT_MS,
        SASL_LOGIN_READ_TIMEOUT_MS,
        SASL_LOGIN_RETRY_BACKOFF_MS,
        SASL_LOGIN_RETRY_BACKOFF_MAX_MS,
        SASL_LOGIN_REFRESH_WINDOW_FACTOR,
        SASL_LOGIN_REFRESH_WINDOW_JITTER,
        SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS,
        SASL_LOGIN_REFRESH_BUFFER_SECONDS,
    ]
)
