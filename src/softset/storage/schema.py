"""Dataclasses as plain data (JSON) and back: the one strict reader of saved things.

Types, keys and checksums are checked here; whatever was not written by us is a ``SavedFileError``
of one line that names the path inside the document."""

from __future__ import annotations

import hashlib
import json
import sys
import types
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from softset.storage.files import SavedFileError
from softset.typing import JSON, Settings

# A type, or what annotations have besides: unions, literals, Any.
Hint: TypeAlias = object
_PLAIN: dict[Hint, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a finite number",
    str: "text",
    types.NoneType: "null",
}


def checksum(content: JSON) -> str:
    """SHA-256 of what JSON can hold; the order of keys does not matter.

    >>> checksum({"a": 1, "b": 2}) == checksum({"b": 2, "a": 1})
    True
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(content: Settings) -> Settings:
    """``content`` with its checksum."""
    return {**content, "checksum": checksum(content)}


def unsealed(content: object) -> Settings:
    """The inverse of ``sealed``; refuses what has no checksum, or another one."""
    if isinstance(content, dict) and "checksum" not in content:
        raise SavedFileError("it was changed after it was written: its checksum is missing.")
    if not isinstance(content, dict):
        raise SavedFileError(f"an object with a checksum was expected, got {_brief(content)}.")
    content, seal = dict(content), content["checksum"]
    del content["checksum"]
    if seal != checksum(content):
        raise SavedFileError("it was changed after it was written: its checksum is off.")
    return content


def encoded(value: object) -> Any:
    """Dataclasses, and lists and dictionaries of them, as what JSON can hold."""
    if is_dataclass(value):
        kind: Any = type(value)
        return {name: encoded(getattr(value, name)) for name in _fields(kind)}
    if isinstance(value, dict):
        return {k: encoded(v) for k, v in value.items()}
    return [encoded(v) for v in value] if isinstance(value, list | tuple) else value


def decoded(kind: Hint, value: Any, path: str = "") -> Any:
    """``value`` as ``kind``; an error names the ``path`` inside the document.

    ``kind`` is a dataclass (its fields without a default must be there, and no others), a plain
    type, ``Any``, or ``list``, ``tuple``, ``dict``, ``Literal`` and unions of such.

    >>> decoded(list[float], [1, 2.5], "scores")
    [1.0, 2.5]
    """
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass(kind, value, path)
    if kind is Any:
        return value
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(inner, value, path)
    if origin is list and isinstance(value, list | tuple):
        return [decoded(inner[0], v, f"{path}[{i}]") for i, v in enumerate(value)]
    if origin is tuple and inner[-1] is Ellipsis:
        return tuple(decoded(list[inner[0]], value, path))  # type: ignore[valid-type]
    if origin is tuple and isinstance(value, list | tuple) and len(value) == len(inner):
        pairs = zip(inner, value, strict=True)
        return tuple(decoded(k, v, f"{path}[{i}]") for i, (k, v) in enumerate(pairs))
    if origin is dict and isinstance(value, dict):
        return {str(k): decoded(inner[1], v, f"{path}.{k}") for k, v in value.items()}
    if kind is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    if (kind in _PLAIN and kind is not float and type(value) is kind) or (
        origin is Literal and value in inner
    ):
        return value
    raise SavedFileError(f"{path} must be {_words(kind)}, got {_brief(value)}.")


def _dataclass(kind: type, value: object, path: str) -> object:
    start = f"{path}." if path else ""
    if not isinstance(value, dict):
        raise SavedFileError(f"{path or 'it'} must be {_words(kind)}, got {_brief(value)}.")
    allowed = _fields(kind)
    for name in value:
        if name not in allowed:
            raise SavedFileError(f"{start}{name} is not known; {', '.join(allowed)} may be there.")
    values = {}
    for name, (hint, needed) in allowed.items():
        if name in value:
            values[name] = decoded(hint, value[name], f"{start}{name}")
        elif needed:
            raise SavedFileError(f"{start}{name} is missing.")
    return kind(**values)


@cache
def _fields(kind: Any) -> dict[str, tuple[Hint, bool]]:
    """Name -> type, and whether it must be there."""
    hints = get_type_hints(kind)
    return {
        f.name: (hints[f.name], f.default is MISSING and f.default_factory is MISSING)
        for f in fields(kind)
        if f.metadata.get("in_json", True)
    }


def _one_of(kinds: Sequence[Hint], value: object, path: str) -> object:
    for kind in kinds:
        try:
            return decoded(kind, value, path)
        except SavedFileError as error:
            failed = error
    others = [k for k in kinds if k is not types.NoneType]
    if len(others) == 1:  # null is allowed, but it was not null: say what is wrong inside
        decoded(others[0], value, path)
    words = " or ".join(_words(k) for k in kinds)
    raise SavedFileError(f"{path} must be {words}, got {_brief(value)}.") from failed


def _words(kind: Hint) -> str:
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(repr(v) for v in inner)
    if origin in (list, tuple):
        return f"a list of {' and '.join(_words(k) for k in inner)}"
    if origin in (Union, types.UnionType):
        return " or ".join(_words(k) for k in inner)
    return "an object"


def _brief(value: object) -> str:
    if isinstance(value, list | dict):
        return f"a list of {len(value)}" if isinstance(value, list) else "an object"
    return repr(value)[:60]
