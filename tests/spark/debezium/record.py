"""Makes the recordings of this directory anew: Debezium's own embedded engine against Debian's PostgreSQL.

    python -m tests.spark.debezium.record

Needs Java, Maven and PostgreSQL. `Record.java` writes what connectors emit, in several forms; what tables hold in the end is
dumped as `truth.json`, every value as PostgreSQL writes it. Keys and values are the same in every run; positions, transaction
ids and the time of recording are not.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from tests.support.database_outputs.servers import PASSWORD, ServerProcess, start_postgresql

PLACE = Path(__file__).resolve().parent
BIG = 2500
"""Characters that do not fit into a row's own page, once they may not be compressed."""

TABLES = ("kinds", "orders", "orders_full", "customers", "sites", "loose", "cleared", "moved", "finish")

EXTERNAL = ("notes", "body", "tags", "numbers", "more")
"""Columns whose values are kept outside of their rows, and not compressed."""

COLUMNS = """
SELECT column_name::text FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position
"""
COMMON = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    "offset.flush.interval.ms": "1000",
    "publication.autocreate.mode": "filtered",
    "signal.data.collection": "public.signals",
    "provide.transaction.metadata": "true",
    "heartbeat.interval.ms": "300",
    "skipped.operations": "none",
    "tombstones.on.delete": "true",
}
ENGINES = {
    "precise": {"forms": "plain,schemas,avro,flat,flat-schemas,flat-tombstones"},
    "text": {
        "forms": "plain,schemas,avro",
        "decimal.handling.mode": "string",
        "time.precision.mode": "connect",
        "interval.handling.mode": "string",
    },
    # All tables in one topic.
    "double": {
        "forms": "plain",
        "decimal.handling.mode": "double",
        "time.precision.mode": "adaptive_time_microseconds",
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": r"double\\.public\\..*",
        "transforms.route.replacement": "double.all",
    },
}


def record() -> None:
    with tempfile.TemporaryDirectory(prefix="tidelog-debezium-") as name:
        work = Path(name)
        server = start_postgresql(("wal_level=logical", "max_replication_slots=8", "max_wal_senders=8", "timezone=UTC"))
        try:
            _record(server, work)
        finally:
            server.stop()
        for old in (*PLACE.glob("*.jsonl.gz"), *PLACE.glob("*.avsc.gz")):
            old.unlink()
        for each in (*work.glob("*.jsonl"), *work.glob("*.avsc")):
            with gzip.GzipFile(PLACE / f"{each.name}.gz", "wb", mtime=0) as packed:
                packed.write(each.read_bytes())


