"""A pipeline's own session beside that of whoever else uses Spark in the process."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidelog.spark.pipelines import FromTopic, Pipeline, Text, ToTopic
from tidelog.spark.pipelines.session import frame_of, own_session


def test_a_frame_of_a_pipelines_session_leaves_the_others_session_the_active_one(spark: SparkSession) -> None:
    spark.createDataFrame([], "nothing int")
    own = own_session(spark, Pipeline(name="p", source=FromTopic("a", Text()), sink=ToTopic("b")))

    rows = frame_of(own, [(1,), (2,)], "number int").collect()

    assert [row.number for row in rows] == [1, 2]
    assert SparkSession.getActiveSession() is spark
    in_java = spark._jvm.org.apache.spark.sql.classic.SparkSession.active()  # type: ignore[union-attr]
    assert in_java.sessionUUID() == spark._jsparkSession.sessionUUID()
