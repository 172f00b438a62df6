"""What the options of TLS and SASL come to: how connections of a client are made safe.

    security = client_security(seams, options)        # None for PLAINTEXT
    NodeConnection(..., security=security.connection)

Stores are read here, when a client is made: a file that is not there is a ConfigError at once, not a failure to connect later.
What only TLS or one mechanism needs is imported for it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.client.errors import ConfigError
from tidelog.client.kafka_properties import in_python_names
from tidelog.client.options import ClientOptions
from tidelog.client.seams import ClientSeams
from tidelog.client.security_options import GSSAPI, OAUTHBEARER, SecurityOptions

if TYPE_CHECKING:
    import ssl

    from tidelog.client.token_login import TokenLogin
    from tidelog.net.address import Address
    from tidelog.net.connection_security import ClientAuthentication, ConnectionSecurity
    from tidelog.net.tls import ClientTls
    from tidelog.security.sasl.exchange import ClientExchange

# ruff: noqa: PLC0415 - a plain client, and a plain node with one, must not load any of it

_JKS_START = b"\xfe\xed\xfe\xed"
_DER_START = b"\x30"


class ClientSecurity(NamedTuple):
    """For all connections of one client."""

    connection: ConnectionSecurity
    login: TokenLogin | None
    """Where the token comes from that a connection needs, with OAUTHBEARER."""


def client_security(seams: ClientSeams, options: ClientOptions) -> ClientSecurity | None:
    """None where connections are plain. ConfigError for stores and logins that cannot be."""
    if not options.uses_tls and not options.uses_sasl:
        return None
    from tidelog.net.connection_security import ConnectionSecurity

    tls = _tls(options) if options.uses_tls else None
    if not options.uses_sasl:
        return ClientSecurity(ConnectionSecurity(tls), None)
    login: TokenLogin | None = None
    exchange: Callable[[Address], ClientExchange]
    if options.sasl_mechanism == OAUTHBEARER:
        from tidelog.client.token_source import token_login

        login, with_token = token_login(seams, options, _jaas_options(options), lambda: tls_context(options))
        exchange = _anywhere(with_token)
    elif options.sasl_mechanism == GSSAPI:
        exchange = _with_ticket(seams, options)
    else:
        exchange = _anywhere(_with_password(seams, options))
    return ClientSecurity(ConnectionSecurity(tls, _authentication(options, exchange)), login)


def _authentication(
    options: ClientOptions, exchange: Callable[[Address], ClientExchange]
) -> Callable[[Address], ClientAuthentication]:
    from tidelog.security.sasl.client_login import SaslLogin

    mechanism, client_id = options.sasl_mechanism or "", options.client_id
    return lambda address: SaslLogin(mechanism, exchange(address), client_id=client_id)


def _anywhere(exchange: Callable[[], ClientExchange]) -> Callable[[Address], ClientExchange]:
    """What is said to every node alike."""
    return lambda _address: exchange()


# TLS.


def _tls(options: SecurityOptions) -> ClientTls:
    from tidelog.net.tls import ClientTls

    return ClientTls(tls_context(options))


def tls_context(options: SecurityOptions) -> ssl.SSLContext:
    """The context for connections out. Reads the stores."""
    from tidelog.model.config import ConfigError as WrongConfigError
    from tidelog.security.listener_settings import ListenerSettings
    from tidelog.security.tls_contexts import client_context
    from tidelog.security.tls_settings import TlsSettings
    from tidelog.security.tls_stores import load_stores

    try:
        settings = TlsSettings.of(ListenerSettings(_tls_settings(options), ""))
        return client_context(settings, load_stores(settings))
    except WrongConfigError as error:
        raise ConfigError(in_python_names(str(error))) from error


def _tls_settings(options: SecurityOptions) -> dict[str, object]:
    """Under Kafka's names, as a listener has them."""
    enabled = tuple(each for each in options.ssl_enabled_protocols if each <= options.ssl_protocol)
    trust_type = options.ssl_truststore_type or _store_type(options.ssl_truststore_location)
    key_type = options.ssl_keystore_type or _store_type(options.ssl_keystore_location)
    settings = {
        "ssl.protocol": options.ssl_protocol,
        "ssl.enabled.protocols": enabled,
        "ssl.cipher.suites": options.ssl_cipher_suites,
        "ssl.endpoint.identification.algorithm": options.ssl_endpoint_identification_algorithm,
        "ssl.truststore.type": trust_type,
        "ssl.truststore.location": options.ssl_truststore_location,
        "ssl.truststore.password": options.ssl_truststore_password,
        "ssl.truststore.certificates": options.ssl_truststore_certificates,
        "ssl.keystore.type": key_type,
        "ssl.keystore.location": options.ssl_keystore_location,
        "ssl.keystore.password": options.ssl_keystore_password,
        "ssl.key.password": options.ssl_key_password,
        "ssl.keystore.key": options.ssl_keystore_key,
        "ssl.keystore.certificate.chain": options.ssl_keystore_certificate_chain,
    }
    return {name: value for name, value in settings.items() if value is not None}