def _record(server: ServerProcess, work: Path) -> None:
    address: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": server.port,
        "user": "tidelog",
        "password": PASSWORD,
        "dbname": "postgres",
    }
    with psycopg.connect(**address, autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop")
    shop = {**address, "dbname": "shop"}
    with psycopg.connect(**shop, autocommit=True) as first, psycopg.connect(**shop) as second:
        first.execute((PLACE / "schema.sql").read_text())
        for table, columns in (("orders", EXTERNAL), ("orders_full", EXTERNAL), ("moved", EXTERNAL[:1])):
            for column in columns:
                first.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL")
        _before(first)
        _run_engines(server, work, lambda: _changes(first, second))
        (PLACE / "truth.json").write_text(json.dumps(_truth(first), indent=1, ensure_ascii=False) + "\n")


def _run_engines(server: ServerProcess, work: Path, change: Any) -> None:
    """Start engines, make changes once all have their snapshots, and wait for the end of all."""
    library, files = work / "lib", []
    maven = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(PLACE / "pom.xml"),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={library}",
    ]
    subprocess.run(maven, check=True, timeout=900)
    for name, own in ENGINES.items():
        settings = {
            "name": name,
            "topic.prefix": name,
            "slot.name": name,
            "publication.name": name,
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "tidelog",
            "database.password": PASSWORD,
            "database.dbname": "shop",
            "table.include.list": ",".join(f"public.{each}" for each in (*TABLES, "signals")),
            **COMMON,
            **own,
        }
        files.append(work / f"{name}.properties")
        files[-1].write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    subprocess.run(
        ["javac", "-cp", f"{library}/*", "-d", str(work), str(PLACE / "Record.java")], check=True, timeout=120
    )
    command = ["java", "-Xmx400m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{library}/*:{work}"]
    command += ["Record", str(work), *map(str, files)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as engine:
        try:
            assert engine.stdout is not None
            waiting = set(ENGINES)
            for line in engine.stdout:
                print(line, end="")
                if line.startswith("snapshot "):
                    waiting.discard(line.split()[1])
                    if not waiting:
                        change()
                        break
            engine.stdout.read()
            if engine.wait(timeout=120) != 0:
                raise RuntimeError("the engine has failed: see above")
        finally:
            engine.kill()


def _kinds() -> list[str]:
    return [each for each in (PLACE / "kinds.sql").read_text().split(";\n") if each.strip()]


def _big(chance: random.Random) -> str:
    # PostgreSQL is told not to compress it; the recordings are.
    return "".join(chance.choices("abcdefgh", k=10)) * (BIG // 10)


def _order(chance: random.Random, number: int) -> tuple[Any, ...]:
    return (
        number,
        chance.choice(("Ann", "Bob", "Cleo")),
        f"{chance.randrange(1, 100000) / 100:.2f}",
        f"2026-11-{chance.randrange(1, 30):02d} 08:00:00.{chance.randrange(1000000):06d}",
        _big(chance),
        _big(chance).encode(),
        [_big(chance), "t"],
        [number] * 700,
        json.dumps({"text": _big(chance)}),
    )


def _insert_order(connection: Any, table: str, row: tuple[Any, ...]) -> None:
    connection.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", row)


def _before(connection: Any) -> None:
    """What snapshots find."""
    chance = random.Random(1)
    for each in _kinds()[:2]:
        connection.execute(each)
    for table in ("orders", "orders_full"):
        for number in range(1, 6):
            _insert_order(connection, table, _order(chance, number))
    for number in range(1, 9):
        connection.execute("INSERT INTO customers VALUES (%s, %s, %s)", (number, f"name {number}", None))
        connection.execute("INSERT INTO cleared VALUES (%s, %s)", (number, f"before {number}"))
    connection.execute("INSERT INTO sites VALUES ('north', 1, 'one'), ('south', 1, 'other')")
    connection.execute("INSERT INTO moved VALUES (1, %s)", (_big(chance),))
    connection.execute("INSERT INTO finish VALUES ('begin')")


def _changes(first: Any, second: Any) -> None:
    chance = random.Random(2)
    for each in _kinds()[2:]:
        first.execute(each)
    first.execute("UPDATE kinds SET a_price = a_price + 1, a_date = '2026-01-01' WHERE id = 1")
    first.execute("UPDATE kinds SET a_text = 'changed' WHERE id = 3")
    for table in ("orders", "orders_full"):
        _order_changes(first, table, chance)
    _interleaved(first, second)
    first.execute("SELECT pg_logical_emit_message(true, 'note', 'hello')")
    first.execute("UPDATE customers SET id = 100 WHERE id = 1")
    first.execute("UPDATE customers SET id = 1, email = 'back@example.com' WHERE id = 100")
    first.execute("UPDATE sites SET number = 2 WHERE region = 'north'")
    first.execute("DELETE FROM sites WHERE region = 'south'")
    first.execute("INSERT INTO loose VALUES (1, 'one'), (2, 'two')")
    first.execute("UPDATE loose SET id = 3 WHERE id = 2")
    first.execute("UPDATE loose SET name = 'uno' WHERE id = 1")
    first.execute("DELETE FROM loose WHERE id = 1")
    first.execute("UPDATE cleared SET name = 'changed' WHERE id < 4")
    first.execute("TRUNCATE cleared")
    first.execute("INSERT INTO cleared VALUES (3, 'after'), (9, 'after')")
    first.execute("UPDATE moved SET id = 2 WHERE id = 1")
    first.execute("ALTER TABLE customers ADD COLUMN phone text")
    first.execute("UPDATE customers SET phone = '0' || id WHERE id > 5")
    _snapshot_again(first)
    first.execute("DELETE FROM customers WHERE id = 7")
    first.execute("INSERT INTO finish VALUES ('end')")


def _snapshot_again(connection: Any) -> None:
    """An incremental snapshot by each engine, among changes."""
    signal = '{"data-collections": ["public.customers"]}'
    connection.execute("INSERT INTO signals VALUES ('again', 'execute-snapshot', %s)", (signal,))
    deadline = time.monotonic() + 60
    closed = "SELECT count(*) FROM signals WHERE type = 'snapshot-window-close'"
    while connection.execute(closed).fetchone()[0] < len(ENGINES):
        if time.monotonic() > deadline:
            raise TimeoutError("the incremental snapshots do not end")
        connection.execute("UPDATE customers SET email = clock_timestamp()::text WHERE id = 8")
        time.sleep(0.2)


def _order_changes(connection: Any, table: str, chance: random.Random) -> None:
    """Every kind of change to rows of which large values stay as they are."""
    numbers = list(range(1, 6))
    for number in range(6, 10):
        _insert_order(connection, table, _order(chance, number))
        numbers.append(number)
    for _ in range(20):
        number = chance.choice(numbers)
        match chance.randrange(5):
            case 0:
                connection.execute(f"UPDATE {table} SET customer = 'Dora' WHERE id = %s", (number,))
            case 1:
                connection.execute(f"UPDATE {table} SET price = price + 1 WHERE id = %s", (number,))
            case 2:
                connection.execute(f"UPDATE {table} SET notes = %s WHERE id = %s", (_big(chance), number))
            case 3:
                connection.execute(f"UPDATE {table} SET body = NULL, tags = '{{short}}' WHERE id = %s", (number,))
            case 4:
                connection.execute(f"DELETE FROM {table} WHERE id = %s", (number,))
                if chance.random() < 0.6:
                    _insert_order(connection, table, _order(chance, number))
                else:
                    numbers.remove(number)


def _interleaved(first: Any, second: Any) -> None:
    """What is written first is committed last: positions go back and forth."""
    second.execute("UPDATE customers SET email = 'first@example.com' WHERE id = 2")
    first.execute("UPDATE customers SET email = 'second@example.com' WHERE id = 3")
    first.execute("UPDATE customers SET email = 'third@example.com' WHERE id = 4")
    second.execute("UPDATE customers SET email = 'fourth@example.com' WHERE id = 5")
    second.commit()
    first.execute("UPDATE customers SET email = 'last@example.com' WHERE id = 2")


def _truth(connection: Any) -> dict[str, list[dict[str, str | None]]]:
    """What tables hold, by name and in the order of their first column."""
    connection.execute("SET intervalstyle = 'iso_8601'")
    connection.execute("SET extra_float_digits = 1")
    found = {}
    for table in TABLES:
        names = [name for (name,) in connection.execute(COLUMNS, (table,))]
        chosen = ", ".join(f"{name}::text" for name in names)
        rows = connection.execute(f"SELECT {chosen} FROM {table} ORDER BY {names[0]}")
        found[table] = [dict(zip(names, row, strict=True)) for row in rows]
    return found


if __name__ == "__main__":
    record()
