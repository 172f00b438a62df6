"""Debian's PostgreSQL and MariaDB as processes of a test: in a temporary folder, on a free port, to be killed and started again.

Both refuse to run as root; where a test does, they run as the user that their packages make.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pymysql

from tests.support.apache_kafka import free_ports
from tests.support.tls_files import new_authority

START_S = 60.0
PASSWORD = "s3cret/@:%word"
"""With everything in it that a URL would have to escape."""


class ServerProcess:
    """One server, with its data in a directory of its own."""

    def __init__(
        self, command: Callable[[Path, int], list[str]], user: str, directory: Path, connect: Callable[[int], Any]
    ) -> None:
        """`connect` is tried until the server lets it in."""
        self._command = command
        self._connect = connect
        self.directory = directory
        self.port = free_ports(1)[0]
        self._identity: dict[str, Any] = {}
        if os.getuid() == 0:
            account = pwd.getpwnam(user)
            os.chown(directory, account.pw_uid, account.pw_gid)
            self._identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._write_certificates()
        self._process: subprocess.Popen[bytes] | None = None
        # PostgreSQL waits for its clients otherwise.
        self._stops_by = signal.SIGINT if user == "postgres" else signal.SIGTERM
        self._log = directory / "server.log"

    def _write_certificates(self) -> None:
        """`ca.pem` is what a client trusts."""
        authority = new_authority()
        issued = authority.node_certificate(["127.0.0.1"])
        contents = {"ca.pem": authority.certificate_pem, "server.pem": issued.chain_pem, "server.key": issued.key_pem}
        for name, content in contents.items():
            path = self.directory / name
            path.write_bytes(content)
            path.chmod(0o600 if name == "server.key" else 0o644)
            if self._identity:
                os.chown(path, self._identity["user"], self._identity["group"])

    def run(self, command: list[str]) -> None:
        """A program of the server's, as its user."""
        subprocess.run(command, check=True, timeout=120, capture_output=True, cwd=self.directory, **self._identity)

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(self.directory, self.port), stdout=log, stderr=log, cwd=self.directory, **self._identity
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                self._connect(self.port).close()
            except (OSError, psycopg.OperationalError, pymysql.OperationalError):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._process.kill()
                    self._process.wait(timeout=30)
                    raise RuntimeError(self._log.read_text()[-3000:]) from None
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """As by a loss of power, but for what the kernel has."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=30)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self._stops_by)
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(timeout=30)
        shutil.rmtree(self.directory, ignore_errors=True)


def start_postgresql(more: Sequence[str] = ()) -> ServerProcess:
    """With the user `tidelog`, who is a superuser, and its password. `more` are settings, each as in wal_level=logical."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not programs:
        raise FileNotFoundError("PostgreSQL is not installed: apt-get install postgresql")
    program = programs[-1]
    directory = Path(tempfile.mkdtemp(prefix="tidelog-postgresql-"))

    def command(place: Path, port: int) -> list[str]:
        settings = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=50",
            "shared_buffers=32MB",
            "ssl=on",
            f"ssl_cert_file={place / 'server.pem'}",
            f"ssl_key_file={place / 'server.key'}",
            *more,
        ]
        return [
            str(program),
            "-D",
            str(place / "data"),
            "-p",
            str(port),
            *(word for each in settings for word in ("-c", each)),
        ]

    def connect(port: int) -> Any:
        return psycopg.connect(host="127.0.0.1", port=port, user="tidelog", password=PASSWORD, dbname="postgres")

    server = ServerProcess(command, "postgres", directory, connect)
    secret = directory / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    initdb = [str(program.with_name("initdb")), "-D", str(directory / "data"), "-U", "tidelog", "--no-sync"]
    server.run([*initdb, "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C"])
    server.start()
    return server


def start_mariadb() -> ServerProcess:
    """With the user `tidelog`, who may do everything, and its password."""
    program, install = shutil.which("mariadbd", path="/usr/sbin:/usr/bin"), shutil.which("mariadb-install-db")
    if program is None or install is None:
        raise FileNotFoundError("MariaDB is not installed: apt-get install mariadb-server")
    directory = Path(tempfile.mkdtemp(prefix="tidelog-mariadb-"))
    start = directory / "start.sql"
    start.write_text(
        f"CREATE USER IF NOT EXISTS 'tidelog'@'%' IDENTIFIED BY '{PASSWORD}';\n"
        "GRANT ALL ON *.* TO 'tidelog'@'%' WITH GRANT OPTION;\n"
    )
    start.chmod(0o644)

    def command(place: Path, port: int) -> list[str]:
        return [
            program,
            "--no-defaults",
            f"--datadir={place / 'data'}",
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--socket={place / 'socket'}",
            f"--pid-file={place / 'pid'}",
            f"--init-file={start}",
            "--innodb-buffer-pool-size=64M",
            f"--ssl-cert={place / 'server.pem'}",
            f"--ssl-key={place / 'server.key'}",
        ]

    def connect(port: int) -> Any:
        return pymysql.connect(host="127.0.0.1", port=port, user="tidelog", password=PASSWORD)

    server = ServerProcess(command, "mysql", directory, connect)
    # Without the users that have no name, who come before ours.
    server.run([install, "--no-defaults", f"--datadir={directory / 'data'}", "--skip-test-db"])
    server.start()
    return server