def _store_type(location: str | None) -> str:
    """What a store is by its first bytes; PEM where it is text, or given as text, or not there, which whoever reads it says."""
    if location is None:
        return "PEM"
    try:
        with Path(location).open("rb") as file:
            start = file.read(len(_JKS_START))
    except OSError:
        return "PEM"
    if start == _JKS_START:
        return "JKS"
    return "PKCS12" if start.startswith(_DER_START) else "PEM"


# SASL.


def _with_password(seams: ClientSeams, options: ClientOptions) -> Callable[[], ClientExchange]:
    """A new exchange for each connection, with PLAIN or SCRAM."""
    jaas = _jaas_options(options)
    username = jaas.get("username") if options.sasl_username is None else options.sasl_username
    password = jaas.get("password") if options.sasl_password is None else options.sasl_password
    if username is None or password is None:
        missing = "username" if username is None else "password"
        raise ConfigError(f"sasl_jaas_config has no {missing}")
    if options.sasl_mechanism == "PLAIN":
        from tidelog.security.sasl.plain import PlainClient

        return lambda: PlainClient(username, password)
    from tidelog.client.token_login import LoginThread
    from tidelog.security.sasl.scram import ScramClient
    from tidelog.security.sasl.scram_credential import ScramMechanism

    mechanism = next(each for each in ScramMechanism if each.mechanism_name == options.sasl_mechanism)
    slow_work = seams.slow_work or LoginThread(seams.loop)
    is_token = jaas.get("tokenauth", "").lower() == "true"
    return lambda: ScramClient(mechanism, username, password, seams.random, slow_work, is_token=is_token)


def _with_ticket(seams: ClientSeams, options: ClientOptions) -> Callable[[Address], ClientExchange]:
    """A new exchange for each connection, by a ticket for the service on its host. Without a login: from the user's own cache."""
    from tidelog.client.token_login import LoginThread
    from tidelog.security.kerberos_login import KerberosLogin, KerberosLoginError, initiator
    from tidelog.security.sasl.gssapi import GssapiClient

    jaas = _jaas_options(options) if options.sasl_jaas_config is not None else {"useTicketCache": "true"}
    try:
        new_context = initiator(KerberosLogin.of(jaas, options.sasl_kerberos_service_name))
    except KerberosLoginError as error:
        raise ConfigError(in_python_names(str(error))) from None
    slow_work = seams.slow_work or LoginThread(seams.loop)
    return lambda address: GssapiClient(lambda: new_context(address.host), slow_work)


def _jaas_options(options: ClientOptions) -> Mapping[str, str]:
    """What `sasl_jaas_config` says to the mechanism's login module; nothing where it is not given."""
    if options.sasl_jaas_config is None:
        return {}
    from tidelog.security import jaas

    try:
        entry = jaas.jaas_entry(options.sasl_jaas_config)
    except jaas.JaasError as error:
        raise ConfigError(f"sasl_jaas_config cannot be read: {error}") from None
    modules = {
        "PLAIN": jaas.PLAIN_LOGIN_MODULE,
        OAUTHBEARER: jaas.OAUTHBEARER_LOGIN_MODULE,
        GSSAPI: jaas.KERBEROS_LOGIN_MODULE,
    }
    expected = modules.get(options.sasl_mechanism or "", jaas.SCRAM_LOGIN_MODULE)
    if entry.login_module != expected:
        raise ConfigError(
            f"sasl_jaas_config names {entry.login_module}, and {options.sasl_mechanism} goes by {expected}"
        )
    return entry.options
