#!/usr/bin/env python3
"""Compare auto with what people use instead, on streams that name users, stores or products.

Every method predicts a row before it learns the row. hindsight takes the file as it is, with the
spec that it infers. Boosting gets each key as ordered target statistics (Prokhorenkova et al.,
CatBoost, NeurIPS 2018 §3.2): figures of the labels of earlier rows alone. The program needs
numpy, pandas and scikit-learn: Debian's python3-pandas and python3-sklearn.

    keys.py --data DIR [--streams melb,hotel] [--program bin/hindsight]
    keys.py --table           write keys.md from keys.csv, without running anything
"""

import argparse
import csv
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # Read by scikit-learn when it is imported.

import peers

RESULTS = peers.RESULTS
COLUMNS = ["stream", "method", "rows", "rmse", "microseconds"]
PRIOR = 5.0  # The weight of the running mean in a key's target mean, in rows.
EVERY = 1000  # Boosting is fitted after peers.FIRST_FITS rows, then after every EVERY rows.
DECAY = 0.3  # The weight of the newest label in a key's decayed label.

# A stream: its target, its keys, and the most rows.
STREAMS = {
    "ml100k": ("rating", ["user", "item"], 15_000),
    "restaurants": ("inspection_score", ["business_name"], None),
    "melb": ("Price", ["Suburb", "SellerG", "Postcode"], None),
    "kc_house": ("price", ["zipcode"], None),
    "tourism": ("Trips", ["Region", "State", "Purpose"], None),
    "hotel": ("avg_price_per_room", ["country", "agent", "company"], None),
    "nycflights": ("arr_delay", ["carrier", "tailnum", "flight", "origin", "dest"], None),
}
METHODS = {
    "auto": "hindsight, with the spec that it infers from the file",
    "boosting": "scikit-learn's HistGradientBoosting over the numbers, the parts of times and the ordered target statistics of "
    "each key (shrunk mean, count, last label, decayed label), fitted again on a schedule",
    "key_mean": "the shrunk mean of the earlier labels of the first key",
    "key_last": "the last label of the joint key",
    "running_mean": "the mean of the earlier labels",
}


def statistics(keys, y):
    """The shrunk mean, log count, last and decayed label of each row's key, of earlier rows alone."""
    import numpy as np

    known, total, out = {}, 0.0, np.zeros((len(y), 4))
    for t, (key, label) in enumerate(zip(keys, y)):
        mean = total / t if t else 0.0
        count, labels, last, decayed = known.get(key, (0, 0.0, mean, mean))
        out[t] = (labels + PRIOR * mean) / (count + PRIOR), np.log1p(count), last, decayed
        decayed = label if count == 0 else decayed + DECAY * (label - decayed)
        known[key] = count + 1, labels + label, label, decayed
        total += label
    return out


def columns(table, keys, y):
    """What boosting learns from, a row for each row of the stream."""
    import numpy as np
    import pandas as pd

    out = [statistics(zip(*(table[k] for k in keys)), y)]
    for name in table:
        cells = table[name]
        if name in keys:
            out.append(statistics(cells, y))
        elif pd.api.types.is_datetime64_any_dtype(cells):
            parts = cells.dt
            out.append(np.column_stack([parts.hour, parts.dayofweek, parts.dayofyear]))
        elif cells.dtype == object:
            out.append(pd.factorize(cells)[0][:, None])
        else:
            out.append(cells.to_numpy(float)[:, None])
    out.append(np.concatenate([[0.0], y[:-1]])[:, None])
    return np.hstack(out)


def read(path, name):
    """The inputs and labels of a stream, in its order."""
    import pandas as pd

    target, keys, most = STREAMS[name]
    table = pd.read_csv(path, nrows=most, dtype={k: str for k in keys})
    for column in table:
        if table[column].dtype == object and column not in keys and table[column].str.match(r"\d{4}-\d\d-\d\d").all():
            table[column] = pd.to_datetime(table[column])
    return table.drop(columns=target).fillna({k: "" for k in keys}), table[target].to_numpy(float)


