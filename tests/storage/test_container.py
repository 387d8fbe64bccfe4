"""One file for plain data and tensors: what went in comes out, what is damaged is refused."""

import math
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from softset.storage import container
from softset.storage.container import pack, read_file, unpack, whole, write_file
from softset.storage.files import SavedFileError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.booleans(), inner)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_data_comes_back_with_its_types(value):
    tensors = {}
    found = unpack(pack(value, tensors), tensors)
    assert found == value
    assert repr(found) == repr(value)
    assert not tensors


def test_tensors_infinities_and_shared_memory_come_back(tmp_path):
    path = tmp_path / "a"
    x = torch.arange(6.0).reshape(2, 3)
    write_file(path, "test", {"x": x, "row": x[0], "t": x.T, 3: (math.inf, -math.inf), "n": None})
    found = read_file(path, "test")
    assert torch.equal(found["x"], x)
    assert torch.equal(found["row"], x[0])
    assert torch.equal(found["t"], x.T)
    assert (found[3], found["n"]) == ((math.inf, -math.inf), None)


def test_what_is_neither_plain_nor_a_tensor_is_refused(tmp_path):
    with pytest.raises(TypeError, match="cannot save object"):
        write_file(tmp_path / "a", "test", {"x": object()})
    assert os.listdir(tmp_path) == []


def test_content_of_any_length_is_written(tmp_path):
    # longer than any header may be; a very large booster is so
    content = {"trees": "1 " * 50_000_001, "x": torch.arange(3)}
    write_file(tmp_path / "a", "test", content)
    found = read_file(tmp_path / "a", "test")
    assert found["trees"] == content["trees"]
    assert found["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([49.0]),  # "1" as a float
        torch.tensor([0xFF], dtype=torch.uint8),
        torch.zeros(0, dtype=torch.uint8),
        torch.tensor(list(b'{"tensor": "content"}'), dtype=torch.uint8),
    ],
)
def test_long_content_that_is_no_text_is_refused(tmp_path, tensor):
    info = {"format": "2", "kind": "test"}
    tensors = {"content": tensor}
    info["checksum"] = container._checksum(info, tensors)
    (tmp_path / "a").write_bytes(save(tensors, info))
    with pytest.raises(SavedFileError, match="a is damaged"):
        read_file(tmp_path / "a", "test")


@pytest.mark.parametrize("long", [container.LONG, 0])
def test_every_changed_byte_is_noticed(tmp_path, long, monkeypatch):
    monkeypatch.setattr(container, "LONG", long)
    path = tmp_path / "a"
    content = {"x": torch.arange(3.0), "name": "é", "n": [1, 2.5, None]}
    write_file(path, "test", content)
    data = path.read_bytes()
    for i in range(0, len(data), 3):
        path.write_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
        try:
            found = read_file(path, "test")
        except SavedFileError:
            continue
        # A blank of the padding, say: then everything that is used is as it was.
        assert (found["name"], found["n"]) == ("é", [1, 2.5, None])
        assert torch.equal(found["x"], content["x"])
    for cut in (0, 7, 8, 40, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(SavedFileError, match="a is damaged"):
            read_file(path, "test")


def test_another_kind_or_no_file_is_refused_by_name(tmp_path):
    path = tmp_path / "a"
    write_file(path, "test", 1)
    with pytest.raises(SavedFileError, match="a is 'test' in format '2'; expected 'other'"):
        read_file(path, "other")
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "b", "test")
    for endless in (tmp_path, "/dev/zero"):
        with pytest.raises(SavedFileError, match="a directory, device or pipe"):
            read_file(endless, "test")


def test_whatever_is_wrong_with_the_content_is_one_error_with_the_name():
    for error in (KeyError("x"), RecursionError(), MemoryError(), SavedFileError("it is bad")):
        with pytest.raises(SavedFileError, match=r"^model\.softset"), whole("model.softset", "m"):
            raise error


def test_the_last_byte_of_a_large_tensor_is_checked_too(tmp_path):
    path = tmp_path / "a"
    write_file(path, "test", {"x": torch.zeros(2**20, dtype=torch.float64)})
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(SavedFileError):
        read_file(path, "test")


def test_a_file_that_is_longer_than_it_says_is_not_read(tmp_path, monkeypatch):  # D26
    path = tmp_path / "a"
    container.write_file(path, "thing", {"x": torch.ones(3)})
    with open(path, "r+b") as file:
        file.truncate(8 * 2**30)  # sparse: it takes no room on the disk
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it was read"))
    with pytest.raises(SavedFileError, match="damaged"):
        container.read_file(path, "thing")


def test_the_same_content_is_the_same_bytes(tmp_path):
    """In every process: the metadata of safetensors have a random order."""
    content = {"ä": torch.arange(3.0), "b": [torch.ones(2), "text"]}
    written = set()
    for k in range(20):
        write_file(tmp_path / f"{k}", "model", content)
        written.add((tmp_path / f"{k}").read_bytes())
    assert len(written) == 1
    assert read_file(tmp_path / "0", "model")["b"][1] == "text"
