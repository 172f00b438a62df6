"""The mechanisms of one listener, as its configuration has them. Every ConfigError is one sentence with what to do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from tidelog.model import sasl_config as keys
from tidelog.model.config import ConfigError, ConfigKey, ConfigValues
from tidelog.model.java_hash import hash_set_order
from tidelog.model.pending import Pending
from tidelog.model.principal import Principal
from tidelog.model.slow_work import SlowWork
from tidelog.security import jaas
from tidelog.security.kerberos_login import KerberosLogin, KerberosLoginError, acceptor, default_realm
from tidelog.security.kerberos_names import KerberosNameError, ShortNames
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.sasl import gssapi, oauthbearer, plain
from tidelog.security.sasl.exchange import ServerExchange
from tidelog.security.sasl.jwks import JwksKeys, fetch_key_set
from tidelog.security.sasl.jwt_validator import JwtRules, jwt_validator
from tidelog.security.sasl.scram import RandomBits, ScramServer, TokenCredential
from tidelog.security.sasl.scram_credential import ScramCredential, ScramMechanism
from tidelog.security.sasl.unsecured_jws import UnsecuredOptions, unsecured_validator

log = logging.getLogger(__name__)

T = TypeVar("T")

SUPPORTED = (
    plain.MECHANISM,
    *(each.mechanism_name for each in ScramMechanism),
    oauthbearer.MECHANISM,
    gssapi.MECHANISM,
)
_SCHEMES = frozenset({"http", "https", "file"})


class TokenLogins(Protocol):
    """What logins with delegation tokens are checked against."""

    def prepare(self, mechanism: str, token_id: str, slow_work: SlowWork) -> Pending[None]:
        """Derive it beside the loop, if it is not known yet."""
        ...

    def credential(self, mechanism: str, token_id: str) -> tuple[ScramCredential, Principal, int] | None: ...


class Mechanism(NamedTuple):
    """One mechanism of a listener."""

    name: str
    new_exchange: Callable[[], ServerExchange]
    reauth_ms_max: int
    """For how long a client stays who it is; 0 for as long as its credential is good."""


class MechanismParts(NamedTuple):
    """What the mechanisms of a node share."""

    credentials: Callable[[], Mapping[tuple[str, int], ScramCredential]]
    """Of SCRAM, by user and mechanism, as they are at the moment of asking."""
    tokens: TokenLogins | None
    slow_work: SlowWork
    random: RandomBits
    now_ms: Callable[[], int]


def mechanisms_of(settings: ListenerSettings, parts: MechanismParts) -> dict[str, Mechanism]:
    """The mechanisms that a listener takes, in the order in which Kafka lists them."""
    enabled = settings[keys.SASL_ENABLED_MECHANISMS]
    if not enabled:
        raise ConfigError(
            f"listener {settings.listener_name} uses SASL, and sasl.enabled.mechanisms is empty: name one"
        )
    return {name: _mechanism(name, settings, parts) for name in hash_set_order(enabled)}


class CurrentSasl(Generic[T]):
    """What is made of a listener's settings, and made again when they change at run time. A bad change is told and not taken."""

    def __init__(
        self,
        listener_name: str,
        config: ConfigValues,
        now: Callable[[], ConfigValues],
        make: Callable[[ListenerSettings], T],
        drop: Callable[[T], None] | None = None,
    ) -> None:
        """`config` is what the node is started with, `now` what that comes to later. ConfigError where it cannot start so.

        `drop` hears of what has another in its place.
        """
        self._listener_name = listener_name
        self._now = now
        self._make = make
        self._drop = drop
        self._seen = config
        self._held = make(ListenerSettings(config.given, listener_name))

    def __call__(self) -> T:
        config = self._now()
        if config is not self._seen:
            before, self._seen = self._seen, config
            if _of_sasl(before) != _of_sasl(config):
                try:
                    made = self._make(ListenerSettings(config.given, self._listener_name))
                    if self._drop is not None:
                        self._drop(self._held)
                    self._held = made
                except ConfigError as error:
                    log.error("listener %s goes on with the SASL settings that it has: %s", self._listener_name, error)  # noqa: TRY400
        return self._held


def _of_sasl(config: ConfigValues) -> dict[str, object]:
    return {name: value for name, value in config.given.items() if "sasl." in name or name.endswith("reauth.ms")}


