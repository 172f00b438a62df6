"""Hadoop's file system for S3, without which Spark's own checkpoint is on no object store, fetched by Maven once."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from tests.support.apache_kafka import REPOSITORY, KafkaError, require

POM = Path(__file__).parent / "hadoop_aws" / "pom.xml"
HOME = REPOSITORY / ".compat" / "hadoop-aws"
# Everything else that it names is in Spark.
GROUPS = "org.apache.hadoop,software.amazon.awssdk,software.amazon.s3.analyticsaccelerator,org.wildfly.openssl"


def hadoop_aws_jars() -> list[Path]:
    """The jars that a session takes as `spark.jars`: 700 MB. MissingProgramError where nothing can fetch them."""
    require("java", "openjdk-17-jdk-headless")
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / ".install-lock").open("w") as lock:
        # Two test runs at once install it once.
        fcntl.lockf(lock, fcntl.LOCK_EX)
        if not (HOME / "lib").exists():
            _install()
    return sorted((HOME / "lib").glob("*.jar"))


def _install() -> None:
    # Into a directory of its own first: an interrupted download must not pass for an installation.
    fresh = HOME / "lib.fetching"
    shutil.rmtree(fresh, ignore_errors=True)
    command = [require("mvn", "maven"), "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    command += [f"-DincludeGroupIds={GROUPS}", "-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KafkaError(f"maven could not fetch hadoop-aws:\n{(done.stdout + done.stderr)[-2000:]}")
    fresh.rename(HOME / "lib")
