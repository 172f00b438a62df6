"""A realm of Kerberos on this machine: Debian's KDC with a database of its own, and keytabs of whoever is in it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.apache_kafka import free_ports, require

REALM = "TIDELOG.EXAMPLE"
# Far beyond anything that passes; a test that gets here has failed.
DEADLINE_S = 30.0
LOGIN_MODULE = "com.sun.security.auth.module.Krb5LoginModule"


class Kdc:
    """Who is in the realm. The KDC answers while `kdc` is entered."""

    def __init__(self, root: Path, port: int) -> None:
        self._root = root
        self._port = port
        self.krb5_conf = root / "krb5.conf"
        # Names are taken as they are: a test shall not depend on what this machine's resolver makes of them.
        self.krb5_conf.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        )
        (root / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {root}/principal\n  key_stash_file = {root}/stash\n"
            f"  acl_file = {root}/acl\n }}\n"
        )

    @property
    def variables(self) -> dict[str, str]:
        """What a process of this realm has in its environment, Java's too. Its own caches are in the same place."""
        return {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self._root / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self._root}/ccache",
            "KRB5RCACHEDIR": str(self._root),
            "JDK_JAVA_OPTIONS": f"-Djava.security.krb5.conf={self.krb5_conf}",
        }

    def keytab(self, principal: str, *, max_life: str | None = None) -> Path:
        """Adds somebody to the realm, with a random key that is in the file and nowhere else."""
        path = self._root / f"{principal.replace('/', '_')}.keytab"
        life = f"-maxlife {max_life} " if max_life else ""
        self._admin(f"addprinc -randkey {life}{principal}")
        self._admin(f"ktadd -k {path} {principal}")
        return path

    def new_key(self, principal: str) -> None:
        """From now on its keytab is of no use."""
        self._admin(f"change_password -randkey {principal}")

    def new_keytab(self, principal: str, keytab: Path) -> None:
        """From now on the key in the file is another one, and the only one."""
        keytab.unlink()
        self._admin(f"ktadd -k {keytab} {principal}")

    def remove(self, principal: str) -> None:
        self._admin(f"delete_principal -force {principal}")

    def tickets(self, principal: str, keytab: Path, *options: str) -> Path:
        """A cache with a ticket of somebody, as `kinit` leaves it."""
        path = self._root / f"{principal.replace('/', '_')}.ccache"
        self._run(require("kinit", "krb5-user"), "-k", "-t", str(keytab), "-c", str(path), *options, principal)
        return path

    def create(self) -> None:
        self._run(require("kdb5_util", "krb5-kdc"), "create", "-s", "-W", "-P", "of the tests", "-r", REALM)

    def _admin(self, query: str) -> None:
        self._run(require("kadmin.local", "krb5-admin-server"), "-r", REALM, "-q", query)

    def _run(self, *command: str) -> None:
        subprocess.run(
            command, env=os.environ | self.variables, check=True, capture_output=True, text=True, timeout=DEADLINE_S
        )


@contextmanager
def kdc(root: Path) -> Iterator[Kdc]:
    (port,) = free_ports(1)
    realm = Kdc(root, port)
    realm.create()
    pid_file = root / "krb5kdc.pid"
    with (root / "krb5kdc.log").open("wb") as log:
        process = subprocess.Popen(
            [require("krb5kdc", "krb5-kdc"), "-n", "-r", REALM, "-P", str(pid_file)],
            env=os.environ | realm.variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + DEADLINE_S
        # It writes the file once it listens.
        while not pid_file.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"krb5kdc does not run: {(root / 'krb5kdc.log').read_text()[-2000:]}")
            time.sleep(0.02)
        yield realm
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def keytab_login(keytab: Path, principal: str, **options: str) -> str:
    """A text for `sasl.jaas.config`."""
    return login(useKeyTab="true", storeKey="true", keyTab=str(keytab), principal=f"{principal}@{REALM}", **options)


def login(**options: str) -> str:
    said = " ".join(f'{name}="{value}"' for name, value in options.items())
    return f"{LOGIN_MODULE} required {said};"
