"""Faults, and what is promised for each, as a user meets them: on the command line.

"E": one line on standard error that names the trouble, exit code 2, nothing written. "W": a line
that begins with "softset: warning", and the work is done. The numbers are those of the list of
faults; what has no command of its own is tested in Python.
"""

import errno
import json
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest

import softset as ss
from softset import cli
from softset.classifiers.model import load_model, train_model
from softset.storage.container import read_file, write_file
from softset.storage.files import locked
from tests.tables.test_files import REFUSED, write

N = 80
FAST = ["--recipe", "boosting-tuned"]


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a command in an empty directory: exit code, output, lines on standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            with pytest.raises(SystemExit) as stop:
                cli.main([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return stop.value.code, out, [line for line in err.splitlines() if line]

    handler = signal.getsignal(signal.SIGTERM)
    yield call
    signal.signal(signal.SIGTERM, handler)


def refused(result, *words):
    code, out, err = result
    assert (code, out, len(err)) == (2, "", 1), err
    assert err[0].startswith("softset: error: ")
    assert not [w for w in words if w not in err[0]], err[0]


def warned(result, *words):
    code, _, err = result
    assert code == 0, err
    lines = [line for line in err if line.startswith("softset: warning: ")]
    assert sum(all(w in line for w in words) for line in lines) == 1, err


def table(n=N, **columns):
    random = np.random.default_rng(0)
    x = random.normal(size=n)
    frame = pd.DataFrame(
        {"x": x.round(4), "city": np.where(random.random(n) < 0.5, "Rome", "Oslo")}
    )
    frame["label"] = np.where(x + random.normal(scale=0.3, size=n) > 0.3, "yes", "no")
    return frame.assign(**columns)


def csv(frame, path="data.csv"):
    frame.to_csv(path, index=False)
    return path


# --- data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [pytest.param(*row[1:], id=f"{row[0]}-{i}") for i, row in enumerate(REFUSED)],
)
def test_1_to_12_and_19_files_that_are_refused(run, tmp_path, name, content, words):
    write(tmp_path / name, content)
    refused(run("train", name, "--target", "a"), *words)
    assert os.listdir(tmp_path) == [name]


def test_8_byte_order_mark(run, tmp_path):
    write(tmp_path / "data.csv", b"\xef\xbb\xbf" + table().to_csv(index=False).encode())
    assert run("train", "data.csv", "-t", "label", "--drop", "x", *FAST)[0] == 0


# (number, columns, words of the warning)
COLUMNS = [
    (14, {"price": [f"{i % 9},5" for i in range(N)]}, ["'price'", "decimal commas", "'0,5'"]),
    (15, {"code": [2**60 + i * i for i in range(N)]}, ["'code'", "2^53"]),
    (16, {"same": 1}, ["'same'", "constant", "left out"]),
]


@pytest.mark.parametrize(("number", "columns", "words"), COLUMNS)
def test_14_15_16_columns_that_look_wrong(run, number, columns, words):
    csv(table(**columns))
    warned(run("train", "data.csv", "-t", "label", *FAST), *words)


def test_13_missing_values_are_imputed_and_said(run):
    csv(table(hole=[None, 1.5, 2.5, None] * 20))
    code, _, err = run("train", "data.csv", "-t", "label", *FAST)
    assert code == 0
    assert [line for line in err if "'hole': 40 missing value(s) are filled" in line]
    names = load_model("data-boosting-tuned.softset").encoder.names_
    assert "hole (missing)" in names


def test_17_18_parquet_that_is_cut_or_nested(run, tmp_path):
    table().to_parquet("data.parquet")
    data = (tmp_path / "data.parquet").read_bytes()
    write(tmp_path / "data.parquet", data[: len(data) // 2])
    refused(run("train", "data.parquet", "-t", "label"), "data.parquet", "damaged or not whole")
    table(deep=[[1, 2]] * N).to_parquet("data.parquet")
    refused(run("train", "data.parquet", "-t", "label"), "'deep'", "nested")


def test_20_23_more_than_the_limit(run, monkeypatch):
    frame = table(20_000)
    frame.to_csv("data.csv.gz", index=False)
    csv(frame)
    monkeypatch.setenv("SOFTSET_LIMIT", "0.1")
    for name in ("data.csv", "data.csv.gz"):
        refused(run("train", name, "-t", "label"), name, "limit", "SOFTSET_LIMIT", "sample")


def test_21_columns_at_prediction(run):
    frame = table()
    csv(frame)
    assert run("train", "data.csv", "-t", "label", "-o", "m.softset", *FAST)[0] == 0
    expected = load_model("m.softset").predict_proba(frame)[:, 1]
    csv(frame[["city", "label", "x"]], "other.csv")
    assert run("predict", "m.softset", "other.csv", "-o", "p.csv")[0] == 0
    np.testing.assert_allclose(pd.read_csv("p.csv")["p_yes"], expected)
    refused(run("predict", "m.softset", csv(frame[["x"]], "less.csv")), "'city'", "missing")
    csv(frame.assign(new=1), "more.csv")
    warned(run("predict", "m.softset", "more.csv", "-o", "q.csv"), "'new'", "ignored")
    assert pd.read_csv("p.csv").equals(pd.read_csv("q.csv"))


def test_22_a_type_that_changes_late(run):
    csv(table(2000, late=["1"] * 1700 + ["x"] * 300, odd=[*map(str, range(9)), *"1" * 1990, "x"]))
    result = run("train", "data.csv", "-t", "label", "-o", "m.softset", *FAST)
    warned(result, "'odd'", "1 of 2000 cells are no numbers", "'x' in row 2000")
    kinds = {c.name: c.kind for c in load_model("m.softset").encoder.columns_}
    assert (kinds["late"], kinds["odd"]) == ("category", "number")


# --- labels ---------------------------------------------------------------------------------------

# (number, two labels as the file has them, the same as they come back)
ROUND_TRIPS = [
    (24, ("NA", "None"), ["NA", "None"]),
    (24, ('""', "nan"), ["", "nan"]),
    (25, ("01", "1"), ["01", "1"]),
    (32, ("True", "False"), ["False", "True"]),
    (32, ("-1", "1"), [-1, 1]),
    (32, ("0", "1"), [0, 1]),
    (32, ("1.0", "2.0"), [1.0, 2.0]),
]


@pytest.mark.parametrize(("number", "pair", "classes"), ROUND_TRIPS)
def test_24_25_32_labels_come_back_as_they_are(run, tmp_path, number, pair, classes):
    frame = table()
    lines = ["x,label"]
    lines += [
        f"{x},{pair[int(y == 'yes')]}" for x, y in zip(frame["x"], frame["label"], strict=True)
    ]
    write(tmp_path / "data.csv", "\n".join(lines) + "\n")
    assert run("train", "data.csv", "-t", "label", "-o", "m.softset", *FAST)[0] == 0
    model = load_model("m.softset")
    assert sorted(model.classes_.tolist()) == classes
    assert type(model.classes_.tolist()[0]) is type(classes[0])
    assert run("predict", "m.softset", "data.csv", "-o", "p.parquet")[0] == 0
    assert set(pd.read_parquet("p.parquet")["prediction"].tolist()) == set(classes)
    assert run("evaluate", "data.csv", "-t", "label", "--model", "m.softset", "-m", "f1")[0] == 0


# (number, column of labels, further arguments, words of the error)
LABELS = [
    (26, ["a"] * N, [], ["one class only: 'a'"]),
    (30, ["a", "b", None, "b"] * 20, [], ["'label' is missing in 20 row(s): 3, 7, 11"]),
    (30, [0, 1, None, 1] * 20, [], ["'label' is missing in 20 row(s): 3, 7, 11"]),
    (34, np.linspace(0, 1, N), [], ["continuous"]),
    (36, ["a", "b"] * 40, ["--pos-label", "c"], ["['a', 'b']", "'c'"]),
    (37, ["no", "yes"] * 40, ["--sample-weight", "w"], ["negative"]),
    (37, ["no", "yes"] * 40, ["--sample-weight", "w"], ["zero"]),
]


@pytest.mark.parametrize(("number", "labels", "more", "words"), LABELS)
def test_26_30_34_36_37_labels_that_are_refused(run, tmp_path, number, labels, more, words):
    weight = np.zeros(N) if "zero" in words else np.linspace(-1, 1, N)
    frame = table(label=labels)
    csv(frame.assign(w=weight) if "w" in more else frame)
    refused(run("train", "data.csv", "-t", "label", *more, *FAST), *words)
    assert os.listdir(tmp_path) == ["data.csv"]


def test_28_a_class_that_training_never_saw(run):
    csv(table())
    assert run("train", "data.csv", "-t", "label", "-o", "m.softset", *FAST)[0] == 0
    csv(table(label="maybe"), "new.csv")
    result = run("evaluate", "new.csv", "-t", "label", "--model", "m.softset")
    refused(result, "'maybe'", "'no', 'yes'")


def test_29_a_class_without_rows_to_hold_out(run):
    frame = table()
    frame.loc[0, "label"] = "once"
    csv(frame)
    warned(run("train", "data.csv", "-t", "label", *FAST), "'once'", "held out")


def test_31_names_that_differ_by_blanks(run):
    frame = table()
    frame.loc[:9, "label"] += " "
    csv(frame)
    warned(run("train", "data.csv", "-t", "label", *FAST), "'no', 'no '", "blanks")


def test_33_text_and_numbers_mixed():
    with pytest.raises(ValueError, match="mix text and numbers"):
        train_model(table()[["x"]], np.array(["a", 1] * 40, dtype=object))


def test_35_a_column_of_labels():
    y = table()["label"].to_numpy()[:, None]
    with pytest.warns(UserWarning, match=r"shape \(n, 1\)"):
        model = train_model(table()[["x"]], y, recipe="boosting-tuned")
    assert model.classes_.tolist() == ["no", "yes"]


def test_38_half_the_labels_flipped(run):
    frame = table(400)
    flip = np.random.default_rng(1).random(400) < 0.5
    frame["label"] = np.where(flip ^ (frame["label"] == "yes"), "yes", "no")
    csv(frame)
    assert run("train", "data.csv", "-t", "label", "-o", "m.softset", *FAST)[0] == 0
    assert np.isfinite(load_model("m.softset").predict_proba(frame)).all()


# --- configuration --------------------------------------------------------------------------------

# (number, arguments, words of the error)
ARGUMENTS = [
    (39, ["train", "data.csv", "-t", "label", "--metrc", "f1"], ["--metrc", "--metric"]),
    (39, ["train", "data.csv", "-t", "label", "-m", "f1x"], ["'f1x'", "Did you mean 'f1'"]),
    (39, ["train", "data.csv", "-t", "label", "--recipe", "warn"], ["Did you mean 'warm'"]),
    (39, ["compare", "data.csv", "-t", "label", "-m", "mc"], ["'mc'", "Did you mean 'mcc'"]),
    (39, ["compare", "data.csv", "-t", "label", "--candidate", "wam"], ["wam", "warm"]),
    (39, ["trian", "data.csv"], ["trian"]),
    (40, ["train", "data.csv", "-t", "label", "-m", "f0"], ["'f0'"]),
    (40, ["train", "data.csv", "-t", "label", "-m", "f-1"], ["'f-1'"]),
    (42, ["train", "data.csv", "-t", "label", "-m", "mcc_macro"], ["mcc is not averaged"]),
    (42, ["tune-threshold", "data.csv", "-t", "a", "--scores", "p", "-m", "auroc"], ["'auroc'"]),
    (43, ["train", "data.csv", "-t", "lable"], ["'lable'", "Did you mean 'label'", "'x', 'city'"]),
    (43, ["compare", "data.csv", "-t", "lable"], ["'lable'", "'label'"]),
    (43, ["compare", "data.csv", "-t", "label", "--groups", "who"], ["'who'", "Its columns"]),
    (43, ["train", "data.csv"], ["--target"]),
    (44, ["train", "data.csv", "-t", "label", "-o", "there.csv"], ["there.csv", "--force"]),
    (44, ["compare", "data.csv", "-t", "label", "-o", "old"], ["old", "--force", "--resume"]),
    (44, ["compare", "data.csv", "-t", "label", "-o", "there.csv"], ["is a file"]),
    (44, ["train", "data.csv", "-t", "label", "-o", "no/where"], ["no directory"]),
    (45, ["train", "data.csv", "-t", "label", "--device", "cuda"], ["--device"]),
    (46, ["evaluate", "data.csv", "-t", "a", "--scores", "p", "--threshold", "1"], ["(0, 1)"]),
    (46, ["evaluate", "data.csv", "-t", "a", "--scores", "x"], ["[0, 1]", "--logits"]),
    (46, ["compare", "data.csv", "-t", "label", "--time-limit", "-1"], ["--time-limit", "90s"]),
    (46, ["compare", "data.csv", "-t", "label", "--cv", "1"], ["cv", "[2, 100]"]),
    (0, ["train", "none.csv", "-t", "label"], ["no file 'none.csv'"]),
    (0, ["predict", "none.softset", "data.csv"], ["no file 'none.softset'"]),
    (0, ["report", "."], ["comparison.json"]),
    (0, ["compare", "data.csv", "-t", "label", "--force", "--resume"], ["--force", "--resume"]),
    (0, ["evaluate", "data.csv", "-t", "a"], ["p_1", "--scores"]),
    (0, ["evaluate", "data.csv", "-t", "a", "--scores", "p,x"], ["2 column(s), 1 expected"]),
    (0, ["evaluate", "data.csv", "-t", "a", "--scores", "city"], ["'city' must hold numbers"]),
]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [pytest.param(*row[1:], id=f"{row[0]}-{i}") for i, row in enumerate(ARGUMENTS)],
)
def test_39_to_46_arguments_that_are_refused(run, tmp_path, arguments, words):
    csv(table(a=[0, 1] * 40, b=[0, 0, 1, 1] * 20, p=np.linspace(0, 1, N)))
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "report.html").write_text("mine")
    refused(run(*arguments), *words)
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "old", "there.csv"]
    assert (tmp_path / "there.csv").read_text() == "mine"
    assert os.listdir(tmp_path / "old") == ["report.html"]


