"""Mutated model files and what may come of them: a refusal, or predictions as they should be.

``python -m tests.fuzz.model_files FOLDER SEED FIRST LAST`` is the child process in which a crash
can do no harm: it prints the number of a case before it runs it, and its outcome afterwards.
"""

import contextlib
import copy
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load, save
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import softset as ss
from softset.classifiers.recipes import classifier_class
from softset.storage import container
from softset.training.checkpoints import Checkpoint

SECONDS, BYTES = 10, 2**30  # seconds of the processor: a busy machine is no fault
ROWS = np.random.RandomState(0).randn(240, 3).round(3)
TABLE = pd.DataFrame(
    {
        "x": ROWS[:40, 0],
        "color": np.array(["blue", "red", "green"])[np.arange(40) * 7 % 3],
        "day": pd.date_range("2020-01-01", periods=40).strftime("%Y-%m-%d"),
        "note": np.where(np.arange(40) % 5 == 0, np.nan, ROWS[:40, 2]),
        "churn": np.where(ROWS[:40, 0] > 0.3, "yes", "no"),
    }
)


class StopError(Exception):
    """A run that is stopped on purpose."""


class TooSlowError(BaseException):
    """No ``except Exception`` hides it."""


# --- files to mutate -----------------------------------------------------------------------------


