"""Computes anew what a server says of a model, from the rows that it has learned.

    python3 examples/regret.py ROWS.csv STATS.json

ROWS.csv has the features, and the label in its last column. The model is a linear_awv with
the scaling none and the ridge 0.1, and STATS.json is what "hindsight --json model stats"
prints of it. Every round solves a dense system from the rows before it, by the formulas of
docs/theory.md. Nothing here is from hindsight, and nothing but Python is needed.
"""

import csv
import json
import math
import sys

RIDGE = 0.1


def eliminate(matrix, columns):
    """Solves matrix · x = each column, and returns the solutions and log det(matrix)."""
    n = len(matrix)
    rows = [list(matrix[i]) + [c[i] for c in columns] for i in range(n)]
    log_determinant = 0.0
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        log_determinant += math.log(abs(rows[k][k]))
        for i in range(n):
            if i != k:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k])]
    return [[rows[i][n + j] / rows[i][i] for i in range(n)] for j in range(len(columns))], log_determinant


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def figures(rows):
    """The losses, the regret, the certificate and the guarantee after all rows."""
    n = len(rows[0])  # The features and the constant 1, since the label is not one.
    a = [[RIDGE * (i == j) for j in range(n)] for i in range(n)]
    b = [0.0] * n
    losses, certificate, largest = [], [], 0.0
    for *x, y in rows:
        z = [*x, 1.0]
        a = [[a[i][j] + z[i] * z[j] for j in range(n)] for i in range(n)]
        (weights, direction), _ = eliminate(a, [b, z])
        losses.append((y - dot(z, weights)) ** 2)  # The label of this round is not in b yet.
        certificate.append(y * y * dot(z, direction))
        b = [b[i] + y * z[i] for i in range(n)]
        largest = max(largest, abs(y))
    (best,), log_determinant = eliminate(a, [b])
    hindsight = math.fsum((y - dot([*x, 1.0], best)) ** 2 for *x, y in rows) + RIDGE * dot(best, best)
    return {
        "lossSum": math.fsum(losses),
        "hindsightLoss": hindsight,
        "regret": math.fsum(losses) - hindsight,
        "certificate": math.fsum(certificate),
        "regretBound": largest**2 * (log_determinant - n * math.log(RIDGE)),
    }


def main(rows_file, stats_file):
    with open(rows_file, newline="", encoding="utf-8") as file:
        rows = [[float(cell) for cell in row] for row in list(csv.reader(file))[1:]]
    with open(stats_file, encoding="utf-8") as file:
        reported = json.load(file)
    reported = reported.get("stats", reported)
    if int(reported["observations"]) != len(rows):
        sys.exit(f"the model has learned {reported['observations']} observations, the file has {len(rows)} rows")
    energy = math.fsum(row[-1] ** 2 for row in rows)
    worst = 0.0
    print(f"{'figure':15}{'from the rows':>17}{'of the server':>17}")
    for name, value in figures(rows).items():
        worst = max(worst, abs(value - reported[name]) / energy)
        print(f"{name:15}{value:17.9f}{reported[name]:17.9f}")
    print(f"they agree to {'1e-12' if worst < 1e-12 else worst} of the sum of the squared labels")
    return 0 if worst < 1e-12 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
