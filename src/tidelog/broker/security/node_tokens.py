"""The token that a node logs in to others with (OAUTHBEARER), from a token endpoint or a file, as Kafka's login handler gets it.

tokens = endpoint_token(settings, login, parts)      ConfigError in one sentence for what is missing
OAuthBearerClient(lambda: text_of(tokens), ...)      for each connection
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.security.sasl_mechanisms import allowed_url
from tidelog.model import token_login_config as keys
from tidelog.model.clock import Clock
from tidelog.model.config import ConfigError, ConfigKey
from tidelog.model.pending import Pending
from tidelog.model.sasl_config import OAUTHBEARER_ALLOWED_FILES
from tidelog.model.slow_work import SlowWork
from tidelog.model.timers import Timers
from tidelog.model.token_names import BEARER_RETRIEVER, CREDENTIALS_RETRIEVER, FILE_RETRIEVER
from tidelog.security.access_token import AccessToken, read_jwt
from tidelog.security.client_assertion import AssertionConfigError, AssertionSettings, ClientAssertion
from tidelog.security.held_token import HeldToken, NoTokenError
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.sasl import oauthbearer
from tidelog.security.sasl.exchange import SaslError
from tidelog.security.token_endpoint import TokenEndpoint, read_token_file
from tidelog.security.token_refresh import TokenRefresh
from tidelog.security.token_request import AssertedClient, ClientSecret, JwtBearer, TokenRequest

if TYPE_CHECKING:
    import ssl
    from random import Random

_TIMEOUT_MS = 10_000


class TokenParts(NamedTuple):
    """What getting tokens takes of a node."""

    slow_work: SlowWork
    random: Random
    clock: Clock
    timers: Timers


def endpoint_token(settings: ListenerSettings, login: Mapping[str, str], parts: TokenParts) -> HeldToken:
    """`login` has the options of the node's JAAS entry, where older configurations have id, secret and scope."""
    name = oauthbearer.MECHANISM
    return HeldToken(
        parts.timers,
        parts.clock,
        parts.random,
        _source(settings, login, parts.clock.now_ms),
        TokenRefresh(
            settings.of_mechanism(name, keys.SASL_LOGIN_REFRESH_WINDOW_FACTOR),
            settings.of_mechanism(name, keys.SASL_LOGIN_REFRESH_WINDOW_JITTER),
            settings.of_mechanism(name, keys.SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS),
            settings.of_mechanism(name, keys.SASL_LOGIN_REFRESH_BUFFER_SECONDS),
        ),
        parts.slow_work,
        retry_backoff_ms=settings.of_mechanism(name, keys.SASL_LOGIN_RETRY_BACKOFF_MS),
        retry_backoff_max_ms=settings.of_mechanism(name, keys.SASL_LOGIN_RETRY_BACKOFF_MAX_MS),
    )


def text_of(held: HeldToken) -> str | Pending[str | SaslError]:
    """What to send: at hand, or later where it is being got."""
    token = held.token()
    if token is not None:
        return token.text
    later: Pending[str | SaslError] = Pending()

    def ready(error: NoTokenError | None) -> None:
        now_held = held.token()
        later.complete(SaslError(str(error or "the token has ended")) if now_held is None else now_held.text)

    held.when_ready(ready)
    return later


def _source(
    settings: ListenerSettings, login: Mapping[str, str], now_ms: Callable[[], int]
) -> Callable[[], AccessToken]:
    url = allowed_url(
        settings,
        keys.SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL,
        f"this node's token for listener {settings.listener_name} is to be got",
        "where tokens are got",
    )
    retriever = settings.of_mechanism(oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS)
    is_file = url.lower().startswith("file:")
    if (is_file and retriever in (CREDENTIALS_RETRIEVER, BEARER_RETRIEVER)) or (
        not is_file and retriever == FILE_RETRIEVER
    ):
        raise ConfigError(
            f"{keys.SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL.name} is {url}, which is not for "
            f"{keys.SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS.name} {retriever.rpartition('.')[2]}"
        )
    if is_file:
        return lambda: read_jwt(read_token_file(url))
    endpoint = TokenEndpoint(
        url,
        _request(settings, login, now_ms, is_bearer=retriever == BEARER_RETRIEVER),
        connect_timeout_s=_timeout_s(settings, keys.SASL_LOGIN_CONNECT_TIMEOUT_MS),
        read_timeout_s=_timeout_s(settings, keys.SASL_LOGIN_READ_TIMEOUT_MS),
        tls=_of_the_system,
    )
    return lambda: read_jwt(endpoint.fetch())