def write_files(folder):
    """Files of every kind with all that a file can hold, and checkpoints of stopped runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows and epochs make poor models
        _write_files(folder)


def _write_files(folder):
    for name in ("members.ckpt", "fit.ckpt"):
        with patch.object(Checkpoint, "save", stop_after(4)), contextlib.suppress(StopError):
            train(name, folder / name)
        (folder / f"{name}.lock").unlink()
    x = ROWS[:160, :3]
    y = (x[:, 0] + 0.5 * x[:, 1] > 0.7).astype(int)
    classes, labels = y + (x[:, 2] > 1), np.column_stack([y, x[:, 2] > 0])
    gaps = np.where(np.arange(x.size).reshape(x.shape) % 11 == 0, np.nan, x)
    towns = np.array(["Bonn", "Kiel", "Ulm", "Jena"])[np.digitize(x[:, 1], [-1, 0, 1])]
    frame = pd.DataFrame(gaps, columns=["a", "b", "c"]).assign(town=towns)
    small = {"random_state": 0, "n_networks": 2, "max_epochs": 3, "hidden_layer_sizes": (4,)}
    trees = {"random_state": 0, "n_estimators": 4, "n_metric_estimators": 3}
    made = {"network": ss.MetricMLPClassifier(**small).fit(x, classes)}
    made["network-frame"] = ss.MetricMLPClassifier(**small).fit(frame[["a", "b"]].fillna(0), y)
    made["linear"] = ss.MetricLinearClassifier().fit(x, y)
    made["linear-classes"] = ss.MetricLinearClassifier().fit(x, classes)
    made["linear-labels"] = ss.MetricLinearClassifier().fit(x, labels)
    made["forest"] = ss.MetricThresholdClassifier(
        RandomForestClassifier(3, random_state=0), cv="oob"
    ).fit(x, labels)
    inner = ExtraTreesClassifier(2, random_state=0)
    made["cut"] = ss.MetricThresholdClassifier(inner, cv=2, refit=False).fit(x, classes)
    blend = ss.MetricEnsembleClassifier(base_models=("linear",), cv=2, time_limit=None)
    made["blend"] = blend.fit(x, y)
    for library in ("lightgbm", "xgboost"):
        boosting = ss.MetricBoostingClassifier(library=library, **trees)
        made[f"{library}-frame"] = boosting.fit(frame, np.where(y, "yes", "no"))
        boosting = ss.MetricBoostingClassifier(library=library, **trees)
        made[f"{library}-classes"] = boosting.fit(gaps, classes)
    boosting = ss.MetricBoostingClassifier(library="xgboost", **trees)
    made["xgboost-labels"] = boosting.fit(gaps, labels)
    boosting = {"n_estimators": 4, "n_metric_estimators": 3, "library": "xgboost"}
    for recipe, settings in (("cross-entropy-tuned", small), ("boosting-metric", boosting)):
        settings = {k: v for k, v in settings.items() if k != "random_state"}
        features, target = TABLE.drop(columns="churn"), TABLE["churn"]
        settings |= {"info": {"target": "churn"}}
        made[f"model-{recipe}"] = ss.train_model(features, target, recipe=recipe, **settings)
    for name, model in made.items():
        model.save(folder / f"new-{name}.softset")
    with patch.object(container, "LONG", 0):
        made["lightgbm-frame"].save(folder / "new-lightgbm-long.softset")


def stop_after(writes):
    """A way to save checkpoints that stops the run after some of them."""
    save, left = Checkpoint.save, [writes]

    def stopping(self, state, *, last=False):
        self.every = 0
        save(self, state, last=last)
        left[0] -= 1
        if not left[0]:
            raise StopError

    return stopping


def train(name, path):
    """The weights of a small run, from its checkpoint on if there is one."""
    y = torch.from_numpy((ROWS[:, 0] + 0.5 * ROWS[:, 1] > 0.7).astype(int))
    x = torch.from_numpy(ROWS).float()
    rows, held = (x[:160], y[:160]), (x[160:], y[160:])
    if "members" in name:
        members = [ss.training.Member(0), ss.training.Member(1, 0.01)]
        settings = {"max_epochs": 8, "batch_size": 32, "recipe": "warm", "checkpoint": path}
        return [ss.training.train_members((4,), rows, held, members=members, **settings).weights]
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    rows, held = (TensorDataset(a, b.float()) for a, b in (rows, held))
    shuffled = DataLoader(rows, 32, shuffle=True, generator=torch.Generator())
    ss.training.fit(model, "warm", shuffled, DataLoader(held, 40), max_epochs=6, checkpoint=path)
    return list(model.parameters())


class Saved:
    """A file taken apart: its header, the JSON content and the tensors."""

    def __init__(self, path):
        self.name, self.data = path.name, path.read_bytes()
        size = int.from_bytes(self.data[:8], "little")
        self.info = json.loads(self.data[8 : 8 + size])["__metadata__"]
        self.tensors = load(self.data)
        self.apart = "content" in self.tensors  # as long content is
        text = bytes(self.tensors.pop("content").numpy()) if self.apart else self.info["content"]
        self.kind, self.content = self.info["kind"], json.loads(text)

    def written(self, content, tensors):
        """The bytes of a file with other content, its checksum repaired."""
        text = content if isinstance(content, str) else json.dumps(content)
        text = text[: 2**24]  # longer ones do not fit in a header
        info = {k: v for k, v in self.info.items() if k != "checksum"}
        if self.apart:
            content = torch.tensor(list(text.encode()), dtype=torch.uint8)
            tensors = {**tensors, "content": content}
        else:
            info["content"] = text
        info["checksum"] = container._checksum(info, tensors)
        return save(tensors, info)


# --- mutations -----------------------------------------------------------------------------------

NASTY = [
    *(None, True, False, 0, -1, 1, 2, 3, 7, 100, 2**31, 2**63, 2**64, -(2**63), 10**30),
    *(0.5, -0.0, 1e-320, 1e308, -1e308, 1e30, -3.5),
    *("", "a", "0", "nan", "1e999", "<U100000000", "O", "binary", "multilabel", "x" * 10000),
    *([], [[]], {}, [0], [None], ["a", 1], {"float": "nan"}, {"float": "inf"}, {"float": []}),
    *({"dict": []}, {"tuple": []}, {"tensor": "t0"}, {"tensor": "t1"}, {"unknown": 1}),
    *([0] * 50000, json.loads("[" * 300 + "]" * 300)),
]
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]
WORDS = ["", "0", "-1", "1", "2", "99", "-99", "1e999", "nan", "inf", "-inf", "1e308", "abc", "0x1"]
WORDS += ["100000000", "2147483648", "-9223372036854775808", "9" * 30, "1_0", "0.5", "1 1", "é"]


def mutated(saved, rng):
    """The bytes of a mutated file, and what was done to it."""
    content, tensors = copy.deepcopy(saved.content), dict(saved.tensors)
    how = rng.choice(["bytes", "text", *["json"] * 5, *["tensor"] * 3, *["trees"] * 6])
    texts = [place for place in places(content) if is_trees(at(content, place))]
    if (how == "trees" and not texts) or (how == "tensor" and not tensors):
        how = "json"
    done = []
    if how == "bytes":
        data = bytearray(saved.data)
        for _ in range(rng.choice([1, 1, 3])):
            where = rng.randrange(len(data))
            data[where] ^= 1 << rng.randrange(8)
            done.append(f"bit of byte {where}")
        return bytes(data), f"{how}: {done}"
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if how == "text":
            content = content if isinstance(content, str) else json.dumps(content)
            content, note = change_text(content, rng)
        elif how == "tensor":
            note = change_tensor(tensors, rng)
        elif how == "trees":
            place = rng.choice(texts)
            text, note = change_trees(at(content, place), rng)
            put(content, place, text)
        else:
            content, note = change_json(content, rng)
        done.append(note)
    return saved.written(content, tensors), f"{how}: {done}"


def is_trees(value):
    return isinstance(value, str) and value.startswith(("tree\n", '{"learner"'))


def places(value, here=()):
    """Every place in nested lists and dicts, as keys from the top."""
    yield here
    pairs = value.items() if isinstance(value, dict) else ()
    for key, part in enumerate(value) if isinstance(value, list) else pairs:
        yield from places(part, (*here, key))


def at(value, place):
    for key in place:
        value = value[key]
    return value


def put(value, place, new):
    at(value, place[:-1])[place[-1]] = new


def some_place(value, rng):
    """A place found by walking down at random, so that long lists do not win."""
    here = ()
    while isinstance(value, list | dict) and len(value) and (not here or rng.random() < 0.9):
        key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        here, value = (*here, key), value[key]
    return here


def change_json(content, rng):
    place = some_place(content, rng)
    old = at(content, place)
    new = changed_value(old, content, rng)
    if not place:
        return (None if new is ... else new), "all of it"
    if new is ...:
        del at(content, place[:-1])[place[-1]]
    else:
        put(content, place, new)
    return content, f"{place} = {str(new)[:60]}"


def changed_value(old, content, rng):
    """Another value in the place of ``old``; ``...`` deletes it."""
    options = [rng.choice(NASTY), rng.choice(NASTY), ..., [old], str(old)[:100]]
    options.append(at(content, some_place(content, rng)))  # from somewhere else
    if isinstance(old, int | float) and not isinstance(old, bool):
        options += [old + 1, old - 1, -old, old * 10**9, float(old), old + 0.5]
    elif isinstance(old, str) and old:
        cut = rng.randrange(len(old))
        options += [old[:cut], old + old, old[:cut] + rng.choice(WORDS) + old[cut + 1 :]]
    elif isinstance(old, list) and old:
        i = rng.randrange(len(old))
        options += [old[:i], old[:i] + old[i + 1 :], [*old, old[i]], old[::-1], old * 100]
    elif isinstance(old, dict) and old:
        options += [{"tuple": v} for v in old.values()] + [{rng.choice(WORDS): old}]
    return copy.deepcopy(rng.choice(options))


def change_text(text, rng):
    where = rng.randrange(len(text) or 1)
    piece = rng.choice([*WORDS, '"', "[", "]", "{", "}", ",", ":", "NaN", "Infinity", "\\u0000"])
    end = where + rng.choice([0, 1, 1, 10])
    return text[:where] + piece + text[end:], f"{piece!r} at {where}"


def change_trees(text, rng):
    """A model text of a boosting library with one line, number or key changed."""
    if rng.random() < 0.1:
        return change_text(text, rng)
    if text.startswith("{"):
        try:
            content, note = change_json(json.loads(text), rng)
            return json.dumps(content), note
        except ValueError:  # broken by an earlier change
            return change_text(text, rng)
    lines = text.split("\n")
    last = lines.index("end of trees") if "end of trees" in lines else len(lines)
    i = rng.randrange(max(1, last))
    name, equals, values = lines[i].partition("=")
    words = values.split(" ")
    j = rng.randrange(len(words))
    other = rng.choice([*WORDS, *(words if len(words) > 1 else ["5"])])
    options = {
        "word": [*words[:j], other, *words[j + 1 :]],
        "word left out": words[:j] + words[j + 1 :],
        "word twice": [*words[: j + 1], *words[j:]],
        "words in another order": rng.sample(words, len(words)),
        "many words": words * 1000,
    }
    note = rng.choice([*["word"] * 6, *options, "line left out", "line twice", "line of another"])
    if note in options:
        lines[i] = name + equals + " ".join(options[note])
    elif note == "line left out":
        del lines[i]
    elif note == "line twice":
        lines.insert(i, lines[i])
    else:
        lines[i] = rng.choice(lines[:last] or lines)
    return "\n".join(lines), f"{note} in line {i}, {name}: {other}"


def change_tensor(tensors, rng):
    if not tensors:
        return "none is left"
    name = rng.choice(sorted(tensors))
    t = tensors[name].clone()
    flat = t.reshape(-1)
    how = rng.choice(
        ["value"] * 5 + ["dtype", "dtype", "shape", "shape", "length", "gone", "other"]
    )
    if how == "value" and len(flat):
        worst = [0.0, -1.0, 1.0, 3.0, 1e4, -1e4, 1e30, 1e300, float("nan"), float("inf")]
        note = rng.choice(worst)
        value = torch.tensor(note if t.is_floating_point() else np.nan_to_num(note, nan=5))
        where = rng.randrange(len(flat)) if rng.random() < 0.7 else slice(None)
        flat[where] = value.to(t.dtype)
    elif how == "dtype":
        kind = rng.choice(DTYPES)
        t, note = t.to(getattr(torch, kind)), kind
    elif how == "shape":
        note = rng.choice(["flat", "row", "column", "turned", "number"])
        shapes = {"flat": flat, "row": t[None], "column": t[..., None], "number": torch.tensor(1.0)}
        t = t.permute(list(reversed(range(t.dim())))) if note == "turned" else shapes[note]
    elif how == "length":
        parts = [flat[:-1], torch.cat([flat, flat]), flat[:0], flat[:1]]
        if t.dim() == 2:
            parts = [t[:-1], t[:, :-1], torch.cat([t, t]), torch.cat([t, t], 1), t[:0], t[:, :0]]
        t, note = rng.choice(parts), how
    elif how == "other":
        note = rng.choice(sorted(tensors))
        t = tensors[note].clone()
    else:
        del tensors[name]
        return f"{name} gone"
    tensors[name] = t.contiguous()
    return f"{name} {how} {note}"


# --- what may come of it -------------------------------------------------------------------------


def outcome(saved, path):
    """``refused`` or ``predicts``; anything else is an ``AssertionError`` or what it raised."""
    if saved.kind == "checkpoint":
        return resumed(saved, path)
    try:
        model = opened(saved.kind, path)
    except ss.SavedFileError as error:
        assert_cheap(error)
        return "refused"
    classifier = getattr(model, "classifier", model)
    try:
        x = inputs(model, classifier)
        p, found = model.predict_proba(x), model.predict(x)
        d = classifier.decision_function(model.inputs(x) if model is not classifier else x)
    except ValueError as error:
        assert_cheap(error)
        # A file may say that it wants other columns than there are; the fault is then not its.
        first = opened(saved.kind, Path(path).with_name("original"))
        if isinstance(error, ss.SavedFileError) or wanted(model) != wanted(first):
            return "refused"
        raise
    count = len(model.classes_)
    several = found.ndim == 2
    assert p.shape == (40, count), f"probabilities {p.shape} of {count} classes"
    assert found.shape == ((40, count) if several else (40,)), f"predictions {found.shape}"
    assert d.shape == ((40,) if count == 2 and not several else (40, count)), f"scores {d.shape}"
    assert np.isfinite(d).all(), "scores that are not finite"
    assert ((p >= 0) & (p <= 1)).all(), "no probabilities"
    assert several or np.allclose(p.sum(1), 1), "probabilities do not add up to 1"
    known = [0, 1] if several else np.asarray(model.classes_).tolist()
    assert all(v in known for v in found.ravel().tolist()), "no class"
    return "predicts"


def opened(kind, path):
    return ss.load_model(path) if kind == "model" else classifier_class(kind).load(path)


def wanted(model):
    """The inputs that a model asks for."""
    encoder = getattr(model, "encoder", None)
    if encoder is not None:
        return encoder.state()
    names = getattr(model, "feature_names_in_", None)
    categories = getattr(model, "_categories", None)
    return model.n_features_in_, None if names is None else names.tolist(), categories


def inputs(model, classifier):
    if model is not classifier:
        return TABLE
    x = np.resize(ROWS[:40], (40, 4))
    if not hasattr(classifier, "feature_names_in_"):
        return x[:, :3]
    frame = pd.DataFrame(x[:, :3], columns=["a", "b", "c"])
    frame["town"] = np.resize(["Bonn", "Kiel", None, "Rome"], 40)
    return frame[[name for name in frame if name in classifier.feature_names_in_]]


def resumed(saved, path):
    """A run goes on from a mutated checkpoint, or refuses it."""
    try:
        weights = train(saved.name, path)
    except (ss.SavedFileError, RuntimeError, TypeError, AttributeError, KeyError) as error:
        assert_cheap(error)
        # The state of a user's optimizer is known to torch alone, which has its own errors.
        if not isinstance(error, ss.SavedFileError):
            frames = traceback.extract_tb(error.__traceback__)
            assert any("/torch/optim/" in frame.filename for frame in frames)
        return "refused"
    assert all(w.isfinite().all() for w in weights), "not finite"
    return "predicts"


def assert_cheap(error):
    """A refusal for lack of memory is an attempt to take it all."""
    while error is not None:
        assert not isinstance(error, MemoryError), "asked for too much memory"
        assert "allocate memory" not in str(error), "asked for too much memory"
        error = error.__cause__ or error.__context__


# --- the child process ---------------------------------------------------------------------------


def too_slow(*_):
    raise TooSlowError


def run(saved, number, seed, folder):
    """The record of one case."""
    rng = random.Random(f"{seed} {number}")
    data, how = mutated(saved, rng)
    path = folder / "mutated"
    path.write_bytes(data)
    (folder / "original").write_bytes(saved.data)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        found = outcome(saved, path)
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = round(time.process_time() - began, 3)
    return {"case": number, "file": saved.name, "how": how[:400], "is": found, "seconds": seconds}


def main(folder, seed, first, last):
    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, too_slow)
    files = [Saved(path) for path in sorted(Path(folder).iterdir()) if path.is_file()]
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    now = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + BYTES, now + BYTES))
    with tempfile.TemporaryDirectory() as name:
        for number in range(int(first), int(last)):
            print(number, flush=True)
            print(json.dumps(run(files[number % len(files)], number, seed, Path(name))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