def _mechanism(name: str, settings: ListenerSettings, parts: MechanismParts) -> Mechanism:
    check_supported(name, settings.listener_name, keys.SASL_ENABLED_MECHANISMS.name)
    reauth_ms_max = max(0, settings.of_mechanism(name, keys.CONNECTIONS_MAX_REAUTH_MS))
    handler = settings.of_mechanism(name, keys.SASL_SERVER_CALLBACK_HANDLER_CLASS)
    if handler is not None and not (name == oauthbearer.MECHANISM and handler == keys.VALIDATOR_CLASS):
        raise ConfigError(
            f"sasl.server.callback.handler.class is {handler}, a Java class, which does not run here; only"
            f" {keys.VALIDATOR_CLASS} is known, for OAUTHBEARER"
        )
    if name == plain.MECHANISM:
        login = login_of(name, settings, jaas.PLAIN_LOGIN_MODULE)
        if login is None:
            raise ConfigError(_no_login(name, settings, "it names the users"))
        return Mechanism(name, partial(plain.PlainServer, plain.password_check(login)), reauth_ms_max)
    scram = ScramMechanism.named(name)
    if scram is not None:
        login_of(name, settings, jaas.SCRAM_LOGIN_MODULE)
        return Mechanism(name, _scram(scram, parts), reauth_ms_max)
    if name == gssapi.MECHANISM:
        return Mechanism(name, _gssapi(settings, parts), reauth_ms_max)
    validate = _validator(settings, parts, is_secured=handler is not None)
    return Mechanism(name, partial(oauthbearer.OAuthBearerServer, validate), reauth_ms_max)


def check_supported(mechanism: str, listener_name: str, key: str) -> None:
    """ConfigError for a mechanism that is not there."""
    if mechanism not in SUPPORTED:
        raise ConfigError(
            f"listener {listener_name} would use the mechanism {mechanism}, which is not supported: set {key} to one of"
            f" {', '.join(SUPPORTED)}"
        )


def login_of(mechanism: str, settings: ListenerSettings, module: str) -> jaas.JaasEntry | None:
    """The login of a mechanism on a listener; None where there is none. ConfigError for text that is no such login."""
    text = settings.only_of_mechanism(mechanism, keys.SASL_JAAS_CONFIG)
    if text is None:
        if settings[keys.SASL_JAAS_CONFIG] is not None:
            log.warning(
                "sasl.jaas.config without the name of a mechanism is ignored: set %s", _login_key(mechanism, settings)
            )
        return None
    try:
        login = jaas.jaas_entry(text)
    except jaas.JaasError as error:
        raise ConfigError(f"{_login_key(mechanism, settings)} is no login: {error}") from None
    if login.login_module != module:
        raise ConfigError(
            f"{_login_key(mechanism, settings)} has the login module {login.login_module}: that of {mechanism} is {module}"
        )
    return login


def _login_key(mechanism: str, settings: ListenerSettings) -> str:
    return f"listener.name.{settings.listener_name.lower()}.{mechanism.lower()}.sasl.jaas.config"


def _no_login(mechanism: str, settings: ListenerSettings, why: str) -> str:
    return (
        f"listener {settings.listener_name} has no login for {mechanism}: set {_login_key(mechanism, settings)}, {why}"
    )


def _scram(mechanism: ScramMechanism, parts: MechanismParts) -> Callable[[], ServerExchange]:
    name = mechanism.mechanism_name

    def credential(username: str) -> ScramCredential | None:
        return parts.credentials().get((username, mechanism.value))

    def token(token_id: str) -> TokenCredential | Pending[TokenCredential | None] | None:
        tokens = parts.tokens
        if tokens is None:
            return None
        prepared = tokens.prepare(name, token_id, parts.slow_work)
        if prepared.is_complete:
            return tokens.credential(name, token_id)
        found: Pending[TokenCredential | None] = Pending()
        prepared.then(lambda _: found.complete(tokens.credential(name, token_id)))
        return found

    return lambda: ScramServer(mechanism, credential, token, parts.random)


def kerberos_login_of(settings: ListenerSettings) -> KerberosLogin:
    """The login of a listener with GSSAPI, whichever side of it this node is. ConfigError where it has none."""
    name = gssapi.MECHANISM
    login = login_of(name, settings, jaas.KERBEROS_LOGIN_MODULE)
    if login is None:
        raise ConfigError(_no_login(name, settings, "it names a keytab and the principal in it"))
    try:
        return KerberosLogin.of(login.options, settings[keys.SASL_KERBEROS_SERVICE_NAME])
    except KerberosLoginError as error:
        raise ConfigError(f"{_login_key(name, settings)}: {error}") from None


