#!/usr/bin/env python3
"""A book of options as CSV. Needs nothing but Python.

book.py write BOOK                        a chain of options: 10 stocks, 50 expiries, 200 strikes; one line is wrong
book.py columns BOOK OUT                  OUT/spot.f32, strike.f32, years.f32: float32, little-endian
book.py check BOOK OUT RATE VOLATILITY    compares OUT/call.f32 and put.f32 with Black and Scholes' formula
"""
import array
import csv
import math
import os
import sys

COLUMNS = ("spot", "strike", "years")


def write(path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(COLUMNS)
        for stock in range(10):
            spot = 40 + 34.5 * stock
            for week in range(1, 51):
                for step in range(200):
                    years = -1 if (stock, week, step) == (7, 20, 100) else round(week * 7 / 365, 6)
                    out.writerow((spot, round(spot * (0.5 + step / 200), 2), years))


def columns(book, out):
    values = {name: array.array("f") for name in COLUMNS}
    with open(book, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name in COLUMNS:
                values[name].append(float(row[name]))
    for name, column in values.items():
        if sys.byteorder == "big":
            column.byteswap()
        with open(os.path.join(out, name + ".f32"), "wb") as file:
            column.tofile(file)


def read(path):
    values = array.array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    if sys.byteorder == "big":
        values.byteswap()
    return values


def worth(spot, strike, years, rate, volatility):
    """(call, put), with the normal distribution by the error function."""
    normal = lambda x: math.erfc(-x / math.sqrt(2)) / 2
    deviation = volatility * math.sqrt(years)
    d1 = (math.log(spot / strike) + rate * years) / deviation + deviation / 2
    paid = strike * math.exp(-rate * years)
    return (spot * normal(d1) - paid * normal(d1 - deviation), paid * normal(deviation - d1) - spot * normal(-d1))


def check(book, out, rate, volatility):
    rate, volatility = float(rate), float(volatility)
    prices = list(zip(read(os.path.join(out, "call.f32")), read(os.path.join(out, "put.f32")), strict=True))
    worst, wrong, sums = 0.0, 0, [0.0, 0.0]
    with open(book, encoding="utf-8") as file:
        next(file)
        for line, found in zip(file, prices, strict=True):
            spot, strike, years = map(float, line.split(","))
            if years < 0:
                wrong += 1
                continue
            for side, exact in enumerate(worth(spot, strike, years, rate, volatility)):
                worst = max(worst, abs(found[side] - exact) / spot)
                sums[side] += found[side]
    assert worst < 1e-5, f"a price is off by {worst} of its spot"
    print(f"{len(prices):,} options, {wrong} of them wrong; calls {sums[0]:,.0f}, puts {sums[1]:,.0f};",
          f"at most {worst:.1e} of the spot off")


if __name__ == "__main__":
    {"write": write, "columns": columns, "check": check}[sys.argv[1]](*sys.argv[2:])
