"""Whatever happens to the files of a data directory, `verify` answers with findings and never overlooks a lost record."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tests.support.data_directory import DataDirectory
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.verification.findings import Severity

_TEMPLATE: dict[bool, dict[str, bytes]] = {}


def template(clean: bool) -> dict[str, bytes]:
    """The files of a whole directory, by name."""
    if clean not in _TEMPLATE:
        directory = DataDirectory(SimulatedDisk())
        directory.write(clean=clean)
        names = directory.files.list_directory(directory.path)
        partitions = [name for name in names if directory.files.is_dir(f"{directory.path}/{name}")]
        inner = [f"{each}/{name}" for each in partitions for name in directory.files.list_directory(f"/data/{each}")]
        _TEMPLATE[clean] = {name: directory.read(name) for name in [*names, *inner] if name not in partitions}
    return _TEMPLATE[clean]


def directory_of(files: dict[str, bytes]) -> DataDirectory:
    directory = DataDirectory(SimulatedDisk())
    for partition in ("orders-0", "orders-1"):
        directory.files.make_directory(f"{directory.path}/{partition}")
    for name, content in files.items():
        directory.write_file(name, content)
    return directory


@st.composite
def damaged_files(draw: st.DrawFn) -> tuple[bool, dict[str, bytes]]:
    clean = draw(st.booleans())
    files = dict(template(clean))
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(sorted(files)))
        content = files[name]
        match draw(st.sampled_from(["flip", "cut", "extend", "zero", "replace", "remove", "swap"])):
            case "flip" if content:
                position = draw(st.integers(0, len(content) - 1))
                mask = draw(st.integers(1, 255))
                files[name] = content[:position] + bytes([content[position] ^ mask]) + content[position + 1 :]
            case "cut":
                files[name] = content[: draw(st.integers(0, len(content)))]
            case "extend":
                files[name] = content + draw(st.binary(max_size=200))
            case "zero":
                position = draw(st.integers(0, len(content)))
                files[name] = content[:position] + bytes(len(content) - position)
            case "replace":
                files[name] = draw(st.binary(max_size=200))
            case "remove" if len(files) > 20:
                del files[name]
            case "swap":
                other = draw(st.sampled_from(sorted(files)))
                files[name], files[other] = files[other], files[name]
            case _:
                pass
    return clean, files


@given(damaged_files())
def test_damage_of_any_kind_is_a_finding_and_never_a_traceback(damaged: tuple[bool, dict[str, bytes]]) -> None:
    clean, files = damaged
    report = directory_of(files).report(decodes_records=True)

    whole = template(clean)
    lost = [name for name in whole if name.endswith(".log") and not files.get(name, b"").startswith(whole[name])]
    if lost:
        assert report.count(Severity.ERROR) + report.count(Severity.WARNING) > 0, lost


@given(st.data())
def test_a_changed_byte_of_a_log_is_always_found(data: st.DataObject) -> None:
    files = dict(template(True))
    name = data.draw(st.sampled_from(sorted(name for name in files if name.endswith(".log"))))
    position = data.draw(st.integers(0, len(files[name]) - 1))
    mask = data.draw(st.integers(1, 255))
    content = files[name]
    files[name] = content[:position] + bytes([content[position] ^ mask]) + content[position + 1 :]

    report = directory_of(files).report()

    assert report.count(Severity.ERROR) + report.count(Severity.WARNING) > 0
