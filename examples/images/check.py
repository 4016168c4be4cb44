#!/usr/bin/env python3
"""check.py PHOTOS OUT: are OUT/edges the edges of OUT/small, and those small copies of PHOTOS? Needs nothing but Python."""
import math
import os
import struct
import sys
import zlib


def read_png(path):
    """(width, height, channels, rows of bytes) of an 8-bit PNG that is not interlaced."""
    with open(path, "rb") as file:
        text = file.read()
    assert text[:8] == b"\x89PNG\r\n\x1a\n", path
    at, packed = 8, b""
    while at < len(text):
        length, kind = struct.unpack(">I4s", text[at:at + 8])
        body = text[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and colour in (0, 2) and not interlace, path
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    channels = 1 if colour == 0 else 3
    return width, height, channels, unfilter(zlib.decompress(packed), width * channels, height, channels)


def unfilter(lines, pitch, height, step):
    """PNG, section 9: each line is what is left after a guess from its neighbours."""
    rows, above = [], bytearray(pitch)
    for y in range(height):
        begin = y * (pitch + 1)
        row = bytearray(lines[begin + 1:begin + 1 + pitch])
        kind = lines[begin]
        for x in range(pitch):
            left = row[x - step] if x >= step else 0
            up, corner = above[x], above[x - step] if x >= step else 0
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = up
            elif kind == 3:
                guess = (left + up) // 2
            elif kind == 4:
                guess = min((abs(up - corner), 0, left), (abs(left - corner), 1, up),
                            (abs(left + up - 2 * corner), 2, corner))[2]
            else:
                break
            row[x] = (row[x] + guess) & 255
        rows.append(row)
        above = row
    return rows


def edges_of(width, height, channels, rows):
    """Sobel's operator on luma, the border repeated."""
    luma = [[row[x] if channels == 1 else (77 * row[3 * x] + 150 * row[3 * x + 1] + 29 * row[3 * x + 2]) // 256
             for x in range(width)] for row in rows]
    for row in luma:
        row[:] = [row[0], *row, row[-1]]
    luma = [luma[0], *luma, luma[-1]]
    for y in range(1, height + 1):
        a, b, c = luma[y - 1:y + 2]
        yield bytes(min(255, math.isqrt(
            (a[x + 1] + 2 * b[x + 1] + c[x + 1] - a[x - 1] - 2 * b[x - 1] - c[x - 1]) ** 2 +
            (c[x - 1] + 2 * c[x] + c[x + 1] - a[x - 1] - 2 * a[x] - a[x + 1]) ** 2) // 4)
            for x in range(1, width + 1))


def main():
    photos, out = sys.argv[1:]
    names = sorted(os.listdir(os.path.join(out, "small")))
    pixels = 0
    for name in names:
        width, height, channels, rows = read_png(os.path.join(out, "small", name))
        assert max(width, height) <= 96, f"{name} is not small: {width} x {height}"
        across, down, one, edges = read_png(os.path.join(out, "edges", name))
        assert (across, down, one) == (width, height, 1), f"{name}: the edges have another size"
        assert list(edges_of(width, height, channels, rows)) == [bytes(row) for row in edges], f"{name}: other edges"
        pixels += width * height
    of = [name for name in os.listdir(photos) if not name.startswith(".")]
    lost = sorted(name for name in of if os.path.splitext(name)[0] + ".png" not in names)
    assert len(names) + len(lost) == len(of) and sorted(os.listdir(os.path.join(out, "edges"))) == names
    print(f"{len(names)} of {len(of)} pictures, {pixels:,} pixels of edges: all as computed again;",
          f"not readable: {', '.join(lost) or 'none'}")


if __name__ == "__main__":
    main()
