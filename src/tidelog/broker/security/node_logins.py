"""How a node says who it is to others: the login of the listener that it calls, by the mechanism between nodes.

`username` and `password` of that listener's `sasl.jaas.config` are what it says of itself, with GSSAPI the principal of its
keytab, with OAUTHBEARER a token: one that nobody has signed, or one from a token endpoint (`node_tokens`). Every ConfigError is
one sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from tidelog.broker.security.node_tokens import TokenParts, endpoint_token, text_of
from tidelog.broker.security.sasl_mechanisms import check_supported, kerberos_login_of, login_of
from tidelog.model import sasl_config as keys, token_login_config as token_keys
from tidelog.model.config import ConfigError, ConfigKey
from tidelog.model.slow_work import SlowWork
from tidelog.net.address import Address
from tidelog.net.connection_security import ClientAuthentication
from tidelog.security import jaas
from tidelog.security.kerberos_login import KerberosLoginError, initiator
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.sasl import gssapi, oauthbearer, plain
from tidelog.security.sasl.client_login import SaslLogin
from tidelog.security.sasl.exchange import ClientExchange
from tidelog.security.sasl.scram import TOKEN_AUTH, ScramClient
from tidelog.security.sasl.scram_credential import ScramMechanism
from tidelog.security.sasl.unsecured_jws import unsecured_login

log = logging.getLogger(__name__)

_EXTENSION = "unsecuredLoginExtension_"
_SIGNED_EXTENSION = "extension_"


class NodeLogin(NamedTuple):
    """A node's login on one listener. `close` once it is not used any more."""

    new: Callable[[Address], ClientAuthentication]
    """For a connection to this address."""
    close: Callable[[], None] = lambda: None


class LoginParts(NamedTuple):
    """What the logins of a node share."""

    tokens: TokenParts
    client_id: str


def broker_login(settings: ListenerSettings, parts: LoginParts) -> NodeLogin:
    """The logins to other brokers, on the listener between them."""
    return _login(settings, keys.SASL_MECHANISM_INTER_BROKER_PROTOCOL, parts)


def controller_login(settings: ListenerSettings, parts: LoginParts) -> NodeLogin:
    """The logins to controllers."""
    key = keys.SASL_MECHANISM_CONTROLLER_PROTOCOL
    if ScramMechanism.named(settings[key]) is not None:
        log.warning(
            "%s is %s, whose credentials are in the log that a controller must log in to read: a controller that starts"
            " cannot let others in before it has read it",
            key.name,
            settings[key],
        )
    return _login(settings, key, parts)


def _login(settings: ListenerSettings, key: ConfigKey[str], parts: LoginParts) -> NodeLogin:
    mechanism = settings[key]
    check_supported(mechanism, settings.listener_name, key.name)
    handler = settings.of_mechanism(mechanism, token_keys.SASL_LOGIN_CALLBACK_HANDLER_CLASS)
    if handler and mechanism != oauthbearer.MECHANISM:
        raise ConfigError(
            f"{token_keys.SASL_LOGIN_CALLBACK_HANDLER_CLASS.name} is {handler}, which is for OAUTHBEARER, and {key.name} is"
            f" {mechanism}"
        )
    if mechanism == gssapi.MECHANISM:
        return NodeLogin(_kerberos(settings, parts.tokens.slow_work, parts.client_id))
    module = {
        plain.MECHANISM: jaas.PLAIN_LOGIN_MODULE,
        oauthbearer.MECHANISM: jaas.OAUTHBEARER_LOGIN_MODULE,
    }.get(mechanism, jaas.SCRAM_LOGIN_MODULE)
    login = login_of(mechanism, settings, module)
    property_name = f"listener.name.{settings.listener_name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    if login is None:
        raise ConfigError(
            f"{key.name} is {mechanism} and this node has no login of its own for it: set {property_name}"
        )
    if mechanism == oauthbearer.MECHANISM:
        new_exchange, close = _tokens(settings, login, property_name, parts.tokens)
    else:
        new_exchange, close = _passwords(mechanism, login, property_name, parts.tokens), lambda: None
    return NodeLogin(lambda _address: SaslLogin(mechanism, new_exchange(), client_id=parts.client_id), close)


def _tokens(
    settings: ListenerSettings, login: jaas.JaasEntry, property_name: str, parts: TokenParts
) -> tuple[Callable[[], ClientExchange], Callable[[], None]]:
    """What makes an exchange, and what ends it all."""
    options = login.options
    is_signed = bool(settings.of_mechanism(oauthbearer.MECHANISM, token_keys.SASL_LOGIN_CALLBACK_HANDLER_CLASS))
    prefix = _SIGNED_EXTENSION if is_signed else _EXTENSION
    extensions = {name[len(prefix) :]: text for name, text in options.items() if name.startswith(prefix)}
    problem = oauthbearer.extensions_problem(extensions)
    if problem is not None:
        raise ConfigError(f"{property_name}: {problem}")
    if is_signed:
        held = endpoint_token(settings, options, parts)
        return lambda: oauthbearer.OAuthBearerClient(lambda: text_of(held), extensions), held.close
    now_ms = parts.clock.now_ms
    try:
        unsecured_login(options, now_ms())
    except ValueError as error:
        raise ConfigError(
            f"{property_name}: {error} (for tokens of an endpoint set {_handler_name(settings)}={token_keys.LOGIN_CLASS})"
        ) from None
    return lambda: oauthbearer.OAuthBearerClient(lambda: unsecured_login(options, now_ms()), extensions), lambda: None


def _handler_name(settings: ListenerSettings) -> str:
    return f"listener.name.{settings.listener_name.lower()}.oauthbearer.sasl.login.callback.handler.class"


def _passwords(
    mechanism: str, login: jaas.JaasEntry, property_name: str, parts: TokenParts
) -> Callable[[], ClientExchange]:
    options = login.options
    username, password = options.get("username"), options.get("password")
    if username is None or password is None:
        raise ConfigError(f"{property_name} has no username and password: by them this node logs in to others")
    scram = ScramMechanism.named(mechanism)
    if scram is None:
        return lambda: plain.PlainClient(username, password)
    is_token = options.get(TOKEN_AUTH, "").lower() == "true"
    return lambda: ScramClient(scram, username, password, parts.random, parts.slow_work, is_token=is_token)


def _kerberos(
    settings: ListenerSettings, slow_work: SlowWork, client_id: str
) -> Callable[[Address], ClientAuthentication]:
    """By a ticket for the service on the host that is called."""
    try:
        new_context = initiator(kerberos_login_of(settings))
    except KerberosLoginError as error:
        raise ConfigError(f"this node cannot log in to others with GSSAPI: {error}") from None

    def login(address: Address) -> ClientAuthentication:
        exchange = gssapi.GssapiClient(lambda: new_context(address.host), slow_work)
        return SaslLogin(gssapi.MECHANISM, exchange, client_id=client_id)

    return login
