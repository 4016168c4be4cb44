"""A small job of every built-in kernel with an oracle written here in Python, for tests that run them on a device.

    for name, case in kernel_cases(folder).items():
        tandem run name *case.args --out {case.output}=@{case.place(folder, name)}
        case.check(self, case.place(folder, name))
"""
import math
import os
import random
import struct
import zlib

from processes import read_npy, write_npy

MASK = (1 << 64) - 1


def splitmix(seed, index):
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def philox4x32(key, counter):
    """Philox4x32-10, Salmon et al. 2011: key of two words, counter of four."""
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def pi_hits(seed, n):
    hits = 0
    for block in range((n + 3) // 4):
        words = philox4x32((seed & 0xFFFFFFFF, seed >> 32), (block & 0xFFFFFFFF, block >> 32, 0, 0))
        for word in words[:n - 4 * block]:
            x, y = (word & 0xFFFF) + 0.5, (word >> 16) + 0.5
            hits += x * x + y * y < 2.0 ** 32
    return hits


def call_price(spot, strike, years, rate, volatility):
    cdf = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))
    spread = volatility * math.sqrt(years)
    d1 = (math.log(spot / strike) + (rate + volatility ** 2 / 2) * years) / spread
    return spot * cdf(d1) - strike * math.exp(-rate * years) * cdf(d1 - spread)


