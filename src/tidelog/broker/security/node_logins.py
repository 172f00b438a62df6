"""How a node says who it is to others: the login of the listener that it calls, by the mechanism between nodes.

`username` and `password` of that listener's `sasl.jaas.config` are what it says of itself, or with GSSAPI the principal of its
keytab. Every ConfigError is one sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.broker.security.sasl_mechanisms import check_supported, kerberos_login_of, login_of
from tidelog.model import sasl_config as keys
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
from tidelog.security.sasl.scram import TOKEN_AUTH, RandomBits, ScramClient
from tidelog.security.sasl.scram_credential import ScramMechanism
from tidelog.security.sasl.unsecured_jws import unsecured_login

log = logging.getLogger(__name__)

_EXTENSION = "unsecuredLoginExtension_"


def broker_login(
    settings: ListenerSettings, slow_work: SlowWork, random: RandomBits, now_ms: Callable[[], int], client_id: str
) -> Callable[[Address], ClientAuthentication]:
    """The logins to other brokers, on the listener between them."""
    key = keys.SASL_MECHANISM_INTER_BROKER_PROTOCOL
    return _login(settings, key, slow_work, random, now_ms, client_id)


def controller_login(
    settings: ListenerSettings, slow_work: SlowWork, random: RandomBits, now_ms: Callable[[], int], client_id: str
) -> Callable[[Address], ClientAuthentication]:
    """The logins to controllers."""
    key = keys.SASL_MECHANISM_CONTROLLER_PROTOCOL
    if ScramMechanism.named(settings[key]) is not None:
        log.warning(
            "%s is %s, whose credentials are in the log that a controller must log in to read: a controller that starts"
            " cannot let others in before it has read it",
            key.name,
            settings[key],
        )
    return _login(settings, key, slow_work, random, now_ms, client_id)


def _login(
    settings: ListenerSettings,
    key: ConfigKey[str],
    slow_work: SlowWork,
    random: RandomBits,
    now_ms: Callable[[], int],
    client_id: str,
) -> Callable[[Address], ClientAuthentication]:
    mechanism = settings[key]
    check_supported(mechanism, settings.listener_name, key.name)
    if mechanism == gssapi.MECHANISM:
        return _kerberos(settings, slow_work, client_id)
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
    new_exchange = _exchanges(mechanism, login, property_name, slow_work, random, now_ms)
    return lambda _address: SaslLogin(mechanism, new_exchange(), client_id=client_id)


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


def _exchanges(
    mechanism: str,
    login: jaas.JaasEntry,
    property_name: str,
    slow_work: SlowWork,
    random: RandomBits,
    now_ms: Callable[[], int],
) -> Callable[[], ClientExchange]:
    options = login.options
    if mechanism == oauthbearer.MECHANISM:
        extensions = {name[len(_EXTENSION) :]: text for name, text in options.items() if name.startswith(_EXTENSION)}
        problem = oauthbearer.extensions_problem(extensions)
        try:
            unsecured_login(options, now_ms())
        except ValueError as error:
            problem = str(error)
        if problem is not None:
            raise ConfigError(f"{property_name}: {problem}")
        return lambda: oauthbearer.OAuthBearerClient(lambda: unsecured_login(options, now_ms()), extensions)
    username, password = options.get("username"), options.get("password")
    if username is None or password is None:
        raise ConfigError(f"{property_name} has no username and password: by them this node logs in to others")
    scram = ScramMechanism.named(mechanism)
    if scram is None:
        return lambda: plain.PlainClient(username, password)
    is_token = options.get(TOKEN_AUTH, "").lower() == "true"
    return lambda: ScramClient(scram, username, password, random, slow_work, is_token=is_token)
