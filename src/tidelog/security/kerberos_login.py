"""Credentials of Kerberos, by the options of Java's `Krb5LoginModule`, and contexts of GSSAPI made with them.

    useKeyTab=true keyTab="/etc/kafka.keytab" principal="kafka/broker.example@EXAMPLE.COM" serviceName="kafka"
    useTicketCache=true [ticketCache="/tmp/krb5cc_1000"] [principal="alice@EXAMPLE.COM"]

    new_context = acceptor(login)                  # for a server; one context for each attempt
    new_context = initiator(login)                 # for a client; new_context(host)

By the package `gssapi`, which is MIT's library: realms and where their KDCs are come from `krb5.conf` (`KRB5_CONFIG`). Tickets
that a keytab is good for are held in memory and fetched again by that library before they end, so that there is nothing to renew
here. The package is an extra, `tidelog[kerberos]`: it is loaded when the first login is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tidelog.security.sasl.gssapi import GssContext, GssError

_FILE = "FILE:"
# What the library says of a code that is not Kerberos' own.
_WORDLESS = frozenset({"Success", "Unknown error"})
# One login at a time: a cache of tickets is empty for a moment while it is filled, and others would be refused by it.
_filling = threading.Lock()


class KerberosLoginError(ValueError):
    """A login that cannot be, in one sentence."""


class KerberosLogin(NamedTuple):
    """Whom to log in as, and by what."""

    service_name: str
    principal: str | None
    """None for whoever the cache of tickets is of."""
    keytab: str | None
    """The file; None where tickets are in a cache already."""
    ticket_cache: str | None
    """Where they are; None for where the library looks."""

    @classmethod
    def of(cls, options: Mapping[str, str], service_name: str | None) -> KerberosLogin:
        """By the options of the login module, and `sasl.kerberos.service.name` if that is set."""
        own = options.get("serviceName")
        if own is not None and service_name is not None and own != service_name:
            raise KerberosLoginError(
                "Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file"
                f" {own}, value in Kafka config {service_name}"
            )
        name = own or service_name
        if not name:
            raise KerberosLoginError(
                "No serviceName defined in either JAAS or Kafka config: set sasl.kerberos.service.name"
            )
        uses_keytab, uses_cache = _is_true(options, "useKeyTab"), _is_true(options, "useTicketCache")
        principal = options.get("principal") or None
        if uses_keytab and uses_cache:
            raise KerberosLoginError("useKeyTab and useTicketCache are both true: one of them is to say it")
        if uses_keytab:
            keytab = _path(options.get("keyTab"))
            if keytab is None or principal is None:
                raise KerberosLoginError("useKeyTab=true needs keyTab, a file, and principal, whose key is in it")
            return cls(name, principal, keytab, None)
        if uses_cache:
            return cls(name, principal, None, _path(options.get("ticketCache")))
        raise KerberosLoginError(
            "nobody is asked for a password here: set useKeyTab=true with keyTab and principal, or useTicketCache=true"
        )


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _path(text: str | None) -> str | None:
    if not text:
        return None
    return text[len(_FILE) :] if text.upper().startswith(_FILE) else text


def acceptor(login: KerberosLogin) -> Callable[[], GssContext]:
    """Contexts of a service. Reads the keytab: KerberosLoginError where the key of the service is not in it."""
    library = _library()
    if login.keytab is None:
        raise KerberosLoginError("a service goes by a keytab: set useKeyTab=true with keyTab and principal")
    credentials = _keytab_credentials(library, login)
    return lambda: _Context(library, library.SecurityContext(creds=credentials, usage="accept"))


def initiator(login: KerberosLogin) -> Callable[[str], GssContext]:
    """Contexts for the service on a host, to be made beside the loop. Reads the keytab, if that is what it goes by."""
    library = _library()
    store: dict[str, str] = {}
    if login.keytab is not None:
        _keytab_credentials(library, login)
        # Shared by all logins that are the same, and gone with the process.
        store = {"client_keytab": _FILE + login.keytab, "ccache": f"MEMORY:tidelog {login.principal} {login.keytab}"}
    elif login.ticket_cache is not None:
        store = {"ccache": _FILE + login.ticket_cache}

    def new_context(host: str) -> GssContext:
        krb5 = library.MechType.kerberos
        flags = library.RequirementFlag
        try:
            with _filling:
                credentials = library.Credentials(
                    name=_principal(library, login), usage="initiate", mechs=[krb5], store=store or None
                )
                # Asking for it makes the library log in, unless there is a ticket that is good.
                _ = credentials.lifetime
            service = library.Name(f"{login.service_name}@{host}", library.NameType.hostbased_service)
            context = library.SecurityContext(
                name=service,
                creds=credentials,
                usage="initiate",
                mech=krb5,
                # Integrity seals what is offered and chosen. By its seal a server proves itself: no answer of its own is needed.
                flags=flags.integrity | flags.confidentiality,
            )
        except library.exceptions.GSSError as error:
            raise GssError(_sentence(error)) from None
        return _Context(library, context)

    return new_context


def default_realm() -> str:
    """The realm of `krb5.conf`; empty where there is none, as in Kafka."""
    library = _library()
    try:
        name = library.Name("x", library.NameType.kerberos_principal).canonicalize(library.MechType.kerberos)
    except library.exceptions.GSSError:
        return ""
    return str(name).partition("@")[2]


class _Context:
    """A context of the library, whose errors are sentences."""

    def __init__(self, library: Any, context: Any) -> None:
        self._library = library
        self._context = context

    @property
    def is_established(self) -> bool:
        return bool(self._context.complete)

    @property
    def peer_name(self) -> str:
        try:
            return str(self._context.initiator_name)
        except UnicodeDecodeError:
            raise GssError("the name of the principal is not UTF-8") from None

    def step(self, token: bytes) -> bytes:
        return self._told(lambda: self._context.step(token) or b"")

    def wrap(self, message: bytes) -> bytes:
        return self._told(lambda: self._context.wrap(message, encrypt=False).message)

    def unwrap(self, token: bytes) -> bytes:
        return self._told(lambda: self._context.unwrap(token).message)

    def _told(self, act: Callable[[], bytes]) -> bytes:
        try:
            return act()
        except self._library.exceptions.GSSError as error:
            raise GssError(_sentence(error)) from None


def _library() -> Any:
    try:
        import gssapi  # noqa: PLC0415 - an extra, which only Kerberos needs
    except ImportError as error:
        raise KerberosLoginError(
            f"GSSAPI needs the package gssapi, which cannot be loaded here ({error}): pip install 'tidelog[kerberos]'"
        ) from None
    return gssapi


def _principal(library: Any, login: KerberosLogin) -> Any:
    return None if login.principal is None else library.Name(login.principal, library.NameType.kerberos_principal)


def _keytab_credentials(library: Any, login: KerberosLogin) -> Any:
    """What is in the keytab, as a service has it; for a client it only shows that its key is there."""
    try:
        return library.Credentials(
            name=_principal(library, login),
            usage="accept",
            mechs=[library.MechType.kerberos],
            store={"keytab": f"{_FILE}{login.keytab}"},
        )
    except library.exceptions.GSSError as error:
        raise KerberosLoginError(
            f"the keytab {login.keytab} is of no use for {login.principal}: {_sentence(error)}"
        ) from None


def _sentence(error: Any) -> str:
    """What Kerberos says; where that is nothing, what GSSAPI says."""
    said = [each for each in error.get_all_statuses(error.min_code, False) if each not in _WORDLESS]
    return "; ".join(said or error.get_all_statuses(error.maj_code, True))