def asian_price(task, spot, strike, years, rate, volatility, steps, paths, seed):
    uniform = lambda word: (word // 512 + 0.5) / 8388608
    step, payoffs = years / steps, 0
    for path in range(paths):
        log_stock, total = math.log(spot), 0
        for s in range(steps):
            words = philox4x32((seed, 0), (s // 4, path, task, 0))[s % 4 // 2 * 2:]
            radius, angle = math.sqrt(-2 * math.log(uniform(words[0]))), 2 * math.pi * uniform(words[1])
            normal = radius * (math.cos, math.sin)[s % 2](angle)
            log_stock += (rate - volatility ** 2 / 2) * step + volatility * math.sqrt(step) * normal
            total += math.exp(log_stock)
        payoffs += max(total / steps - strike, 0)
    return math.exp(-rate * years) * payoffs / paths


def smoothed(image, height, width, radius, sigma_space, sigma_value):
    at = lambda y, x: image[min(max(y, 0), height - 1) * width + min(max(x, 0), width - 1)]
    square = range(-radius, radius + 1)
    for y in range(height):
        for x in range(width):
            near = [(at(y + j, x + i), i * i + j * j) for j in square for i in square]
            weights = [math.exp(-d / (2 * sigma_space ** 2) - (v - at(y, x)) ** 2 / (2 * sigma_value ** 2)) for v, d in near]
            yield math.fsum(v * weight for (v, _), weight in zip(near, weights)) / math.fsum(weights)


def word_counts(letters, k, canonical):
    codes, counts = {"A": 0, "C": 1, "G": 2, "T": 3}, [0] * 4 ** k
    for i in range(len(letters) - k + 1):
        word = letters[i:i + k].upper()
        if all(c in codes for c in word):
            value = sum(codes[c] << 2 * (k - 1 - j) for j, c in enumerate(word))
            reverse = sum((3 - codes[c]) << 2 * j for j, c in enumerate(word))
            counts[min(value, reverse) if canonical else value] += 1
    return counts


def escape_steps(x, y, limit):
    z, c = 0j, complex(x, y)
    for step in range(limit):
        z = z * z + c
        if z.real ** 2 + z.imag ** 2 > 4:
            return step
    return limit


def png(width, height, rgb):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    rows = b"".join(b"\0" + rgb[y * width * 3:(y + 1) * width * 3] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def decode_png(data):
    """8-bit grey or RGB, not interlaced; all filters: width, height, rows of bytes."""
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    step = {0: 1, 2: 3}[colour]
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    size = width * step
    raw, rows, above = zlib.decompress(packed), [], bytes(size)
    for y in range(height):
        kind, line = raw[y * (size + 1)], bytearray(raw[y * (size + 1) + 1:(y + 1) * (size + 1)])
        for x in range(size):
            a, b, c = line[x - step] if x >= step else 0, above[x], above[x - step] if x >= step else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[x] = (line[x] + [0, a, b, (a + b) // 2, paeth][kind]) & 255
        above = bytes(line)
        rows.append(above)
    return width, height, rows


def sobel(width, height, rgb):
    luma = lambda x, y: sum(weight * c for weight, c in zip((77, 150, 29), rgb[3 * (min(max(y, 0), height - 1) * width +
                            min(max(x, 0), width - 1)):][:3])) >> 8
    def edge(x, y):
        gx = sum(weight * (luma(x + 1, y + j) - luma(x - 1, y + j)) for j, weight in ((-1, 1), (0, 2), (1, 1)))
        gy = sum(weight * (luma(x + i, y + 1) - luma(x + i, y - 1)) for i, weight in ((-1, 1), (0, 2), (1, 1)))
        return min(255, int(math.sqrt(gx * gx + gy * gy) / 4))
    return width, height, [bytes(edge(x, y) for x in range(width)) for y in range(height)]


def thumbnail(width, height, rgb, side):
    scale = min(1, side / max(width, height))
    across, down = (max(1, math.floor(length * scale + 0.5)) for length in (width, height))
    def pixel(x, y, c):
        box = [rgb[3 * (v * width + u) + c] for v in range(y * height // down, (y + 1) * height // down)
               for u in range(x * width // across, (x + 1) * width // across)]
        return math.floor(sum(box) / len(box) + 0.5)
    return across, down, [bytes(pixel(x, y, c) for x in range(across) for c in range(3)) for y in range(down)]


class Case:
    """A job: its operands and scalars as words, one of its outputs, and what that must be, within `delta` (0: the same)."""

    def __init__(self, tasks, args, output, expected, delta=0):
        self.tasks, self.args, self.output, self.expected, self.delta = tasks, args, output, list(expected), delta
        self.ragged = isinstance(self.expected[0], tuple)

    def place(self, folder, name):
        return os.path.join(folder, name) + ("/" if self.ragged else ".npy")

    def check(self, test, place):
        if self.ragged:
            found = []
            for name in sorted(os.listdir(place)):
                with open(os.path.join(place, name), "rb") as file:
                    found.append(decode_png(file.read()))
        else:
            found = read_npy(place)[1]
        test.assertEqual(len(found), len(self.expected))
        for i, (value, expected) in enumerate(zip(found, self.expected)):
            if self.delta:
                test.assertAlmostEqual(value, expected, delta=self.delta, msg=f"element {i}")
            else:
                test.assertEqual(value, expected, f"element {i}")


def kernel_cases(folder):
    """By the kernel's name; operands are written into the folder."""
    rng = random.Random(8)
    f32 = lambda value: struct.unpack("f", struct.pack("f", value))[0]
    floats = lambda n, low=-1, high=1: [f32(rng.uniform(low, high)) for _ in range(n)]

    def file(name, descr, shape, values):
        path = os.path.join(folder, name + ".npy")
        write_npy(path, descr, shape, values)
        return "@" + path

    n, m, k = 23, 9, 14
    rows, more, columns, bias = floats(n * k), floats(m * k), floats(k * m), floats(m)
    a = file("a", "<f4", (n, k), rows)
    x, y = floats(n), floats(n)
    spot, strike, years = floats(n, 80, 120), floats(n, 80, 120), floats(n, 0.1, 3)
    options = [f"{name}={file(name, '<f4', (n,), values)}"
               for name, values in (("spot", spot), ("strike", strike), ("years", years))] + ["rate=0.03", "volatility=0.25"]
    label = [float(rng.random() < 0.5) for _ in range(n)]
    scores = [math.fsum(rows[i * k + j] * columns[j] for j in range(k)) for i in range(n)]
    work = [rng.randrange(200) for _ in range(n)]
    keys = [rng.randrange(-9, 9) if rng.random() < 0.3 else rng.randrange(-1 << 63, 1 << 63) for _ in range(700)]
    values = rng.choices(range(256), weights=range(1, 257), k=3000)
    letters = "".join(rng.choices("ACGTacgtN", k=2000))
    image = floats(3 * 6 * 11, 0, 1)

    def spin(seed, task):
        state = ((seed ^ task) * 0x9E3779B97F4A7C15) & MASK
        for _ in range(work[task]):
            state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        return state

    os.mkdir(os.path.join(folder, "pictures"))
    pictures = []
    for i in range(5):
        width, height = rng.randint(1, 24), rng.randint(1, 18)
        pictures.append((width, height, bytes(rng.choices(range(256), k=width * height * 3))))
        with open(os.path.join(folder, "pictures", f"{i}.png"), "wb") as out:
            out.write(png(*pictures[-1]))
    image_words = [f"image=@{folder}/pictures"]

    return {
        "asian_option": Case(n, options + ["steps=5", "paths=37", "seed=6"], "price",
                             [asian_price(i, spot[i], strike[i], years[i], 0.03, 0.25, 5, 37, 6) for i in range(n)], 1e-3),
        "bilateral_filter": Case(3, [f"image={file('image', '<f4', (3, 6, 11), image)}", "radius=2", "sigma_space=1.5",
                                     "sigma_value=0.2"], "smooth",
                                 [v for i in range(3) for v in smoothed(image[66 * i:66 * (i + 1)], 6, 11, 2, 1.5, 0.2)], 1e-5),
        "black_scholes": Case(n, options, "call", [call_price(spot[i], strike[i], years[i], 0.03, 0.25) for i in range(n)], 2e-4),
        "gemm": Case(n, [f"a={a}", f"b={file('b', '<f4', (k, m), columns)}"], "c",
                     [math.fsum(rows[i * k + c] * columns[c * m + j] for c in range(k)) for i in range(n) for j in range(m)], 1e-5),
        "gradient": Case(n, [f"x={a}", f"label={file('label', '<f4', (n,), label)}", f"w={file('w', '<f4', (k,), columns[:k])}",
                             "--grain", "4"], "grad",
                         [math.fsum((1 / (1 + math.exp(-scores[i])) - label[i]) * rows[i * k + j] for i in range(n))
                          for j in range(k)], 1e-5),
        "histogram": Case(3000, [f"value={file('value', '|u1', (3000,), values)}", "--grain", "400"], "count",
                          [values.count(v) for v in range(256)]),
        "image_sobel": Case(5, image_words, "edges", [sobel(*picture) for picture in pictures]),
        "image_thumbnail": Case(5, image_words + ["side=7"], "thumbnail", [thumbnail(*picture, 7) for picture in pictures]),
        "kmer_count": Case(1996, [f"base={file('base', '|u1', (2000,), letters.encode())}", "k=5", "canonical=true",
                                  "--grain", "300"], "count", word_counts(letters, 5, True)),
        "linear": Case(n, [f"x={a}", f"w={file('rows', '<f4', (m, k), more)}", f"b={file('bias', '<f4', (m,), bias)}"], "y",
                       [math.fsum(rows[i * k + c] * more[j * k + c] for c in range(k)) + bias[j]
                        for i in range(n) for j in range(m)], 1e-5),
        "mandelbrot": Case(300, ["n=300", "width=20", "left=-2", "top=0.75", "pixel=0.125", "limit=50"], "steps",
                           [escape_steps(-2 + i % 20 * 0.125, 0.75 - i // 20 * 0.125, 50) for i in range(300)]),
        "monte_carlo_pi": Case(4003, ["n=4003", "seed=12345678901", "--grain", "500"], "hits", [pi_hits(12345678901, 4003)]),
        "noop": Case(500, ["n=500", "seed=5"], "value", [splitmix(5, i) for i in range(500)]),
        "saxpy": Case(n, ["scale=1.5", f"x={file('x', '<f4', (n,), x)}", f"y={file('y', '<f4', (n,), y)}"], "z",
                      [f32(f32(1.5 * x[i]) + y[i]) for i in range(n)]),
        "sort": Case(700, [f"key={file('key', '<i8', (700,), keys)}", "--grain", "100"], "sorted", sorted(keys)),
        "spin": Case(n, [f"work={file('work', '<u4', (n,), work)}", "seed=9"], "value", [spin(9, i) for i in range(n)]),
    }