def test_40_41_46_settings_in_python():
    frame = table()
    small = {"recipe": "warm", "n_networks": 1, "max_epochs": 2, "hidden_layer_sizes": (4,)}
    for bad in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="learning_rate"):
            train_model(frame[["x"]], frame["label"], learning_rate=bad, **small)
    with pytest.raises(ValueError, match="beta"):
        ss.FBeta(-1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train_model(frame[["x"]], frame["label"], batch_size=10**6, **small)
    assert [w for w in caught if "all of them make one batch" in str(w.message)]
    for step in ({"delta": 0.6}, {"delta": -0.1}):
        with pytest.raises(ValueError, match="delta"):
            ss.LinearStep(**step)
    with pytest.raises(ValueError, match=r"0\.4"):
        ss.LinearStep.at_temperature(0.4)


# --- files and processes --------------------------------------------------------------------------


@pytest.fixture
def trained(run):
    csv(table())
    assert run("train", "data.csv", "-t", "label", "-o", "m.softset", *FAST)[0] == 0
    return run


AGAIN = ["train", "data.csv", "-t", "label", "-o", "m.softset", "--force", *FAST]


def test_57_disk_full(trained, tmp_path, monkeypatch):
    before = (tmp_path / "m.softset").read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    refused(trained(*AGAIN), "m.softset", "No space left", "older one is intact")
    assert (tmp_path / "m.softset").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "m.softset"]