def measure_auto(program, path, name):
    """The RMSE of auto, and the microseconds of a row."""
    target, _, most = STREAMS[name]
    with tempfile.NamedTemporaryFile("wt", suffix=".csv") as cut, gzip.open(path, "rt") as rows:
        for i, line in enumerate(rows):
            if most is None or i <= most:
                cut.write(line)
        cut.flush()
        call = [program, "compare", "--csv", cut.name, "--target", target, "--local", "--learners", "auto", "--json"]
        answer = subprocess.run(call, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise SystemExit(f"{name}: {answer.stderr}")
    learner = json.loads(answer.stdout)["learners"][0]
    return learner["rmse"], 1e6 * learner["secondsPerRow"]


def measure(program, path, name):
    import numpy as np

    x, y = read(path, name)
    keys = STREAMS[name][1]
    yield "auto", len(y), *measure_auto(program, path, name)
    began = time.process_time()
    outputs = {"boosting": peers.histogram_boosting(EVERY)(columns(x, keys, y), y)}
    spent = 1e6 * (time.process_time() - began) / len(y)
    outputs["key_mean"] = statistics(x[keys[0]], y)[:, 0]
    outputs["key_last"] = statistics(zip(*(x[k] for k in keys)), y)[:, 2]
    outputs["running_mean"] = np.concatenate([[0.0], (np.cumsum(y) / np.arange(1, len(y) + 1))[:-1]])
    for method, out in outputs.items():
        yield method, len(y), np.sqrt(((out - y)[1:] ** 2).mean()), spent if method == "boosting" else None


def load(path):
    if not path.exists():
        return {}
    with open(path, newline="") as f:
        return {(r["stream"], r["method"]): r for r in csv.DictReader(f)}


def save(path, rows):
    with open(path, "w", newline="") as f:
        w = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        w.writeheader()
        w.writerows(rows[s, m] for s in STREAMS for m in METHODS if (s, m) in rows)


def table(out):
    rows = load(out / "keys.csv")
    lines = [
        "# Streams that say who a row is about",
        "",
        "Generated by `make compare`; do not edit. Every method predicts a row before it learns the row. Figures are",
        "RMSE in the unit of the label over all rows but the first; the smallest of a stream is bold. Microseconds are",
        "of a row: for `auto` by the wall, through the server, for boosting of one processor.",
        "",
        "| stream | rows | keys | " + " | ".join(f"`{m}`" for m in METHODS) + " | µs: `auto` | `boosting` |",
        "| --- | ---: | --- |" + " ---: |" * (len(METHODS) + 2),
    ]
    for stream, (_, keys, _) in STREAMS.items():
        here = [rows.get((stream, m)) for m in METHODS]
        if here[0] is None:
            continue
        best = min(float(r["rmse"]) for r in here if r)
        cells = ["–" if r is None else f"**{float(r['rmse']):.4g}**" if float(r["rmse"]) == best else f"{float(r['rmse']):.4g}" for r in here]
        times = [f"{float(r['microseconds']):.0f}" if r else "–" for r in here[:2]]
        lines.append(f"| {stream} | {int(here[0]['rows']):,} | {', '.join(keys)} | " + " | ".join(cells + times) + " |")
    lines += ["", "The methods:", ""]
    lines += [f"- `{m}`: {about}." for m, about in METHODS.items()]
    lines += [
        "",
        f"The schedule is after {', '.join(str(t) for t in peers.FIRST_FITS)} rows and after every {EVERY:,} rows. The",
        "[streams](../README.md#streams-with-keys) are the first rows of the files of these names.",
    ]
    (out / "keys.md").write_text("\n".join(lines) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", default=os.environ.get("HINDSIGHT_STREAMS", ""), help="directory of the streams")
    p.add_argument("--out", type=pathlib.Path, default=RESULTS, help="directory of keys.csv and keys.md")
    p.add_argument("--streams", default=",".join(STREAMS))
    p.add_argument("--program", default=shutil.which("hindsight") or "bin/hindsight", help="the hindsight program, hindsight-server beside it")
    p.add_argument("--table", action="store_true", help="only write keys.md")
    a = p.parse_args()
    if not a.table:
        if not a.data:
            p.error("--data, or HINDSIGHT_STREAMS, names the directory of the streams")
        rows = load(a.out / "keys.csv")
        for stream in a.streams.split(","):
            path = pathlib.Path(a.data) / f"{stream}.csv.gz"
            if not path.exists():
                print(f"{stream}: no file, left out", flush=True)
                continue
            for figures in measure(a.program, path, stream):
                cells = ["" if v is None else f"{v:.6g}" if isinstance(v, float) else str(v) for v in (stream, *figures)]
                rows[stream, figures[0]] = dict(zip(COLUMNS, cells))
                print(" ".join(cells), flush=True)
                save(a.out / "keys.csv", rows)
    table(a.out)


if __name__ == "__main__":
    main()
