"""Where a client's OAUTHBEARER token comes from: a function, a text, an endpoint, a file, or options for an unsecured one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tidelog.client.errors import ConfigError
from tidelog.client.kafka_properties import in_python_names
from tidelog.client.options import ClientOptions
from tidelog.client.seams import ClientSeams
from tidelog.client.security_options import Token
from tidelog.client.token_login import TokenLogin
from tidelog.model.pending import Pending
from tidelog.model.token_names import BEARER_RETRIEVER
from tidelog.security.access_token import (
    AccessToken,
    AccessTokenError,
    extensions,
    opaque_token,
    read_jwt,
    unsecured_token,
)
from tidelog.security.client_assertion import AssertionConfigError, AssertionSettings, ClientAssertion
from tidelog.security.held_token import TokenSource
from tidelog.security.sasl.exchange import SaslError
from tidelog.security.sasl.oauthbearer import OAuthBearerClient
from tidelog.security.token_endpoint import TokenEndpoint, read_token_file
from tidelog.security.token_refresh import TokenRefresh
from tidelog.security.token_request import AssertedClient, ClientSecret, JwtBearer, TokenRequest

if TYPE_CHECKING:
    import ssl

_CALLBACK = "sasl_oauthbearer_token_callback"


def token_login(
    seams: ClientSeams,
    options: ClientOptions,
    jaas: Mapping[str, str],
    tls_context: Callable[[], ssl.SSLContext],
) -> tuple[TokenLogin, Callable[[], OAuthBearerClient]]:
    """The login of a client, and what makes an exchange with its token for each connection. ConfigError for wrong options."""
    is_unsecured = not any(
        (
            options.sasl_oauthbearer_token,
            options.sasl_oauthbearer_token_callback,
            options.sasl_oauthbearer_token_endpoint_url,
        )
    )
    source = _source(seams, options, jaas, tls_context)
    try:
        said = extensions(jaas, "unsecuredLoginExtension_" if is_unsecured else "extension_")
        if is_unsecured:
            unsecured_token(jaas, seams.clock.now_ms())
    except AccessTokenError as error:
        raise ConfigError(f"sasl_jaas_config cannot be used: {error}") from None
    login = TokenLogin(
        seams,
        source,
        TokenRefresh(
            options.sasl_login_refresh_window_factor,
            options.sasl_login_refresh_window_jitter,
            options.sasl_login_refresh_min_period_seconds,
            options.sasl_login_refresh_buffer_seconds,
        ),
        retry_backoff_ms=options.sasl_login_retry_backoff_ms,
        retry_backoff_max_ms=options.sasl_login_retry_backoff_max_ms,
    )
    return login, lambda: OAuthBearerClient(lambda: _token(login), said)


def _token(login: TokenLogin) -> str | Pending[str | SaslError]:
    """The text to send: at hand, since the client sees to it before it connects, unless the token has ended this moment."""
    held = login.token()
    if held is not None:
        return held.text
    later: Pending[str | SaslError] = Pending()

    def ready(error: Exception | None) -> None:
        now_held = login.token()
        later.complete(SaslError(str(error or "the token has ended")) if now_held is None else now_held.text)

    login.when_ready(ready)
    return later


def _source(
    seams: ClientSeams, options: ClientOptions, jaas: Mapping[str, str], tls_context: Callable[[], ssl.SSLContext]
) -> TokenSource:
    if options.sasl_oauthbearer_token_callback is not None:
        callback = options.sasl_oauthbearer_token_callback
        return lambda: token_of(callback())
    if options.sasl_oauthbearer_token is not None:
        return _constant(options.sasl_oauthbearer_token)
    url = options.sasl_oauthbearer_token_endpoint_url
    if url is None:
        return lambda: unsecured_token(jaas, seams.clock.now_ms())
    if url.lower().startswith("file:"):
        return lambda: read_jwt(read_token_file(url))
    endpoint = _endpoint(url, _request(options, jaas, seams), options, tls_context)
    return lambda: read_jwt(endpoint.fetch())


def _constant(text: str) -> TokenSource:
    try:
        token = opaque_token(text)
    except AccessTokenError as error:
        raise ConfigError(f"sasl_oauthbearer_token cannot be used: {error}") from None
    return lambda: token


def _request(options: ClientOptions, jaas: Mapping[str, str], seams: ClientSeams) -> TokenRequest:
    scope = options.sasl_oauthbearer_scope or jaas.get("scope")
    assertion = _assertion_settings(options)
    is_bearer = options.sasl_oauthbearer_jwt_retriever_class == BEARER_RETRIEVER
    if is_bearer or assertion.proves_client:
        try:
            made = ClientAssertion.of(assertion, seams.clock.now_ms)
        except AssertionConfigError as error:
            raise ConfigError(in_python_names(str(error))) from None
        if is_bearer:
            return JwtBearer(options.sasl_oauthbearer_scope, made)
        return AssertedClient(
            options.sasl_oauthbearer_client_credentials_client_id or jaas.get("clientId"), scope, made
        )
    client_id = options.sasl_oauthbearer_client_credentials_client_id or jaas.get("clientId", "")
    secret = options.sasl_oauthbearer_client_credentials_client_secret or jaas.get("clientSecret", "")
    if not client_id.strip() or not secret.strip():
        missing = "id" if not client_id.strip() else "secret"
        raise ConfigError(
            f"sasl_oauthbearer_token_endpoint_url needs sasl_oauthbearer_client_credentials_client_{missing}"
        )
    return ClientSecret(client_id, secret, scope, options.sasl_oauthbearer_header_urlencode)


def _assertion_settings(options: ClientOptions) -> AssertionSettings:
    return AssertionSettings(
        file=options.sasl_oauthbearer_assertion_file,
        private_key_file=options.sasl_oauthbearer_assertion_private_key_file,
        private_key_passphrase=options.sasl_oauthbearer_assertion_private_key_passphrase,
        template_file=options.sasl_oauthbearer_assertion_template_file,
        algorithm=options.sasl_oauthbearer_assertion_algorithm,
        claim_aud=options.sasl_oauthbearer_assertion_claim_aud,
        claim_exp_seconds=options.sasl_oauthbearer_assertion_claim_exp_seconds,
        claim_iss=options.sasl_oauthbearer_assertion_claim_iss,
        claim_jti_include=options.sasl_oauthbearer_assertion_claim_jti_include,
        claim_nbf_seconds=options.sasl_oauthbearer_assertion_claim_nbf_seconds,
        claim_sub=options.sasl_oauthbearer_assertion_claim_sub,
    )


def _endpoint(
    url: str, request: TokenRequest, options: ClientOptions, tls_context: Callable[[], ssl.SSLContext]
) -> TokenEndpoint:
    def trusting() -> ssl.SSLContext:
        """The endpoint seldom is of the cluster's authority: those of the system are trusted as well, and names are checked."""
        context = tls_context()
        context.load_default_certs()
        context.check_hostname = True
        return context

    is_https = url.lower().startswith("https:")
    if is_https:
        # A store that cannot be read is said now.
        trusting()
    return TokenEndpoint(
        url,
        request,
        options.sasl_login_connect_timeout_ms / 1000,
        options.sasl_login_read_timeout_ms / 1000,
        trusting if is_https else None,
    )


def token_of(returned: Token | object) -> AccessToken:
    """What a function has returned as a token. AccessTokenError says what it should have been."""
    if isinstance(returned, str):
        return opaque_token(returned)
    match returned:
        case (str(text), int() | float() as ends_s) if not isinstance(ends_s, bool):
            return opaque_token(text, int(ends_s * 1000))
    if inspect.iscoroutine(returned):
        returned.close()
        raise AccessTokenError(f"{_CALLBACK} is a coroutine function, and has to be an ordinary one")
    raise AccessTokenError(
        f"{_CALLBACK} returned a {type(returned).__name__}; it returns a token, or a token and when it ends"
    )