def test_58_59_70_71_model_files_that_are_refused(trained, tmp_path):
    path = tmp_path / "m.softset"
    data = path.read_bytes()
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1
    path.write_bytes(damaged)
    refused(trained("predict", "m.softset", "data.csv"), "m.softset", "damaged")

    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"]["format"] = "1"
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])
    refused(trained("predict", "m.softset", "data.csv"), "m.softset", "format '1'")

    path.write_bytes(pickle.dumps({"model": 1}))
    refused(trained("predict", "m.softset", "data.csv"), "m.softset", "pickled")

    path.write_bytes(data)
    content = read_file(path, "model")
    for name in ("os.system", "Model", "MetricObjective"):
        write_file(path, "model", {**content, "classifier": name})
        refused(trained("predict", "m.softset", "data.csv"), "m.softset", name)
    write_file(path, "model", {"classifier": "MetricMLPClassifier"})
    refused(trained("predict", "m.softset", "data.csv"), "m.softset", "state is missing")


def test_60_what_a_killed_process_left_is_swept(trained, tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for number in (dead.pid, os.getppid()):
        (tmp_path / f"m.softset.{number}.tmp").write_bytes(b"half")
    assert trained(*AGAIN)[0] == 0
    left = [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
    assert left == [f"m.softset.{os.getppid()}.tmp"]  # that process lives: it may still write


@pytest.mark.slow  # of the file alone: tests/storage/test_container_faults.py
def test_56_a_kill_while_saving_leaves_the_old_model(trained, tmp_path):
    program = (
        "import os, signal\n"
        "from softset.classifiers.model import load_model\n"
        "model = load_model('m.softset')\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "model.save('m.softset', note='new')\n"
    )
    before = (tmp_path / "m.softset").read_bytes()
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    assert (tmp_path / "m.softset").read_bytes() == before
    assert trained("predict", "m.softset", "data.csv")[0] == 0


COMPARE = ["compare", "data.csv", "-t", "label", "-o", "out", "--quick", "--cv", "2"]
COMPARE += ["--jobs", "1", "--candidate", "boosting-tuned,boosting-metric"]


def comparison(path):
    document = json.loads((path / "comparison.json").read_text())
    return [(c["id"], c["scores"]) for c in document["candidates"]]


def test_27_62_63_two_runs_and_other_data(run, tmp_path):
    csv(table())
    code, out, _ = run(*COMPARE)
    assert code == 0
    assert out.splitlines()[1].startswith(("Stay with", "Use "))
    before = comparison(tmp_path / "out")
    with locked(tmp_path / "out" / "runs.jsonl"):
        refused(run(*COMPARE, "--json", "--resume"), "runs.jsonl", "in use by another run")
        refused(run(*COMPARE, "--json", "--force"), "runs.jsonl", "in use by another run")
    assert run(*COMPARE, "--resume")[0] == 0
    assert comparison(tmp_path / "out") == before
    refused(run(*COMPARE, "--json", "--resume", "--seed", "1"), "runs.jsonl", "settings")
    csv(table().assign(x=1.5 * table()["x"]))
    refused(run(*COMPARE, "--json", "--resume"), "runs.jsonl")
    assert comparison(tmp_path / "out") == before

    frame = table()
    frame.loc[0, "label"] = "once"
    csv(frame)
    result = run("compare", "data.csv", "-t", "label", "-o", "new", "--json")
    refused(result, "class 'once'", "fewer than cv=5")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_61_an_interrupted_comparison_goes_on(run, tmp_path, number, code):
    csv(table(300))
    program = [sys.executable, "-c", "from softset.cli import main; main()", *COMPARE]
    program += ["--repeats", "5"]
    process = subprocess.Popen(program, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    runs = tmp_path / "out" / "runs.jsonl"
    for _ in range(600):
        if runs.exists() and runs.read_text().count("\n") >= 3:
            break
        time.sleep(0.05)
    process.send_signal(number)
    said = process.communicate(timeout=30)[1].splitlines()[-1]
    assert process.returncode == code
    done = runs.read_text().count("\n") - 1
    assert 2 <= done < 10
    assert re.fullmatch(
        rf"softset: stopped; \d+ of 10 fits are stored in out/runs.jsonl. To continue: softset "
        rf"{re.escape(' '.join(COMPARE))} --repeats 5 --resume",
        said,
    ), said
    assert not (tmp_path / "out" / "report.html").exists()
    assert run(*COMPARE, "--repeats", "5", "--resume")[0] == 0
    lines = [json.loads(line) for line in runs.read_text().splitlines()[1:]]
    keys = [json.dumps(line["run"], sort_keys=True) for line in lines]
    assert len(keys) == len(set(keys)) == 10  # nothing twice


def children(number):
    found = []
    for task in os.listdir(f"/proc/{number}/task"):
        with open(f"/proc/{number}/task/{task}/children") as file:
            found += [int(word) for word in file.read().split()]
    return found


def is_worker(number):
    try:
        with open(f"/proc/{number}/cmdline", "rb") as file:
            return b"loky" in file.read().split(b"resource_tracker")[0]
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
def test_64_a_killed_worker_costs_its_run_only(run, tmp_path):
    csv(table(300))
    arguments = [a for a in COMPARE if a not in ("--jobs", "1")] + ["--repeats", "10"]
    assert run(*arguments)[0] == 0
    expected = comparison(tmp_path / "out")
    program = [sys.executable, "-c", "from softset.cli import main; main()", *arguments]
    program += ["--force", "--jobs", "2"]
    with subprocess.Popen(program, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        killed = 0
        while process.poll() is None and killed < 2:
            time.sleep(0.3)
            lines = (tmp_path / "out" / "runs.jsonl").exists()
            workers = [c for c in children(process.pid) if is_worker(c)] if lines else []
            if workers:
                os.kill(workers[0], signal.SIGKILL)
                killed += 1
                time.sleep(3)
        assert process.wait(300) == 0
    assert killed
    assert comparison(tmp_path / "out") == expected
    runs = (tmp_path / "out" / "runs.jsonl").read_text().splitlines()[1:]
    assert len(runs) == len({json.dumps(json.loads(line)["run"]) for line in runs}) == 20


@pytest.mark.slow
def test_61_ten_interruptions_change_nothing(run, tmp_path):
    csv(table(300))
    arguments = [*COMPARE, "--repeats", "12"]  # 24 runs
    assert run(*arguments)[0] == 0
    expected = comparison(tmp_path / "out")
    os.rename("out", "before")
    random = np.random.default_rng(0)
    program = [sys.executable, "-c", "from softset.cli import main; main()", *arguments, "--resume"]
    runs, stops = tmp_path / "out" / "runs.jsonl", []
    for _ in range(10):
        before = runs.read_bytes().count(b"\n") if runs.exists() else 0
        process = subprocess.Popen(program, cwd=tmp_path, stderr=subprocess.DEVNULL)
        wanted = before + random.integers(1, 3)
        while process.poll() is None:
            if runs.exists() and runs.read_bytes().count(b"\n") >= wanted:
                break
            time.sleep(0.02)
        process.send_signal(random.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
        stops.append(process.wait(60))
    assert sum(code in (130, 143, -9) for code in stops) >= 5, stops  # the rest had finished
    assert run(*arguments, "--resume")[0] == 0
    assert comparison(tmp_path / "out") == expected


# --- security -------------------------------------------------------------------------------------


def test_72_73_74_75_names_from_the_data_do_no_harm(run, tmp_path):
    evil = "</script><script>alert(1)</script>"
    frame = table(160).rename(columns={"city": "$x_{", "x": evil})
    frame["label"] = np.where(frame["label"] == "yes", "=cmd|'/c calc'!A1", evil)
    (tmp_path / "sub").mkdir()
    csv(frame, "sub/<b>data.csv")
    arguments = ["compare", "sub/../sub/<b>data.csv", *COMPARE[2:4], *COMPARE[6:]]
    assert run(*arguments, "--pos-label", "=cmd|'/c calc'!A1")[0] == 0
    out = tmp_path / "<b>data-f1"  # the default name: here, without the directories
    page = (out / "report.html").read_text()
    assert "<script>alert" not in page
    assert "<b>data" not in page
    assert run("report", "<b>data-f1")[0] == 0
    assert (out / "report.html").read_text() == page
    frame.to_csv("new.csv", index=False)
    assert run("predict", out / "model.softset", "new.csv", "-o", "p.csv")[0] == 0
    for line in (tmp_path / "p.csv").read_text().splitlines():
        assert not line.startswith(("=", "+", "-", "@"))
    for line in (out / "comparison.csv").read_text().splitlines():
        assert not line.startswith(("=", "+", "-", "@"))