def _gssapi(settings: ListenerSettings, parts: MechanismParts) -> Callable[[], ServerExchange]:
    login = kerberos_login_of(settings)
    rules = settings[keys.SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES]
    try:
        new_context = acceptor(login)
        names = ShortNames.parse(default_realm(), rules)
    except KerberosLoginError as error:
        raise ConfigError(f"listener {settings.listener_name} cannot use GSSAPI: {error}") from None
    except KerberosNameError as error:
        raise ConfigError(f"{keys.SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES.name}: {error}") from None
    return lambda: gssapi.GssapiServer(new_context, names, parts.slow_work)


def _validator(settings: ListenerSettings, parts: MechanismParts, *, is_secured: bool) -> oauthbearer.Validator:
    name = oauthbearer.MECHANISM
    login = login_of(name, settings, jaas.OAUTHBEARER_LOGIN_MODULE)
    if not is_secured:
        log.warning(
            "listener %s takes tokens without a signature, which anybody can write: for anything but a test set"
            " listener.name.%s.oauthbearer.sasl.server.callback.handler.class=%s",
            settings.listener_name,
            settings.listener_name.lower(),
            keys.VALIDATOR_CLASS,
        )
        try:
            options = UnsecuredOptions.of({} if login is None else login.options)
        except ValueError as error:
            raise ConfigError(f"{_login_key(name, settings)}: {error}") from None
        return unsecured_validator(options, parts.now_ms)
    url = allowed_url(
        settings,
        keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL,
        f"the tokens of listener {settings.listener_name} are to be checked",
        "where the keys of who issues them are",
    )
    rules = JwtRules(
        settings.of_mechanism(name, keys.SASL_OAUTHBEARER_EXPECTED_AUDIENCE),
        settings.of_mechanism(name, keys.SASL_OAUTHBEARER_EXPECTED_ISSUER),
        settings.of_mechanism(name, keys.SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS),
        settings.of_mechanism(name, keys.SASL_OAUTHBEARER_SUB_CLAIM_NAME),
        settings.of_mechanism(name, keys.SASL_OAUTHBEARER_SCOPE_CLAIM_NAME),
    )
    _warn_of_little_checks(rules)
    held = JwksKeys(
        partial(fetch_key_set, url),
        parts.slow_work,
        parts.now_ms,
        refresh_ms=settings.of_mechanism(name, keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS),
        retry_backoff_ms=settings.of_mechanism(name, keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS),
        retry_backoff_max_ms=settings.of_mechanism(name, keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS),
    )
    return jwt_validator(rules, held.find, parts.now_ms)


def allowed_url(settings: ListenerSettings, url_key: ConfigKey[str | None], purpose: str, what: str) -> str:
    """Where something of OAUTHBEARER is read. ConfigError unless it was said that it may be read there, which no dynamic setting
    can. `purpose` and `what` are for the sentence where it is not set."""
    url, key = settings.of_mechanism(oauthbearer.MECHANISM, url_key), url_key.name
    if not url:
        raise ConfigError(f"{purpose}, and {key} is not set: set it to {what}")
    parts = urlsplit(url)
    if parts.scheme.lower() not in _SCHEMES:
        raise ConfigError(f"{key} is {url}: expected a URL of http, https or file")
    is_file = parts.scheme.lower() == "file"
    if url in settings[keys.OAUTHBEARER_ALLOWED_URLS]:
        return url
    if is_file and unquote(parts.path) in settings[keys.OAUTHBEARER_ALLOWED_FILES]:
        return url
    or_file = f", or {keys.OAUTHBEARER_ALLOWED_FILES.name}={unquote(parts.path)}" if is_file else ""
    raise ConfigError(f"{key} is not allowed: set {keys.OAUTHBEARER_ALLOWED_URLS.name}={url}{or_file}")


def _warn_of_little_checks(rules: JwtRules) -> None:
    for missing, key, what in (
        (not rules.audiences, keys.SASL_OAUTHBEARER_EXPECTED_AUDIENCE, "without an audience"),
        (rules.issuer is None, keys.SASL_OAUTHBEARER_EXPECTED_ISSUER, "of any issuer"),
    ):
        if missing:
            log.warning("tokens %s are taken, because %s is not set", what, key.name)
