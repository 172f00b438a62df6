"""Files with pipelines: what is found in them, and what is said about those that cannot be loaded."""

from __future__ import annotations

import pickle
import re
import textwrap
from pathlib import Path

import pytest
from pyspark import cloudpickle

from tidelog.spark.pipelines.errors import PipelineFileError
from tidelog.spark.pipelines.pipeline_file import load_pipelines
from tidelog.spark.pipelines.validation import problems_of

HEAD = "from tidelog.spark.pipelines import FromTopic, Pipeline, ToTable\n"


def written(directory: Path, text: str, name: str = "jobs.py") -> Path:
    path = directory / name
    path.write_text(HEAD + textwrap.dedent(text))
    return path


def test_all_pipelines_of_a_file_are_found_each_once_and_in_order(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        def copy(topic):
            return Pipeline(name=f"copy-{topic}", source=FromTopic(topic), sink=ToTable(f"tables/{topic}"))

        second = copy("b")
        first = copy("a")
        again = second
        """,
    )

    file = load_pipelines(path)

    assert [each.name for each in file.pipelines] == ["copy-b", "copy-a"]
    assert file.checkpoint_of(file.pipelines[0]) == str(tmp_path / "checkpoints" / "copy-b")
    assert file.beside("s3a://bucket/x") == "s3a://bucket/x"
    assert [each.name for each in load_pipelines(path, ["copy-a"]).pipelines] == ["copy-a"]
    with pytest.raises(PipelineFileError, match=r"has no pipeline copy-c; it has copy-b, copy-a"):
        load_pipelines(path, ["copy-c"])


def test_pipelines_may_be_in_a_list_a_tuple_or_a_dict(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        def copy(topic):
            return Pipeline(name=f"copy-{topic}", source=FromTopic(topic), sink=ToTable(f"tables/{topic}"))

        topics = ["a", "b"]
        pipelines = [copy(topic) for topic in topics]
        first = pipelines[0]
        others = (copy("c"),)
        by_name = {"d": copy("d"), "c": others[0]}
        """,
    )

    assert [each.name for each in load_pipelines(path).pipelines] == ["copy-a", "copy-b", "copy-c", "copy-d"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 5", "defines no pipeline"),
        ("x = [5]", "defines no pipeline: .* or a list of them"),
        ("x = [Pipeline(name='p'), 5, 6]", "x holds pipelines, and beside them int$"),
        ("x =", "jobs.py, line 2: invalid syntax"),
        ("\n\nPipeline(name=a)", "line 4: NameError: name 'a' is not defined"),
        ("import nowhere_at_all", "line 2: ModuleNotFoundError: No module named 'nowhere_at_all'"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(PipelineFileError, match=sentence):
        load_pipelines(written(tmp_path, text))


def test_a_file_that_is_not_there_and_one_that_is_no_python(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match="there is no file"):
        load_pipelines(tmp_path / "none.py")
    (tmp_path / "jobs.yaml").write_text("a: 1")
    with pytest.raises(PipelineFileError, match=r"has to end with \.py"):
        load_pipelines(tmp_path / "jobs.yaml")


def test_functions_of_the_file_and_of_modules_beside_it_travel_by_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prices_beside_the_file.py").write_text("def doubled(price):\n    return 2 * price\n")
    path = written(
        tmp_path,
        """
        from prices_beside_the_file import doubled

        pipeline = Pipeline(name="p", source=FromTopic("t"), sink=ToTable("t"))
        """,
    )

    file = load_pipelines(path)

    assert [each.__name__ for each in file.modules] == ["tidelog_pipeline_jobs", "prices_beside_the_file"]
    for module in file.modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        sent = cloudpickle.dumps(vars(file.modules[0])["doubled"])  # type: ignore[no-untyped-call]
    finally:
        for module in file.modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
    monkeypatch.delitem(__import__("sys").modules, "prices_beside_the_file")
    assert pickle.loads(sent)(4) == 8


def test_the_programs_of_the_document_are_pipelines_without_mistakes(tmp_path: Path) -> None:
    document = Path(__file__).resolve().parents[2] / "docs" / "pipelines.md"
    programs = re.findall(r"^```python\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    names = []
    for index, program in enumerate(programs):
        if "Pipeline(" in program:
            path = tmp_path / f"program_{index}.py"
            path.write_text(program)
            pipelines = load_pipelines(path).pipelines
            assert problems_of(pipelines) == []
            names += [each.name for each in pipelines]

    assert names == ["revenue", "paid-orders", "enriched", "shop", "orders"]
    assert len(programs) == 6