def _request(
    settings: ListenerSettings, login: Mapping[str, str], now_ms: Callable[[], int], *, is_bearer: bool
) -> TokenRequest:
    scope = _text(settings, login, keys.SASL_OAUTHBEARER_SCOPE, "scope") or None
    assertion = _assertion_settings(settings)
    if not is_bearer and not assertion.proves_client:
        return ClientSecret(
            _required(settings, login, keys.SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID, "clientId"),
            _required(settings, login, keys.SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET, "clientSecret"),
            scope,
        )
    for name, path in assertion.files.items():
        # No dynamic setting may have this node read any file.
        if str(Path(path).absolute()) not in settings[OAUTHBEARER_ALLOWED_FILES]:
            raise ConfigError(f"{name} is not allowed: set {OAUTHBEARER_ALLOWED_FILES.name}={Path(path).absolute()}")
    try:
        made = ClientAssertion.of(assertion, now_ms)
    except AssertionConfigError as error:
        raise ConfigError(str(error)) from None
    if is_bearer:
        return JwtBearer(settings.of_mechanism(oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_SCOPE), made)
    client_id = _text(settings, login, keys.SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID, "clientId")
    return AssertedClient(client_id or None, scope, made)


def _assertion_settings(settings: ListenerSettings) -> AssertionSettings:
    passphrase = settings.of_mechanism(oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_PASSPHRASE)
    return AssertionSettings(
        file=settings.of_mechanism(oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_ASSERTION_FILE),
        private_key_file=settings.of_mechanism(oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE),
        private_key_passphrase=None if passphrase is None else str(passphrase),
        template_file=settings.of_mechanism(oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_ASSERTION_TEMPLATE_FILE),
        algorithm=settings.of_mechanism(oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_ASSERTION_ALGORITHM),
        claim_aud=settings.of_mechanism(oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_ASSERTION_CLAIM_AUD),
        claim_exp_seconds=settings.of_mechanism(
            oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_ASSERTION_CLAIM_EXP_SECONDS
        ),
        claim_iss=settings.of_mechanism(oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_ASSERTION_CLAIM_ISS),
        claim_jti_include=settings.of_mechanism(
            oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_ASSERTION_CLAIM_JTI_INCLUDE
        ),
        claim_nbf_seconds=settings.of_mechanism(
            oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_ASSERTION_CLAIM_NBF_SECONDS
        ),
        claim_sub=settings.of_mechanism(oauthbearer.MECHANISM, keys.SASL_OAUTHBEARER_ASSERTION_CLAIM_SUB),
    )


def _text(settings: ListenerSettings, login: Mapping[str, str], key: ConfigKey[str | None], option: str) -> str:
    """A key, or else the option of the login that had its place before Kafka 4.1."""
    value = settings.of_mechanism(oauthbearer.MECHANISM, key)
    return str(value or login.get(option, "")).strip()


def _required(settings: ListenerSettings, login: Mapping[str, str], key: ConfigKey[str | None], option: str) -> str:
    text = _text(settings, login, key, option)
    if not text:
        raise ConfigError(f"{keys.SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL.name} needs {key.name}")
    return text


def _timeout_s(settings: ListenerSettings, key: ConfigKey[int | None]) -> float:
    timeout_ms = settings.of_mechanism(oauthbearer.MECHANISM, key)
    return (_TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000


def _of_the_system() -> ssl.SSLContext:
    """An endpoint is seldom of the cluster's authority: those of the system are trusted, and names are checked."""
    import ssl  # noqa: PLC0415 - only where one is asked over https

    return ssl.create_default_context()
