"""One file for plain data and tensors: safetensors with a JSON header and a checksum.

Nothing is pickled, so that loading runs no code. The checksum covers every byte that is used."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from softset.storage.files import SavedFileError, write_safely
from softset.typing import JSON

FORMAT = 2
# Longer content is a tensor of bytes: safetensors reads no header of more than 100 MB.
LONG = 2**24
_LONGEST_HEADER = 100_000_000
_CONTENT = "content"
# What pickles begin with, also packed ones.
_PICKLES = (b"\x80", b"PK\x03\x04", b"\x1f\x8b", b"x\x9c", b"(", b"c")


def pack(value: object, tensors: dict[str, Tensor]) -> JSON:
    """Nested lists, tuples and dicts as JSON; tensors go to ``tensors``, replaced by their names.

    >>> pack({"a": [1, math.inf], 3: torch.zeros(2)}, {})
    {'dict': [['a', [1, {'float': 'inf'}]], [3, {'tensor': 't0'}]]}
    """
    if isinstance(value, Tensor):
        name = f"t{len(tensors)}"
        tensors[name] = value.detach().cpu().contiguous()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[pack(k, tensors), pack(v, tensors)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [pack(v, tensors) for v in value]}
    if isinstance(value, list):
        return [pack(v, tensors) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"cannot save {type(value).__name__}: {value!r}.")


def unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of ``pack``."""
    if isinstance(value, list):
        return [unpack(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {unpack(k, tensors): unpack(v, tensors) for k, v in content}
    if kind == "tuple":
        return tuple(unpack(v, tensors) for v in content)
    if kind == "float":
        return float(content)
    raise ValueError(f"unknown mark {kind!r}")


def write_file(path: str | os.PathLike[str], kind: str, content: object) -> None:
    """Write ``content`` so that ``path`` holds all of the old bytes or all of the new ones."""
    path = Path(path)
    tensors: dict[str, Tensor] = {}
    # One tensor may be named several times; safetensors wants separate memory for each.
    packed = json.dumps(pack(content, tensors), allow_nan=False)
    tensors = {name: t.clone() for name, t in tensors.items()}
    info = {"format": str(FORMAT), "kind": kind}
    if len(packed) <= LONG:
        info[_CONTENT] = packed
    else:
        tensors[_CONTENT] = torch.frombuffer(bytearray(packed.encode()), dtype=torch.uint8)
    info["checksum"] = _checksum(info, tensors)
    data = _in_order(save(tensors, info))
    write_safely(path, lambda temporary: temporary.write_bytes(data))


def _in_order(data: bytes) -> bytes:
    """The same file with sorted metadata: safetensors writes them in a random order."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at multiples of 8 bytes
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def read_file(path: str | os.PathLike[str], kind: str) -> Any:
    """The content of a file of ``write_file``; ``SavedFileError`` if it is not exactly that."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    if not path.is_file():  # a device may never end
        raise SavedFileError(f"{path} is a directory, device or pipe; a file is expected.")
    with open(path, "rb") as file:
        head = file.read(9)
    # Our files begin with a length of 8 bytes, which may look like anything, and then a brace.
    if head[8:9] != b"{" and head.startswith(_PICKLES):
        raise SavedFileError(
            f"{path.name} looks like a pickled model, which could run code when it is loaded; it "
            "is refused. Save models with softset (`softset train`, save_model)."
        )
    try:
        info = _header(path)
        if info.get("format", str(FORMAT)) != str(FORMAT) or info.get("kind", kind) != kind:
            raise SavedFileError(
                f"{path.name} is {info.get('kind')!r} in format {info.get('format')!r}; expected "
                f"{kind!r} in format '{FORMAT}'. Train it again, or read it with the version of "
                "softset that wrote it."
            )
        tensors = load(path.read_bytes())
        checksum = info.pop("checksum")
        if checksum != _checksum(info, tensors):
            raise SavedFileError(f"{path.name} is damaged: its checksum does not fit.")
        return unpack(json.loads(_content(info, tensors)), tensors)
    except SavedFileError:
        raise
    except Exception as error:
        raise SavedFileError(
            f"{path.name} is damaged or no file of softset ({type(error).__name__})."
        ) from error


@contextlib.contextmanager
def whole(name: str, kind: str) -> Iterator[None]:
    """Turn whatever goes wrong with the content of file ``name`` into a ``SavedFileError``."""
    try:
        yield
    except SavedFileError as error:
        raise SavedFileError(f"{name}: {error}") from error
    except Exception as error:
        raise SavedFileError(
            f"{name} does not hold a whole {kind} ({type(error).__name__}): it is damaged, or of "
            "another version of softset. Make it again."
        ) from error


def _header(path: Path) -> dict[str, str]:
    """The metadata of a file, which must be as long as its header says: the rest is read only
    then."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > min(size - 8, _LONGEST_HEADER):
            raise ValueError("header longer than the file")
        header = json.loads(file.read(length))
    info = header.pop("__metadata__")
    end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    if size != 8 + length + end:
        raise ValueError("tensors of another size than the file")
    return {str(k): str(v) for k, v in info.items()}


def _content(info: dict[str, str], tensors: dict[str, Tensor]) -> str | bytes:
    if _CONTENT in info:
        return info[_CONTENT]
    values = tensors.pop(_CONTENT).numpy()
    if values.dtype != "uint8":
        raise ValueError("content must be bytes")
    return values.tobytes()


def _checksum(info: dict[str, str], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(sorted(info.items())).encode())
    for name in sorted(tensors):
        update_digest(digest, name, tensors[name])
    return digest.hexdigest()


def update_digest(digest: hashlib._Hash, name: str, tensor: Tensor) -> None:
    """Add a tensor's name, dtype, shape and bytes."""
    digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    digest.update(raw.numpy().tobytes())
