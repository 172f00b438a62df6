"""The token that a node logs in to others with (OAUTHBEARER), from a token endpoint or a file, as Kafka's login handler gets it.

tokens = endpoint_token(settings, login, parts)      ConfigError in one sentence for what is missing
OAuthBearerClient(lambda: text_of(tokens), ...)      for each connection
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.security.sasl_mechanisms import allowed_url
from tidelog.model import token_login_config as keys
from tidelog.model.clock import Clock
from tidelog.model.config import ConfigError, ConfigKey
from tidelog.model.pending import Pending
from tidelog.model.slow_work import SlowWork
from tidelog.model.timers import Timers
from tidelog.security.access_token import AccessToken, read_jwt
from tidelog.security.held_token import HeldToken, NoTokenError
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.sasl import oauthbearer
from tidelog.security.sasl.exchange import SaslError
from tidelog.security.token_endpoint import TokenEndpoint, read_token_file
from tidelog.security.token_refresh import TokenRefresh

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
        _source(settings, login),
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


def _source(settings: ListenerSettings, login: Mapping[str, str]) -> Callable[[], AccessToken]:
    url = allowed_url(
        settings,
        keys.SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL,
        f"this node's token for listener {settings.listener_name} is to be got",
        "where tokens are got",
    )
    if url.lower().startswith("file:"):
        return lambda: read_jwt(read_token_file(url))
    endpoint = TokenEndpoint(
        url,
        _required(settings, login, keys.SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID, "clientId"),
        _required(settings, login, keys.SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET, "clientSecret"),
        _text(settings, login, keys.SASL_OAUTHBEARER_SCOPE, "scope") or None,
        connect_timeout_s=_timeout_s(settings, keys.SASL_LOGIN_CONNECT_TIMEOUT_MS),
        read_timeout_s=_timeout_s(settings, keys.SASL_LOGIN_READ_TIMEOUT_MS),
        tls=_of_the_system,
    )
    return lambda: read_jwt(endpoint.fetch())


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
